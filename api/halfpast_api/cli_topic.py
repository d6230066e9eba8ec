"""topic list, create, show, set, pause, resume: what topics hold and release."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from halfpast_api.cli_names import TopicName
from halfpast_api.cli_output import (
    USAGE,
    AsJson,
    CommandFailed,
    print_json,
    print_line,
    print_table,
)
from halfpast_api.cli_server import DEFAULT_SERVER, Server, guarded, retry_policy
from halfpast_api.cli_times import parse_span

if TYPE_CHECKING:
    from halfpast_api.topic_calls import TopicCalls, TopicView

R = TypeVar("R")


def register(app: typer.Typer) -> None:
    """Add `topic` with its commands."""
    topic = typer.Typer(
        name="topic",
        help="Topics: what they release, how fast, and how much may wait.",
        no_args_is_help=True,
    )
    topic.command("list")(list_topics)
    topic.command("set")(set_topic)
    for command in (create, show, pause, resume):
        topic.command()(command)
    app.add_typer(topic)


def list_topics(
    count: Annotated[int, typer.Option("--max", min=1)] = 100,
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """List topics by name, with how many events wait in each."""
    found = _with(server, lambda calls: calls.list(count), as_json)
    if as_json:
        for one in found:
            print_json(one)
    elif found:
        rows = [
            [one["name"], str(one["queues"]), f"{one.get('pending', 0):,}", _marks(one)]
            for one in found
        ]
        print_table(["NAME", "QUEUES", "PENDING", ""], rows)
    else:
        typer.echo("no topics", err=True)
        typer.echo("try:   halfpast publish TOPIC DATA, which makes one", err=True)


def create(
    topic: Annotated[str, typer.Argument(metavar="TOPIC")],
    queues: Annotated[
        int | None, typer.Option(min=1, help="How many may be read side by side.")
    ] = None,
    max_delay: Annotated[
        str | None, typer.Option("--max-delay", help="The longest delay: 400d.")
    ] = None,
    description: Annotated[str | None, typer.Option(help="For people.")] = None,
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """Make a topic. One that is published to makes itself."""

    async def work(calls: "TopicCalls") -> "TopicView":
        delay = None if max_delay is None else parse_span(max_delay)
        await calls.create(
            topic,
            queues=queues,
            max_delay_ms=None if delay is None else round(delay.total_seconds() * 1000),
            description=description,
        )
        return await calls.get(topic)

    _print(_with(server, work, as_json), as_json)


def show(
    topic: TopicName, server: Server = DEFAULT_SERVER, as_json: AsJson = False
) -> None:
    """Show a topic's settings, what waits, and what for."""
    _print(_with(server, lambda calls: calls.get(topic), as_json), as_json)


def pause(
    topic: TopicName, server: Server = DEFAULT_SERVER, as_json: AsJson = False
) -> None:
    """Let what is scheduled wait; what is published for now is delivered still."""
    _change(server, topic, as_json, paused=True)


def resume(
    topic: TopicName, server: Server = DEFAULT_SERVER, as_json: AsJson = False
) -> None:
    """Release what waits, the earliest first."""
    _change(server, topic, as_json, paused=False)


def set_topic(
    topic: TopicName,
    rate: Annotated[
        int | None, typer.Option(help="Releases per second; 0 for no limit.")
    ] = None,
    max_pending: Annotated[
        int | None, typer.Option(help="Scheduled events at most; 0 for no limit.")
    ] = None,
    accepting: Annotated[
        bool | None,
        typer.Option("--open/--close", help="Whether it takes events at all."),
    ] = None,
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """Change what a topic takes and releases; the rest stays."""
    settings = {
        "release_rate_per_s": rate,
        "max_pending": max_pending,
        "accepting": accepting,
    }
    given = {name: value for name, value in settings.items() if value is not None}
    _change(server, topic, as_json, **given)


def _marks(topic: dict[str, Any]) -> str:
    marks = ["paused"] if topic["paused"] else []
    marks += [] if topic["accepting"] else ["closed"]
    return ", ".join(marks)


def _change(server: str, topic: str, as_json: bool, **settings: Any) -> None:
    async def work(calls: "TopicCalls") -> "TopicView":
        if not settings:
            hint = f"halfpast topic set {topic} --rate 100"
            raise CommandFailed("nothing to change is given", code=USAGE, hint=hint)
        await calls.change(topic, **settings)
        return await calls.get(topic)

    _print(_with(server, work, as_json), as_json)


def _print(topic: "TopicView", as_json: bool) -> None:
    if as_json:
        print_json(topic)
        return
    rate = f"{topic.release_rate_per_s}/s" if topic.release_rate_per_s else "no limit"
    print_line(f"topic        {topic.name}  ({topic.queues} queues)")
    print_line(f"accepting    {'yes' if topic.accepting else 'no'}")
    print_line(f"paused       {'yes' if topic.paused else 'no'}")
    print_line(f"release      {rate}")
    print_line(f"max pending  {topic.max_pending or 'no limit'}")
    release = topic.release
    if release is None:
        typer.echo("the Delay Server does not answer: what waits is unknown", err=True)
        return
    about = "" if release.exact else "about "
    print_line(f"state        {release.state}")
    print_line(f"pending      {about}{release.pending:,}")
    print_line(f"due now      {release.due_now:,}")
    if release.oldest_due_at:
        print_line(f"oldest due   {release.oldest_due_at}")
    if release.retrying:
        print_line(f"retrying     {release.retrying:,}")
    if release.dead_letters:
        dead = f"{release.dead_letters:,}"
        print_line(f"dead         {dead}  (halfpast dead-letters list --delayed)")


def _with(
    server: str,
    work: "Callable[[TopicCalls], Coroutine[Any, Any, R]]",
    as_json: bool,
) -> R:
    from halfpast_api.topic_calls import TopicCalls

    async def run() -> R:
        async with TopicCalls(server, retry_policy()) as calls:
            return await work(calls)

    return guarded(lambda: asyncio.run(run()), server=server, as_json=as_json)
