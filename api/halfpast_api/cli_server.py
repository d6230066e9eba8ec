"""Commands that talk to a server: how they do it, and how they fail."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from halfpast_api.cli_output import (
    INTERRUPTED,
    REFUSED,
    UNKNOWN,
    UNREACHABLE,
    USAGE,
    CommandFailed,
    print_failure,
)

if TYPE_CHECKING:  # loaded when it is needed: `halfpast --help` shall be quick
    import halfpast

R = TypeVar("R")

Server = Annotated[
    str,
    typer.Option("--server", envvar="HALFPAST_URL", help="Where the API listens."),
]
DEFAULT_SERVER = "http://127.0.0.1:7080"
UNREACHABLE_S = 1.0  # long enough for a service that is just being restarted


def with_client(
    server: str,
    work: "Callable[[halfpast.Client], Coroutine[Any, Any, R]]",
    *,
    as_json: bool,
    patience_s: float = 10.0,
) -> R:
    """Run `work` with a client of `server`; a failure is shown and ends the command."""
    import halfpast

    async def run() -> R:
        policy = retry_policy(patience_s)
        async with halfpast.Client(server, retry=policy) as client:
            return await work(client)

    return guarded(lambda: asyncio.run(run()), server=server, as_json=as_json)


def retry_policy(patience_s: float = 10.0) -> "halfpast.RetryPolicy":
    """Somebody sits and waits: ask often, and say soon that nobody is there."""
    import halfpast

    return halfpast.RetryPolicy(
        total_s=patience_s,
        attempt_s=patience_s,
        backoff_max_s=0.25,
        unreachable_s=UNREACHABLE_S,
    )


def guarded(action: Callable[[], R], *, server: str, as_json: bool) -> R:
    """Do it; turn what may go wrong into a message and an exit code."""
    import halfpast

    try:
        return action()
    except CommandFailed as failure:
        failed = failure
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    except ValueError as error:
        failed = CommandFailed(str(error), code=USAGE)
    except halfpast.HalfpastError as error:
        failed = _explained(error, server)
    print_failure(failed, as_json=as_json)
    raise typer.Exit(failed.code)


def _explained(error: "halfpast.HalfpastError", server: str) -> CommandFailed:
    import halfpast

    match error:
        case halfpast.ServerUnreachable():
            return CommandFailed(
                str(error),
                code=UNREACHABLE,
                hint="start one with 'halfpast dev', or name another with --server",
            )
        case halfpast.OutcomeUnknown():
            hint = "look with 'halfpast get'"
            if error.idempotency_key:
                hint = "repeat it with --idempotency-key " + error.idempotency_key
            elif "/v1/transactions" in error.call:
                hint = "repeat it, which is harmless, or look with 'halfpast tx show'"
            return CommandFailed(str(error), code=UNKNOWN, hint=hint)
        case halfpast.ApiProblem():
            if error.status in (401, 403):
                return _denied(error)
            return CommandFailed(
                str(error), hint=_HINTS.get(error.code, ""), report=_report(error)
            )
        case halfpast.UnexpectedAnswer():
            hint = f"is there really a Halfpast server at {server}?"
            return CommandFailed(str(error), hint=hint)
        case _:
            return CommandFailed(str(error), code=REFUSED)


def _denied(error: "halfpast.ApiProblem") -> CommandFailed:
    hint = "see what your key may do with 'halfpast whoami'"
    if error.status == 401:
        hint = (
            "give a key with --api-key or HALFPAST_API_KEY; on the server itself "
            "'halfpast keys create --admin' makes the first one"
        )
    return CommandFailed(str(error), hint=hint, report=_report(error))


def _report(error: "halfpast.ApiProblem") -> dict[str, object]:
    return {
        "status": error.status,
        "code": error.code,
        "retryable": error.retryable,
        "request_id": error.request_id,
        "errors": list(error.errors),
    }


_HINTS = {
    "unknown_event": "list what is scheduled with 'halfpast list'",
    "unknown_topic": "publish to it first: halfpast publish TOPIC DATA",
    "already_delivered": "see when and how late with 'halfpast get ID'",
    "already_cancelled": "see when with 'halfpast get ID'",
    "unknown_transaction": "see what is in doubt with 'halfpast tx list'",
    "transaction_conflict": "see who decided, and when, with 'halfpast tx show ID'",
    "transaction_parked": (
        "'halfpast tx resume ID' to ask the producer again, or 'halfpast tx force ID'"
    ),
    "unknown_schedule": "list them with 'halfpast schedule list'",
    "clock_not_virtual": (
        "start a server for tests with 'halfpast dev --clock virtual'"
    ),
    "clock_goes_forward": "see what it shows with 'halfpast clock show'",
    "schedule_ended": "make a new one with 'halfpast schedule create'",
    "store_full": "free space or add a disk, then look with 'halfpast doctor'",
    "not_ready": "wait a moment, or look at the server's own output",
}
