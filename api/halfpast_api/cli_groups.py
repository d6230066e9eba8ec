"""pop, ack, nack: what a consumer group does, by hand."""

from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from halfpast_api.cli_names import GroupName, TopicName
from halfpast_api.cli_output import REFUSED, AsJson, print_json, print_line
from halfpast_api.cli_server import DEFAULT_SERVER, Server, with_client
from halfpast_api.cli_tail import delivery_line
from halfpast_api.cli_times import parse_span

if TYPE_CHECKING:
    import halfpast

Receipts = Annotated[list[str], typer.Argument(metavar="RECEIPT...")]


class FilterType(StrEnum):
    """What a filter is written in."""

    TAG = "tag"
    SQL92 = "sql92"


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command()(pop)
    app.command()(ack)
    app.command()(nack)


def pop(
    group: GroupName,
    topic: TopicName,
    count: Annotated[int, typer.Option("--max", min=1, max=1000)] = 1,
    wait: Annotated[str, typer.Option(help="For the first one: 5s, 1m.")] = "0s",
    invisible: Annotated[
        str, typer.Option(help="Others get it again after this long.")
    ] = "60s",
    wanted: Annotated[
        str | None, typer.Option("--filter", help="Tags: 'paid || refunded'.")
    ] = None,
    filter_type: Annotated[
        FilterType,
        typer.Option(
            help="sql92: the filter is such as \"region = 'eu' AND amount > 9\"."
        ),
    ] = FilterType.TAG,
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """Take messages for a group; acknowledge them with 'halfpast ack'."""

    async def work(client: "halfpast.Client") -> "list[halfpast.Message]":
        return await client.pop(
            group,
            topic,
            max_messages=count,
            wait=parse_span(wait),
            invisible=parse_span(invisible),
            filter=wanted,
            filter_type=filter_type.value,
        )

    messages = with_client(server, work, as_json=as_json)
    for message in messages:
        if as_json:
            print_json(message)
        else:
            print_line(delivery_line(message))
            print_line(f"  receipt {message.receipt}")
    if not messages and not as_json:
        typer.echo(f"nothing in {topic} for {group}", err=True)


def ack(
    group: GroupName,
    receipts: Receipts,
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """Say that popped messages are done."""
    results = with_client(
        server, lambda client: client.ack(group, receipts), as_json=as_json
    )
    _print_settled("acked", receipts, results, as_json=as_json)


def nack(
    group: GroupName,
    receipts: Receipts,
    delay: Annotated[
        str | None, typer.Option(help="When to offer them again: 30s.")
    ] = None,
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """Say that popped messages failed, so that they come again."""

    async def work(client: "halfpast.Client") -> "list[halfpast.Settled]":
        span: timedelta | None = None if delay is None else parse_span(delay)
        return await client.nack(group, receipts, delay=span)

    results = with_client(server, work, as_json=as_json)
    _print_settled("nacked", receipts, results, as_json=as_json)


def _print_settled(
    verb: str,
    receipts: list[str],
    results: "list[halfpast.Settled]",
    *,
    as_json: bool,
) -> None:
    for receipt, result in zip(receipts, results, strict=True):
        if as_json:
            print_json({"receipt": receipt, "ok": result.ok, "code": result.code})
        else:
            print_line(f"{verb if result.ok else result.code}  {receipt}")
    if not all(result.ok for result in results):
        raise typer.Exit(REFUSED)
