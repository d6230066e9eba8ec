"""How long results are kept: what is older, or more than there may be, is deleted.

The oldest windows go first, of all lengths alike, a few at a time: whoever else writes
to the database waits for milliseconds. Of each window length the last run stays, and
of live counts whatever their stream may still change.
"""

import logging
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from sqlalchemy import Connection, Table, and_, delete, func, select

from . import result_tables as tables
from .errors import BadOption
from .job_errors import ResultsUnavailable
from .result_tables import BATCH, RESULTS, STREAM
from .results_database import ResultsDatabase

DAY_MS = 86_400_000
KEEP_MS = 90 * DAY_MS
ROWS_MAX = 5_000_000
ROWS_MAX_LEAST = 1_000
STARTS_AT_ONCE = 50
STREAM_SPARE_MS = 600_000
"""A stream's ids may be this much older than its memory: clocks differ."""

log = logging.getLogger("halfpast.spark")


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionConfig:
    """Windows that ended `keep_ms` ago are deleted; and so are the oldest ones as long
    as there are more than `rows_max` rows of all windows together."""

    keep_ms: int = KEEP_MS
    rows_max: int = ROWS_MAX

    def __post_init__(self) -> None:
        """Raises BadOption."""
        if self.keep_ms <= 0:
            raise BadOption("keep", f"{self.keep_ms} ms", "keep results for some time")
        if self.rows_max < ROWS_MAX_LEAST:
            why = f"keep {ROWS_MAX_LEAST:,} rows at least: one run writes as many"
            raise BadOption("keep-rows", str(self.rows_max), why)


@dataclass(slots=True)
class Pruned:
    """How many rows were deleted, by table without its prefix; and how many are left
    of all windows together."""

    deleted: Counter[str] = field(default_factory=Counter[str])
    left: int = 0

    @property
    def rows(self) -> int:
        return self.deleted.total()


def prune(
    database: ResultsDatabase, config: RetentionConfig, *, now_ms: int | None = None
) -> Pruned:
    """Delete what need not be kept. Raises ResultsUnavailable; what was deleted until
    then is, and nothing else is changed."""
    if now_ms is None:
        now_ms = time.time_ns() // 1_000_000
    old_ms = now_ms - config.keep_ms
    with database.snapshot() as connection:
        by_start = _rows_by_start(connection)
        lengths = _lengths(connection)
        streams = _stream_floors(connection)
    surplus_ms = _surplus_before(by_start, config.rows_max)
    pruned = Pruned()
    for length in lengths:
        before_ms = max(old_ms - length + 1, surplus_ms)
        of_stream_ms = min(before_ms, streams.get(length, before_ms))
        for source, end_ms in ((BATCH, before_ms), (STREAM, of_stream_ms)):
            for table in RESULTS:
                count = _delete(database, table, length, source, end_ms)
                pruned.deleted[_name(table)] += count
    with database.transaction() as connection:
        pruned.deleted[_name(tables.runs)] += _delete_runs(connection, old_ms)
    pruned.deleted = +pruned.deleted
    kept = sum(pruned.deleted[_name(table)] for table in RESULTS)
    pruned.left = by_start.total() - kept
    return pruned


def prune_afterwards(database: ResultsDatabase, config: RetentionConfig) -> Pruned:
    """The same, for those who have done what they were asked to: the next one will
    delete what this one cannot."""
    try:
        return prune(database, config)
    except ResultsUnavailable as error:
        log.warning("old results are still there: %s", error)
        return Pruned()


def _name(table: Table) -> str:
    return table.name.removeprefix(tables.PREFIX)


def _rows_by_start(connection: Connection) -> Counter[int]:
    found = Counter[int]()
    for table in RESULTS:
        start = table.c.window_start_ms
        counted = select(start, func.count()).group_by(start)
        for at_ms, count in connection.execute(counted):
            found[at_ms] += count
    return found


def _surplus_before(by_start: Counter[int], rows_max: int) -> int:
    """Windows that begin before this are more than there may be; 0 if none are."""
    left = rows_max
    for start, count in sorted(by_start.items(), reverse=True):
        left -= count
        if left < 0:
            return start + 1
    return 0


def _lengths(connection: Connection) -> list[int]:
    """All window lengths, found by their index: there are few, of many rows."""
    found = set[int]()
    for table in RESULTS:
        least = func.min(table.c.window_ms)
        last = connection.execute(select(least)).scalar()
        while last is not None:
            found.add(last)
            later = select(least).where(table.c.window_ms > last)
            last = connection.execute(later).scalar()
    return sorted(found)


def _stream_floors(connection: Connection) -> dict[int, int]:
    """By window length: a stream may still change windows from there on."""
    columns = tables.streams.c
    wanted = select(columns.window_ms, columns.horizon_ms, columns.memory_ms)
    return {
        length: horizon_ms - memory_ms - length - STREAM_SPARE_MS
        for length, horizon_ms, memory_ms in connection.execute(wanted)
    }


def _delete(
    database: ResultsDatabase, table: Table, length: int, source: str, before_ms: int
) -> int:
    """Rows of windows that begin before that, a few windows a transaction."""
    return sum(_deletions(database, table, length, source, before_ms))


def _deletions(
    database: ResultsDatabase, table: Table, length: int, source: str, before_ms: int
) -> Iterator[int]:
    start = table.c.window_start_ms
    chosen = and_(
        table.c.window_ms == length, start < before_ms, table.c.source == source
    )
    starts = select(start).where(chosen).distinct().order_by(start)
    while True:
        with database.transaction() as connection:
            some = connection.execute(starts.limit(STARTS_AT_ONCE)).scalars().all()
            if not some:
                return
            gone = delete(table).where(chosen, start <= some[-1])
            yield connection.execute(gone).rowcount


def _delete_runs(connection: Connection, old_ms: int) -> int:
    """Runs of windows that are gone, but for the last one of each length."""
    runs = tables.runs
    other = runs.alias()
    last = (
        select(func.max(other.c.finished_ms))
        .where(other.c.window_ms == runs.c.window_ms)
        .scalar_subquery()
    )
    gone = delete(runs).where(runs.c.to_ms <= old_ms, runs.c.finished_ms < last)
    return connection.execute(gone).rowcount
