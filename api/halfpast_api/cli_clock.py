"""clock show, advance, set: the virtual clock of `halfpast dev --clock virtual`."""

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from halfpast_api.cli_output import AsJson, print_json, print_line
from halfpast_api.cli_server import DEFAULT_SERVER, Server, with_client
from halfpast_api.cli_times import parse_moment, parse_span, show_moment, show_span

if TYPE_CHECKING:
    import halfpast


def register(app: typer.Typer) -> None:
    """Add `clock` with its commands."""
    clock = typer.Typer(
        name="clock",
        help="The virtual clock of a server for tests: halfpast dev --clock virtual.",
        no_args_is_help=True,
    )
    clock.command()(show)
    clock.command()(advance)
    clock.command("set")(set_to)
    app.add_typer(clock)


def show(server: Server = DEFAULT_SERVER, as_json: AsJson = False) -> None:
    """Show the time. It stands still until it is moved."""

    async def work(client: "halfpast.Client") -> datetime:
        return await client.clock()

    _print(with_client(server, work, as_json=as_json), None, as_json)


def advance(
    span: Annotated[str, typer.Argument(metavar="SPAN", help="30m, 1h30m, 2d …")],
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """Move it forward; ends when all that became due on the way has been delivered."""

    async def work(client: "halfpast.Client") -> tuple[datetime, timedelta]:
        by = parse_span(span)
        before = await client.clock()
        now = await client.advance_clock(to=before + by)
        return now, now - before

    now, moved = with_client(server, work, as_json=as_json)
    _print(now, moved, as_json)


def set_to(
    moment: Annotated[
        str, typer.Argument(metavar="TIME", help="Such as 2026-01-01T00:00Z.")
    ],
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """Move it forward to a moment. It never goes back."""

    async def work(client: "halfpast.Client") -> tuple[datetime, timedelta]:
        to = parse_moment(moment)
        before = await client.clock()
        now = await client.advance_clock(to=to)
        return now, now - before

    now, moved = with_client(server, work, as_json=as_json)
    _print(now, moved, as_json)


def _print(now: datetime, moved: timedelta | None, as_json: bool) -> None:
    if as_json:
        print_json({"now": now} if moved is None else _moved(now, moved))
    elif moved is None:
        print_line(show_moment(now))
    else:
        print_line(f"{show_moment(now)}  moved by {show_span(moved)}")


def _moved(now: datetime, moved: timedelta) -> dict[str, object]:
    return {"now": now, "moved_ms": round(moved / timedelta(milliseconds=1))}
