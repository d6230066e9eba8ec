"""tx begin, commit, rollback: what a producer does, by hand."""

from typing import TYPE_CHECKING, Annotated

import typer

from halfpast_api.cli_events import At, DataKind, Delay, read_data, read_property
from halfpast_api.cli_names import TopicName
from halfpast_api.cli_output import AsJson, print_json, print_line
from halfpast_api.cli_server import DEFAULT_SERVER, Server
from halfpast_api.cli_times import parse_moment, parse_span
from halfpast_api.cli_tx_client import TransactionId, with_transactions
from halfpast_api.cli_tx_view import print_ended

if TYPE_CHECKING:
    from halfpast_api.transaction_calls import BegunView, TransactionCalls


def register(tx: typer.Typer) -> None:
    """Add the commands of this module."""
    for command in (begin, commit, rollback):
        tx.command()(command)


def begin(
    group: Annotated[str, typer.Argument(metavar="GROUP", help="The producer group.")],
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
    reference: Annotated[
        str | None, typer.Option(help="Your own word for the transaction.")
    ] = None,
    check_after: Annotated[
        str | None, typer.Option(help="When to check back first: 6s, 1m.")
    ] = None,
    idempotency_key: Annotated[
        str | None, typer.Option(help="Repeating it begins nothing new.")
    ] = None,
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """Begin a transaction with one message.

    Nobody sees it before the commit; a delay begins with the commit.
    """

    async def work(calls: "TransactionCalls") -> "BegunView":
        from halfpast.request_body import milliseconds, timing

        message: dict[str, object] = {
            "topic": topic,
            **_data(read_data(data, kind)),
            **timing(
                None if at is None else parse_moment(at),
                None if delay is None else parse_span(delay),
            ),
            "key": key,
            "tag": tag,
            "properties": dict(read_property(text) for text in properties or []),
        }
        after = None if check_after is None else parse_span(check_after)
        return await calls.begin(
            group,
            [{name: value for name, value in message.items() if value is not None}],
            reference=reference,
            check_after_ms=None if after is None else milliseconds(after),
            idempotency_key=idempotency_key,
        )

    begun = with_transactions(server, work, as_json=as_json)
    if as_json:
        print_json(begun)
        return
    print_line(f"prepared   {begun.id}  group {begun.producer_group}  topic {topic}")
    typer.echo(f"next:  halfpast tx commit {begun.id}, or tx rollback", err=True)


def commit(
    transaction: TransactionId, server: Server = DEFAULT_SERVER, as_json: AsJson = False
) -> None:
    """Deliver the messages of a transaction."""
    _end(transaction, "commit", server, as_json=as_json)


def rollback(
    transaction: TransactionId, server: Server = DEFAULT_SERVER, as_json: AsJson = False
) -> None:
    """Drop the messages of a transaction."""
    _end(transaction, "rollback", server, as_json=as_json)


def _end(transaction: str, verb: str, server: str, *, as_json: bool) -> None:
    ended = with_transactions(
        server, lambda calls: calls.end(transaction, verb), as_json=as_json
    )
    print_json(ended) if as_json else print_ended(ended)


def _data(data: object) -> dict[str, object]:
    if isinstance(data, bytes):
        from base64 import b64encode

        return {"data_base64": b64encode(data).decode()}
    return {"data": data}
