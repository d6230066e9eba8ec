"""cancel and reschedule: one event, or all that a filter means."""

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from halfpast_api.cli_bulk import (
    Apply,
    DryRun,
    DueAfter,
    DueBefore,
    Key,
    NoWait,
    Tag,
    Wish,
    Yes,
    carry_out,
)
from halfpast_api.cli_events import At, Delay, show_when
from halfpast_api.cli_names import OfTopic
from halfpast_api.cli_output import (
    REFUSED,
    USAGE,
    AsJson,
    CommandFailed,
    print_json,
    print_line,
)
from halfpast_api.cli_server import DEFAULT_SERVER, Server, guarded, with_client
from halfpast_api.cli_times import parse_moment, parse_span

if TYPE_CHECKING:
    import halfpast

EventId = Annotated[
    str | None, typer.Argument(metavar="[ID]", help="One event, as 'list' shows it.")
]


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command()(cancel)
    app.command()(reschedule)


def cancel(
    event_id: EventId = None,
    topic: OfTopic = None,
    key: Key = None,
    tag: Tag = None,
    due_after: DueAfter = None,
    due_before: DueBefore = None,
    every: Apply = False,
    dry_run: DryRun = False,
    no_wait: NoWait = False,
    yes: Yes = False,
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """Stop an event from being delivered, or all that a filter means.

    Exits with 1 if the event is delivered already. With a filter: count first with
    --dry-run, then --all.
    """
    wish = Wish(
        "cancel", topic, key, tag, due_after, due_before, every, dry_run, no_wait, yes
    )
    guarded(lambda: wish.check(event_id), server=server, as_json=as_json)
    if event_id is not None:
        _cancel_one(event_id, server, as_json)
        return

    async def begin(client: "halfpast.Client") -> "halfpast.Operation":
        return await client.cancel_events(
            every=wish.is_everything, dry_run=dry_run, **wish.filter()
        )

    carry_out(wish, begin, server, as_json)


def reschedule(
    event_id: EventId = None,
    delay: Delay = None,
    at: At = None,
    shift: Annotated[
        str | None,
        typer.Option(help="With a filter: by so much from where each is: 1h, -30m."),
    ] = None,
    topic: OfTopic = None,
    key: Key = None,
    tag: Tag = None,
    due_after: DueAfter = None,
    due_before: DueBefore = None,
    every: Apply = False,
    dry_run: DryRun = False,
    no_wait: NoWait = False,
    yes: Yes = False,
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """Move a waiting event to another time, or all that a filter means."""
    move = "reschedule"
    wish = Wish(
        move, topic, key, tag, due_after, due_before, every, dry_run, no_wait, yes
    )

    def check() -> None:
        wish.check(event_id)
        if event_id is not None and shift is not None:
            raise CommandFailed("--shift is for a filter", code=USAGE)

    guarded(check, server=server, as_json=as_json)
    if event_id is not None:
        _reschedule_one(event_id, delay, at, server, as_json)
        return

    async def begin(client: "halfpast.Client") -> "halfpast.Operation":
        return await client.reschedule_events(
            shift=None if shift is None else _signed_span(shift),
            deliver_at=_moment(delay, at),
            every=wish.is_everything,
            dry_run=dry_run,
            **wish.filter(),
        )

    carry_out(wish, begin, server, as_json)


def _cancel_one(event_id: str, server: str, as_json: bool) -> None:
    import halfpast

    outcome = with_client(
        server, lambda client: client.cancel(event_id), as_json=as_json
    )
    if as_json:
        print_json({"id": event_id, "outcome": outcome})
        if outcome is not halfpast.Outcome.CANCELLED:
            raise typer.Exit(REFUSED)
        return
    if outcome is halfpast.Outcome.CANCELLED:
        print_line(f"cancelled  {event_id}")
        return
    if outcome is halfpast.Outcome.TOO_LATE:
        text, hint = "too late: it has been delivered", f"halfpast get {event_id}"
    else:
        text, hint = f"there is no event {event_id}", "halfpast list"

    def fail() -> None:
        raise CommandFailed(text, hint=hint)

    guarded(fail, server=server, as_json=as_json)


def _reschedule_one(
    event_id: str, delay: str | None, at: str | None, server: str, as_json: bool
) -> None:
    async def work(client: "halfpast.Client") -> "halfpast.Event":
        return await client.reschedule(
            event_id,
            deliver_at=None if at is None else parse_moment(at),
            delay=None if delay is None else parse_span(delay),
        )

    event = with_client(server, work, as_json=as_json)
    if as_json:
        print_json(event)
    else:
        print_line(f"scheduled  {event.id}  for {show_when(event.deliver_at)}")


def _signed_span(text: str) -> timedelta:
    if text.startswith("-"):
        return -parse_span(text[1:])
    return parse_span(text.removeprefix("+"))


def _moment(delay: str | None, at: str | None) -> datetime | None:
    if delay is not None and at is not None:
        raise ValueError("give --delay or --at, not both")
    if delay is not None:
        return datetime.now(UTC) + parse_span(delay)
    return None if at is None else parse_moment(at)
