"""topic show, set, pause, resume, and dead list, redrive: what topics release."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from halfpast_api.cli_output import (
    USAGE,
    AsJson,
    CommandFailed,
    print_json,
    print_line,
    print_table,
)
from halfpast_api.cli_server import DEFAULT_SERVER, Server, guarded, retry_policy

if TYPE_CHECKING:
    from halfpast_api.topic_calls import DeadLetterView, TopicCalls, TopicView

R = TypeVar("R")

PAGE_SIZE = 1000
Topic = Annotated[str, typer.Argument(metavar="TOPIC")]


def register(app: typer.Typer) -> None:
    """Add `topic` and `dead` with their commands."""
    topic = typer.Typer(
        name="topic",
        help="Topics: what they release, how fast, and how much may wait.",
        no_args_is_help=True,
    )
    topic.command("set")(set_topic)
    for command in (show, pause, resume):
        topic.command()(command)
    app.add_typer(topic)
    dead = typer.Typer(
        name="dead",
        help="Dead letters: scheduled events that their topic did not take.",
        no_args_is_help=True,
    )
    dead.command("list")(list_dead)
    dead.command()(redrive)
    app.add_typer(dead)


def show(
    topic: Topic, server: Server = DEFAULT_SERVER, as_json: AsJson = False
) -> None:
    """Show a topic's settings, what waits, and what for."""
    _print(_with(server, lambda calls: calls.get(topic), as_json), as_json)


def pause(
    topic: Topic, server: Server = DEFAULT_SERVER, as_json: AsJson = False
) -> None:
    """Let what is scheduled wait; what is published for now is delivered still."""
    _change(server, topic, as_json, paused=True)


def resume(
    topic: Topic, server: Server = DEFAULT_SERVER, as_json: AsJson = False
) -> None:
    """Release what waits, the earliest first."""
    _change(server, topic, as_json, paused=False)


def set_topic(
    topic: Topic,
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


def list_dead(
    topic: Annotated[str | None, typer.Option(help="Of this topic only.")] = None,
    count: Annotated[int, typer.Option("--max", min=1)] = 100,
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """List dead letters with the reason, the longest dead of a topic first."""

    async def work(calls: "TopicCalls") -> "list[DeadLetterView]":
        found: list[DeadLetterView] = []
        async for page in calls.dead_letters(topic, min(count, PAGE_SIZE)):
            found += page
            if len(found) >= count:
                break
        return found[:count]

    letters = _with(server, work, as_json)
    if as_json:
        for letter in letters:
            print_json(letter)
    elif letters:
        columns = ["ID", "TOPIC", "DEAD SINCE", "ATTEMPTS", "REASON"]
        rows = [
            [it.id, it.topic, it.dead_at or "", str(it.attempts), it.reason]
            for it in letters
        ]
        print_table(columns, rows)
    else:
        typer.echo("no dead letters", err=True)


def redrive(
    events: Annotated[list[str], typer.Argument(metavar="ID...")],
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """Have dead letters tried again, now."""

    async def work(calls: "TopicCalls") -> "list[DeadLetterView]":
        return [await calls.redrive(event) for event in events]

    for found in _with(server, work, as_json):
        if as_json:
            print_json(found)
        else:
            print_line(f"{found.state}  {found.id}  {found.topic}")


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
        print_line(f"dead         {release.dead_letters:,}  (halfpast dead list)")


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
