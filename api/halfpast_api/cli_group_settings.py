"""group list, show, set, lag: the settings of consumer groups, and where they stand."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from halfpast_api.cli_names import GroupName, TopicName
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
    from halfpast_api.group_calls import GroupCalls, GroupView, LagView

R = TypeVar("R")


def register(app: typer.Typer) -> None:
    """Add `group` with its commands."""
    group = typer.Typer(
        name="group",
        help="Consumer groups: how they get messages, and how far they are behind.",
        no_args_is_help=True,
    )
    group.command("list")(list_groups)
    group.command("set")(set_group)
    group.command()(show)
    group.command()(lag)
    app.add_typer(group)


def list_groups(
    count: Annotated[int, typer.Option("--max", min=1)] = 100,
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """List consumer groups by name."""
    found = _with(server, lambda calls: calls.list(count), as_json)
    if as_json:
        for one in found:
            print_json(one)
    elif found:
        rows = [
            [
                *(one["name"], f"{one['max_attempts']}", f"{one['invisible_ms']} ms"),
                "ordered" if one["ordered"] else "",
            ]
            for one in found
        ]
        print_table(["NAME", "ATTEMPTS", "INVISIBLE", ""], rows)
    else:
        typer.echo("no groups", err=True)
        typer.echo("try:   halfpast pop GROUP TOPIC, which makes one", err=True)


def show(
    group: GroupName, server: Server = DEFAULT_SERVER, as_json: AsJson = False
) -> None:
    """Show a group's settings."""
    _print(_with(server, lambda calls: calls.get(group), as_json), as_json)


def set_group(
    group: GroupName,
    ordered: Annotated[
        bool | None,
        typer.Option(
            "--ordered/--unordered",
            help="Whether messages of a key come one at a time, in order.",
        ),
    ] = None,
    max_attempts: Annotated[
        int | None, typer.Option(help="After so many it is a dead letter.")
    ] = None,
    backoff: Annotated[
        str | None, typer.Option(help="The first pause: 1s; then twice as long.")
    ] = None,
    backoff_max: Annotated[str | None, typer.Option(help="The longest pause.")] = None,
    invisible: Annotated[
        str | None, typer.Option(help="Others get it again after this long.")
    ] = None,
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """Change a group's settings; the rest stays."""
    settings = {
        "ordered": ordered,
        "max_attempts": max_attempts,
        "backoff_initial_ms": _span_ms(backoff),
        "backoff_max_ms": _span_ms(backoff_max),
        "invisible_ms": _span_ms(invisible),
    }
    given = {name: value for name, value in settings.items() if value is not None}

    async def work(calls: "GroupCalls") -> "GroupView":
        if not given:
            hint = f"halfpast group set {group} --ordered"
            raise CommandFailed("nothing to change is given", code=USAGE, hint=hint)
        return await calls.change(group, **given)

    _print(_with(server, work, as_json), as_json)


def lag(
    group: GroupName,
    topic: TopicName,
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """Show how far a group is behind in a topic."""
    found: LagView = _with(server, lambda calls: calls.lag(group, topic), as_json)
    if as_json:
        print_json(found)
        return
    print_line(f"group      {found.group}")
    print_line(f"topic      {found.topic}")
    print_line(f"lag        {found.lag:,}")
    print_line(f"in flight  {found.in_flight:,}")
    print_line(f"held back  {found.held_back:,}")


def _print(group: "GroupView", as_json: bool) -> None:
    if as_json:
        print_json(group)
        return
    print_line(f"group      {group.name}")
    print_line(f"ordered    {'yes' if group.ordered else 'no'}")
    print_line(f"attempts   {group.max_attempts:,}")
    first_s, last_s = group.backoff_initial_ms / 1000, group.backoff_max_ms / 1000
    print_line(f"pauses     {first_s:g}s to {last_s:g}s")
    print_line(f"invisible  {group.invisible_ms / 1000:g}s")


def _span_ms(text: str | None) -> int | None:
    return None if text is None else round(parse_span(text).total_seconds() * 1000)


def _with(
    server: str,
    work: "Callable[[GroupCalls], Coroutine[Any, Any, R]]",
    as_json: bool,
) -> R:
    from halfpast_api.group_calls import GroupCalls

    async def run() -> R:
        async with GroupCalls(server, retry_policy()) as calls:
            return await work(calls)

    return guarded(lambda: asyncio.run(run()), server=server, as_json=as_json)
