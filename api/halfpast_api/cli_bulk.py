"""operation show, list, cancel; and how a change of many events is carried out."""

import sys
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from halfpast_api.cli_output import (
    USAGE,
    AsJson,
    CommandFailed,
    print_json,
    print_line,
    print_table,
)
from halfpast_api.cli_server import DEFAULT_SERVER, Server, guarded, with_client
from halfpast_api.cli_times import parse_moment, show_moment

if TYPE_CHECKING:
    import halfpast

Key = Annotated[str | None, typer.Option(help="With this key only.")]
Tag = Annotated[str | None, typer.Option(help="With this tag only.")]
DueAfter = Annotated[str | None, typer.Option(help="Due at this time or later.")]
DueBefore = Annotated[str | None, typer.Option(help="Due before this time.")]
Apply = Annotated[bool, typer.Option("--all", help="All that the filter means.")]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Count them, and change nothing.")
]
NoWait = Annotated[bool, typer.Option("--no-wait", help="Begin it, and go.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
OperationId = Annotated[
    str, typer.Argument(metavar="ID", help="As 'operation list' shows it.")
]
_DID = {"cancel": "cancelled", "reschedule": "rescheduled"}


class ListedState(StrEnum):
    """Which operations to list."""

    RUNNING = "running"
    DONE = "done"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Wish:
    """What somebody wants to do with which events."""

    action: str
    topic: str | None
    key: str | None
    tag: str | None
    due_after: str | None
    due_before: str | None
    every: bool
    dry_run: bool
    no_wait: bool
    yes: bool

    @property
    def is_everything(self) -> bool:
        """Whether nothing narrows it down."""
        given = (self.topic, self.key, self.tag, self.due_after, self.due_before)
        return given == (None,) * 5

    def check(self, event_id: str | None) -> None:
        """Raises CommandFailed for what cannot be meant."""
        many = self.every or self.dry_run or self.no_wait or not self.is_everything
        if event_id is not None and many:
            raise CommandFailed(
                "name one event or give a filter, not both",
                code=USAGE,
                hint=f"halfpast {self.action} --topic TOPIC --dry-run",
            )
        if event_id is None and not self.every and not self.dry_run:
            raise CommandFailed(
                "say which event, or count what a filter means with --dry-run, then "
                "give --all",
                code=USAGE,
                hint=f"halfpast {self.action} --topic TOPIC --dry-run",
            )

    def filter(self) -> "halfpast.EventFilter":
        """Raises ValueError."""
        after, before = self.due_after, self.due_before
        return {
            "topic": self.topic,
            "key": self.key,
            "tag": self.tag,
            "due_after": None if after is None else parse_moment(after),
            "due_before": None if before is None else parse_moment(before),
        }

    def confirm(self) -> None:
        """Ask before everything there is is changed. Raises CommandFailed."""
        if not self.is_everything or self.dry_run or self.yes:
            return
        try:
            if typer.confirm(f"{self.action} every scheduled event?", err=True):
                return
        except typer.Abort:
            typer.echo(err=True)
        raise CommandFailed(
            "nothing was changed: nobody said yes", hint="--yes does not ask"
        )


def register(app: typer.Typer) -> None:
    """Add `operation` with its commands."""
    operation = typer.Typer(
        name="operation",
        help="Changes of many events at once: look at them, stop them.",
        no_args_is_help=True,
    )
    operation.command("list")(list_operations)
    operation.command()(show)
    operation.command("cancel")(stop)
    app.add_typer(operation)


def show(
    operation: OperationId, server: Server = DEFAULT_SERVER, as_json: AsJson = False
) -> None:
    """Show how far an operation has come."""
    found = with_client(
        server, lambda client: client.operation(operation), as_json=as_json
    )
    print_json(found) if as_json else _print_operation(found)


def list_operations(
    state: Annotated[ListedState | None, typer.Option(help="Only in this state.")] = (
        None
    ),
    limit: Annotated[int, typer.Option(min=1, help="At most so many.")] = 20,
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """List operations, the newest first."""

    async def work(client: "halfpast.Client") -> "list[halfpast.Operation]":
        import halfpast

        found: list[halfpast.Operation] = []
        wanted = None if state is None else halfpast.OperationState(state.value)
        async for it in client.operations(state=wanted, page_size=min(limit, 1000)):
            found.append(it)
            if len(found) == limit:
                break
        return found

    found = with_client(server, work, as_json=as_json)
    if as_json:
        for it in found:
            print_json(it)
    elif not found:
        print_line("no operations")
    else:
        rows = [
            [it.id, _what(it), it.state.value, _progress(it), str(it.changed)]
            for it in found
        ]
        print_table(["id", "what", "state", "progress", "changed"], rows)


def stop(
    operation: OperationId, server: Server = DEFAULT_SERVER, as_json: AsJson = False
) -> None:
    """Stop an operation; what it has changed stays so."""
    stopped = with_client(
        server, lambda client: client.stop_operation(operation), as_json=as_json
    )
    print_json(stopped) if as_json else _print_operation(stopped)


def carry_out(
    wish: Wish,
    begin: "Callable[[halfpast.Client], Coroutine[Any, Any, halfpast.Operation]]",
    server: str,
    as_json: bool,
) -> None:
    """Begin an operation, wait for its end unless that is not wanted, and tell."""
    guarded(wish.confirm, server=server, as_json=as_json)

    async def work(client: "halfpast.Client") -> "halfpast.Operation":
        begun = await begin(client)
        if wish.no_wait:
            return begun
        from halfpast_api.cli_bulk_progress import watch

        return await watch(client, begun, sys.stderr.isatty() and not as_json)

    done = with_client(server, work, as_json=as_json)
    if as_json:
        print_json(done)
    elif wish.no_wait:
        print_line(f"begun      {done.id}")
    elif wish.dry_run:
        print_line(f"{done.matched} would be {_DID[wish.action]}, of {done.scanned}")
    else:
        print_line(f"{done.changed} {_DID[wish.action]}, of {done.scanned}")


def _print_operation(operation: "halfpast.Operation") -> None:
    lines = [
        ("id", operation.id),
        ("what", _what(operation)),
        ("state", operation.state.value),
        ("progress", _progress(operation)),
        ("scanned", str(operation.scanned)),
        ("matched", str(operation.matched)),
        ("changed", str(operation.changed)),
        ("begun", operation.created_at and show_moment(operation.created_at)),
        ("ended", operation.finished_at and show_moment(operation.finished_at)),
    ]
    for name, value in lines:
        if value:
            print_line(f"{name:<11}{value}")


def _what(operation: "halfpast.Operation") -> str:
    words = [operation.action, *(f"{k}={v}" for k, v in operation.filter.items())]
    if not operation.filter:
        words.append("everything")
    if operation.dry_run:
        words.append("(dry run)")
    return " ".join(words)


def _progress(operation: "halfpast.Operation") -> str:
    if operation.progress is None:
        return "?"
    return f"{operation.progress:.0%}"
