"""Looking at the transactions of a data folder without changing them."""

from dataclasses import dataclass
from pathlib import Path

from halfpast_core_store.errors import BrokenIndex
from halfpast_core_store.folder import lock_holder
from halfpast_core_store.inspect import applied_of, count_keys


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnReport:
    """What the folder `txn` held when it was last flushed.

    `applied` is None if there is nothing or if a running service holds it.
    `open_count` counts those without an outcome; the parked ones are among them.
    `problem` tells why it cannot be read, empty if it can.
    """

    applied: int | None = None
    open_count: int = 0
    parked_count: int = 0
    problem: str = ""


def inspect_transactions(folder: Path) -> TxnReport:
    """Look at `txn` in a data folder. Takes about a second per million open ones."""
    if lock_holder(folder, "txn"):
        return TxnReport()
    index = folder / "txn"
    try:
        applied = applied_of(index)
        if applied is None:
            return TxnReport()
        return TxnReport(
            applied=applied,
            open_count=count_keys(index, b"S"),
            parked_count=count_keys(index, b"P"),
        )
    except BrokenIndex as error:
        return TxnReport(problem=str(error))
