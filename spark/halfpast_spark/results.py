"""Writing what a run has found: all its windows are replaced in one transaction.

Readers see the windows of the run before, or those of this one, never some of each;
whatever goes wrong on the way changes nothing.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from sqlalchemy import Connection, Table, delete, insert

from . import result_tables as tables
from .results_database import ResultsDatabase
from .windows import Period

Row = Mapping[str, Any]
ROWS_AT_ONCE = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What a run was about, as the table `runs` has it."""

    run_id: str
    source: str
    read_from: str
    store_id: str
    window_ms: int
    from_ms: int
    to_ms: int
    grace_ms: int
    horizon_ms: int
    horizon_position: int
    events: int
    pending_later: int
    started_ms: int
    finished_ms: int
    details: str
    gaps: str


@dataclass(slots=True, kw_only=True)
class WindowRows:
    """The rows of a run by table, without what all of them share."""

    transactions: list[dict[str, Any]] = field(default_factory=lambda: [])
    on_time: list[dict[str, Any]] = field(default_factory=lambda: [])
    end_to_end: list[dict[str, Any]] = field(default_factory=lambda: [])
    histograms: list[dict[str, Any]] = field(default_factory=lambda: [])
    offenders: list[dict[str, Any]] = field(default_factory=lambda: [])

    def by_table(self) -> Iterator[tuple[Table, list[dict[str, Any]]]]:
        for table in tables.RESULTS:
            yield table, getattr(self, table.name.removeprefix(tables.PREFIX))


def replace_windows(
    database: ResultsDatabase, period: Period, rows: WindowRows, run: Run
) -> None:
    """Put these rows in the place of all that was known of these windows.

    Raises ResultsUnavailable; then nothing has changed (or, if the connection broke
    at the very end, all of it: run it again).
    """
    shared = {
        "window_ms": period.window_ms,
        "source": tables.BATCH,
        "horizon_ms": period.horizon_ms,
    }
    with database.transaction() as connection:
        for table, some in rows.by_table():
            connection.execute(
                delete(table).where(
                    table.c.window_ms == period.window_ms,
                    table.c.source == tables.BATCH,
                    table.c.window_start_ms >= period.from_ms,
                    table.c.window_start_ms < period.to_ms,
                )
            )
            insert_rows(connection, table, ({**shared, **row} for row in some))
        connection.execute(insert(tables.runs), [asdict(run)])


def insert_rows(connection: Connection, table: Table, rows: Iterable[Row]) -> None:
    """All of them, in a few statements."""
    at_once: list[dict[str, Any]] = []
    for row in rows:
        at_once.append(dict(row))
        if len(at_once) == ROWS_AT_ONCE:
            connection.execute(insert(table), at_once)
            at_once = []
    if at_once:
        connection.execute(insert(table), at_once)
