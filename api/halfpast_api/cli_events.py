"""publish, get, list, deliver-now."""

import sys
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from halfpast_api.cli_candidates import topics
from halfpast_api.cli_names import TopicName
from halfpast_api.cli_output import (
    AsJson,
    print_json,
    print_line,
    print_table,
)
from halfpast_api.cli_server import DEFAULT_SERVER, Server, with_client
from halfpast_api.cli_times import parse_moment, parse_span, show_moment, show_span

if TYPE_CHECKING:
    import halfpast

EventId = Annotated[str, typer.Argument(metavar="ID", help="As 'publish' told it.")]
Delay = Annotated[
    str | None, typer.Option(help="Deliver after this long: 250ms, 30m, PT30M.")
]
At = Annotated[
    str | None, typer.Option(help="Deliver at this time: 2026-11-20T18:00:00Z.")
]


class DataKind(StrEnum):
    """What DATA is. `auto`: JSON if it is JSON, else text."""

    AUTO = "auto"
    JSON = "json"
    TEXT = "text"
    BYTES = "bytes"


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command()(publish)
    app.command()(get)
    app.command("list")(list_events)
    app.command("deliver-now")(deliver_now)


def publish(
    topic: TopicName,
    data: Annotated[
        str | None, typer.Argument(metavar="[DATA|-]", help="- reads standard input.")
    ] = None,
    delay: Delay = None,
    at: At = None,
    key: Annotated[str | None, typer.Option(help="Your own name for it.")] = None,
    tag: Annotated[str | None, typer.Option(help="For consumers to filter by.")] = None,
    properties: Annotated[
        list[str] | None, typer.Option("--property", metavar="NAME=VALUE")
    ] = None,
    kind: Annotated[DataKind, typer.Option("--as", help="What DATA is.")] = (
        DataKind.AUTO
    ),
    idempotency_key: Annotated[
        str | None, typer.Option(help="Repeating it publishes nothing new.")
    ] = None,
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """Publish an event, now or later."""

    async def work(client: "halfpast.Client") -> "halfpast.Published":
        return await client.publish(
            topic,
            read_data(data, kind),
            key=key,
            tag=tag,
            properties=dict(read_property(text) for text in properties or []),
            deliver_at=None if at is None else parse_moment(at),
            delay=None if delay is None else parse_span(delay),
            idempotency_key=idempotency_key,
        )

    published = with_client(server, work, as_json=as_json)
    if as_json:
        print_json(published)
    elif published.deliver_at is None:
        print_line(f"stored     {published.id}  topic {published.topic}")
    else:
        print_line(
            f"scheduled  {published.id}  topic {published.topic}"
            f"  for {show_when(published.deliver_at, published.due_in)}"
        )


def get(
    event_id: EventId, server: Server = DEFAULT_SERVER, as_json: AsJson = False
) -> None:
    """Show an event: its state, its times, its time line."""
    event = with_client(server, lambda client: client.get(event_id), as_json=as_json)
    print_json(event) if as_json else _print_event(event)


def list_events(
    topic: Annotated[str | None, typer.Option(autocompletion=topics)] = None,
    key: Annotated[str | None, typer.Option()] = None,
    tag: Annotated[str | None, typer.Option()] = None,
    state: Annotated[
        str, typer.Option(help="scheduled, delivered, cancelled or dead.")
    ] = "scheduled",
    due_after: Annotated[str | None, typer.Option(help="A time.")] = None,
    due_before: Annotated[str | None, typer.Option(help="A time.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most so many.")] = 50,
    data: Annotated[bool, typer.Option("--data", help="Show what is in them.")] = False,
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """List scheduled events by due time."""

    async def work(client: "halfpast.Client") -> "list[halfpast.Event]":
        import halfpast

        found: list[halfpast.Event] = []
        events = client.events(
            topic=topic,
            key=key,
            tag=tag,
            state=halfpast.EventState(state),
            due_after=None if due_after is None else parse_moment(due_after),
            due_before=None if due_before is None else parse_moment(due_before),
            page_size=min(limit, 1000),
            data=data,
        )
        async for event in events:
            found.append(event)
            if len(found) == limit:
                break
        return found

    found = with_client(server, work, as_json=as_json)
    if as_json:
        for event in found:
            print_json(event)
    elif not found:
        print_line(f"nothing {state}")
    else:
        _print_events(found, data)
        if len(found) == limit:
            typer.echo(f"the first {limit}; more with --limit", err=True)


def deliver_now(
    event_id: EventId, server: Server = DEFAULT_SERVER, as_json: AsJson = False
) -> None:
    """Deliver a waiting event at once."""
    event = with_client(
        server, lambda client: client.deliver_now(event_id), as_json=as_json
    )
    if as_json:
        print_json(event)
    else:
        print_line(f"promoted   {event.id}")


def read_data(text: str | None, kind: DataKind) -> object:
    """DATA as the SDK takes it. Raises ValueError if it is not of its kind."""
    import msgspec

    if text is None:
        return None
    raw = sys.stdin.buffer.read() if text == "-" else text.encode()
    if kind is DataKind.BYTES:
        return raw
    if kind is DataKind.TEXT:
        return raw.decode()
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        if kind is DataKind.JSON:
            raise ValueError(f"DATA is not JSON: {error}") from None
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise ValueError("DATA is neither JSON nor text; use --as bytes") from None


def read_property(text: str) -> tuple[str, str]:
    """NAME=VALUE. Raises ValueError for anything else."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise ValueError(f"--property {text!r} must be NAME=VALUE")
    return name, value


def show_when(moment: datetime | None, ahead: timedelta | None = None) -> str:
    """`ahead`: how far, if the server has told; else by our clock."""
    if moment is None:
        return "at once"
    if ahead is None:
        ahead = moment - datetime.now(UTC)
    if ahead < timedelta(0):
        return show_moment(moment)
    return f"{show_moment(moment)} (in {show_span(ahead)})"


def _print_events(events: "list[halfpast.Event]", with_data: bool) -> None:
    import msgspec

    columns = ["due", "topic", "id", "key", "tag"]
    rows = [
        [show_when(e.deliver_at), e.topic, e.id, e.key or "", e.tag or ""]
        for e in events
    ]
    if with_data:
        columns.append("data")
        for row, event in zip(rows, events, strict=True):
            row.append(msgspec.json.encode(event.data).decode())
    print_table(columns, rows)


def _print_event(event: "halfpast.Event") -> None:
    import msgspec

    data = event.data
    lines = [
        ("id", event.id),
        ("topic", event.topic),
        ("state", event.state.value),
        ("key", event.key),
        ("tag", event.tag),
        ("due", event.deliver_at and show_moment(event.deliver_at)),
        ("late by", event.lateness is not None and show_span(event.lateness)),
        ("version", str(event.version)),
        ("properties", event.properties and str(dict(event.properties))),
        ("data", data is not None and msgspec.json.encode(data).decode()),
    ]
    for name, value in lines:
        if value:
            print_line(f"{name:<11}{value}")
    for entry in event.timeline:
        print_line(f"  {show_moment(entry.at)}  {entry.what}")
