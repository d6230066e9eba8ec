"""What may go wrong in an audit, as messages and exit codes."""

from collections.abc import Callable
from typing import TypeVar

import typer

from halfpast_api.cli_output import (
    FOLDER_UNUSABLE,
    INTERRUPTED,
    REFUSED,
    STORE_FAILED,
    UNREACHABLE,
    USAGE,
    CommandFailed,
    print_failure,
)
from halfpast_api.metadata.errors import MetadataError
from halfpast_core_store.errors import StoreError
from halfpast_spark.errors import (
    AuditError,
    BadOption,
    ForeignExport,
    NoStore,
)
from halfpast_spark.job_errors import (
    BadMaster,
    BadPeriod,
    BadRules,
    MasterUnreachable,
    NothingToAudit,
    ResultsUnavailable,
    SparkFailed,
    SparkMissing,
    StreamConflict,
)

R = TypeVar("R")

# The first that fits counts.
_ANSWERS: list[tuple[type[Exception], int, str]] = [
    (BadPeriod, USAGE, "look at --from, --to and --window"),
    (BadRules, USAGE, "see the audits' README for what a rules file may say"),
    (BadOption, USAGE, ""),
    (NoStore, FOLDER_UNUSABLE, "name the data folder with --data"),
    (NothingToAudit, REFUSED, "is --data right?"),
    (ForeignExport, FOLDER_UNUSABLE, "name the right one with --export"),
    (SparkMissing, UNREACHABLE, ""),
    (BadMaster, USAGE, "look at --master"),
    (SparkFailed, UNREACHABLE, "nothing was changed; Spark's log above tells more"),
    (MasterUnreachable, UNREACHABLE, "look at --master; local[2] needs no cluster"),
    (ResultsUnavailable, UNREACHABLE, "look at --metadata; nothing was changed"),
    (StreamConflict, REFUSED, ""),
    (AuditError, REFUSED, ""),
    (StoreError, FOLDER_UNUSABLE, "'halfpast doctor' tells more"),
    (MetadataError, UNREACHABLE, "look at --data and --metadata"),
    (OSError, STORE_FAILED, ""),
    (ValueError, USAGE, ""),
]


def guarded(action: Callable[[], R], *, as_json: bool) -> R:
    """Do it; end the command with a message and a code if it cannot be done."""
    try:
        return action()
    except CommandFailed as failure:
        failed = failure
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    except Exception as error:
        found = _explained(error)
        if found is None:
            raise
        failed = found
    print_failure(failed, as_json=as_json)
    raise typer.Exit(failed.code)


def _explained(error: Exception) -> CommandFailed | None:
    for kind, code, hint in _ANSWERS:
        if isinstance(error, kind):
            return CommandFailed(str(error), code=code, hint=hint)
    return None
