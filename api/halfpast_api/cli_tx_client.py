"""How the commands about transactions reach a server."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from halfpast_api.cli_server import guarded, retry_policy

if TYPE_CHECKING:
    from halfpast_api.transaction_calls import TransactionCalls

R = TypeVar("R")

TransactionId = Annotated[
    str, typer.Argument(metavar="ID", help="As 'tx begin' or 'tx list' told it.")
]


def with_transactions(
    server: str,
    work: "Callable[[TransactionCalls], Coroutine[Any, Any, R]]",
    *,
    as_json: bool,
) -> R:
    """Run `work` with `server`; a failure is shown and ends the command."""
    from halfpast_api.transaction_calls import TransactionCalls

    async def run() -> R:
        async with TransactionCalls(server, retry_policy()) as calls:
            return await work(calls)

    return guarded(lambda: asyncio.run(run()), server=server, as_json=as_json)
