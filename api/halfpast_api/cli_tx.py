"""tx list, show, resume, force: transactions as an operator sees them."""

import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from halfpast_api import cli_tx_producer
from halfpast_api.cli_candidates import producer_groups
from halfpast_api.cli_output import (
    USAGE,
    AsJson,
    CommandFailed,
    print_json,
    print_line,
)
from halfpast_api.cli_server import DEFAULT_SERVER, Server, guarded
from halfpast_api.cli_tx_client import TransactionId, with_transactions
from halfpast_api.cli_tx_view import print_ended, print_transaction, print_transactions

if TYPE_CHECKING:
    from halfpast_api.cli_tx_resume import Resumed
    from halfpast_api.transaction_calls import (
        EndedView,
        TransactionCalls,
        TransactionView,
    )

PAGE_SIZE_MAX = 1000
By = Annotated[
    str | None,
    typer.Option(
        help="Who decides; it is recorded.", show_default="your user name here"
    ),
]


class ListedState(StrEnum):
    """IN_DOUBT: parked ones first, then prepared ones."""

    IN_DOUBT = "in_doubt"
    PREPARED = "prepared"
    PARKED = "parked"
    COMMITTED = "committed"
    ROLLED_BACK = "rolled_back"


class Outcome(StrEnum):
    """What can be forced."""

    COMMITTED = "committed"
    ROLLED_BACK = "rolled_back"


def register(app: typer.Typer) -> None:
    """Add `tx` with its commands."""
    tx = typer.Typer(
        name="tx",
        help="Transactions: look at them, end them, decide what is in doubt.",
        no_args_is_help=True,
    )
    tx.command("list")(list_transactions)
    for command in (show, resume, force):
        tx.command()(command)
    cli_tx_producer.register(tx)
    app.add_typer(tx)


def list_transactions(
    state: Annotated[
        ListedState, typer.Option(help="in_doubt: those without an outcome.")
    ] = ListedState.IN_DOUBT,
    group: Annotated[
        str | None,
        typer.Option(
            help="Of this producer group only.", autocompletion=producer_groups
        ),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most so many.")] = 50,
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """List transactions: those in doubt, or those in another state."""

    async def work(calls: "TransactionCalls") -> "list[TransactionView]":
        found: list[TransactionView] = []
        size = min(limit, PAGE_SIZE_MAX)
        async for page in calls.pages(state.value, group, size):
            found.extend(page)
            if len(found) >= limit:
                break
        return found[:limit]

    found = with_transactions(server, work, as_json=as_json)
    if as_json:
        for view in found:
            print_json(view)
    elif not found:
        print_line(f"nothing {state.value.replace('_', ' ')}")
    else:
        print_transactions(found)
        if len(found) == limit:
            typer.echo(f"the first {limit}; more with --limit", err=True)


def show(
    transaction: TransactionId, server: Server = DEFAULT_SERVER, as_json: AsJson = False
) -> None:
    """Show a transaction: its state, its time line, its messages."""
    view = with_transactions(
        server, lambda calls: calls.get(transaction), as_json=as_json
    )
    print_json(view) if as_json else print_transaction(view)


def resume(
    transaction: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="A parked transaction.")
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="All parked ones of --group.")
    ] = False,
    group: Annotated[str | None, typer.Option(help="For --all.")] = None,
    reason: Annotated[str, typer.Option(help="Why; it is recorded.")] = "",
    by: By = None,
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """Have a parked transaction checked back again, as often as at first."""

    async def work(calls: "TransactionCalls") -> "TransactionView | Resumed":
        if every and transaction is None and group is not None:
            from halfpast_api.cli_tx_resume import resume_all

            return await resume_all(calls, group, reason, _who(by), sys.stderr.isatty())
        if transaction is None or every or group is not None:
            raise CommandFailed(
                "name one transaction, or all that are parked of one group",
                code=USAGE,
                hint="halfpast tx resume ID, or halfpast tx resume --all --group GROUP",
            )
        return await calls.resume(transaction, reason, _who(by))

    done = with_transactions(server, work, as_json=as_json)
    if as_json:
        print_json(done)
    elif every:
        print_line(str(done))
    else:
        print_line(f"resumed    {transaction}")


def force(
    transaction: TransactionId,
    outcome: Annotated[Outcome, typer.Argument(metavar="committed|rolled_back")],
    reason: Annotated[str, typer.Option(help="Why; it is recorded.")],
    by: By = None,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")
    ] = False,
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """Give a transaction its outcome, for ever.

    First ask whoever knows: a wrong one delivers what never happened, or loses what
    did.
    """
    if not yes:
        view = with_transactions(
            server, lambda calls: calls.get(transaction), as_json=as_json
        )
        if not as_json:
            print_transaction(view)
        guarded(lambda: _confirm(outcome), server=server, as_json=as_json)

    async def work(calls: "TransactionCalls") -> "EndedView":
        return await calls.force(transaction, outcome.value, reason, _who(by))

    ended = with_transactions(server, work, as_json=as_json)
    print_json(ended) if as_json else print_ended(ended)


def _confirm(outcome: Outcome) -> None:
    question = f"Make it {outcome.value.replace('_', ' ')}? That cannot be taken back."
    try:
        if typer.confirm(question, err=True):
            return
    except typer.Abort:
        typer.echo(err=True)
    raise CommandFailed("not forced: nobody said yes", hint="--yes does not ask")


def _who(by: str | None) -> str:
    if by:
        return by
    import getpass

    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container's user may have no name
        return "operator"
