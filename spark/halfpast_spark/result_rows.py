"""Reading the results: the rows that count, where batch and stream both have some."""

from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import Connection, Table, func, select

from . import result_tables as tables
from .result_tables import BATCH, STREAM
from .windows import floor_ms

Row = dict[str, Any]


def window_lengths(connection: Connection) -> list[int]:
    """The window lengths for which there are runs, the latest run's first."""
    last = func.max(tables.runs.c.finished_ms)
    found = connection.execute(
        select(tables.runs.c.window_ms)
        .group_by(tables.runs.c.window_ms)
        .order_by(last.desc())
    )
    return list(found.scalars())


def last_run(connection: Connection, window_ms: int | None = None) -> Row | None:
    """The latest run, of windows of this length if one is given."""
    wanted = select(tables.runs).order_by(tables.runs.c.finished_ms.desc()).limit(1)
    if window_ms is not None:
        wanted = wanted.where(tables.runs.c.window_ms == window_ms)
    row = connection.execute(wanted).mappings().first()
    return None if row is None else dict(row)


def live_extent(connection: Connection, window_ms: int | None = None) -> Row | None:
    """What the stream that has come furthest tells of: `window_ms`, `from_ms`, `to_ms`,
    `horizon_ms` and `gaps`. None if there is none."""
    streams = tables.streams
    wanted = select(streams).order_by(streams.c.horizon_ms.desc()).limit(1)
    if window_ms is not None:
        wanted = wanted.where(streams.c.window_ms == window_ms)
    row = connection.execute(wanted).mappings().first()
    if row is None:
        return None
    starts = [
        connection.execute(
            select(func.min(table.c.window_start_ms)).where(
                table.c.window_ms == row["window_ms"], table.c.source == STREAM
            )
        ).scalar()
        for table in (tables.transactions, tables.on_time)
    ]
    to_ms = floor_ms(row["horizon_ms"], row["window_ms"]) + row["window_ms"]
    known = [start for start in starts if start is not None]
    return {
        "window_ms": row["window_ms"],
        "from_ms": min(known, default=to_ms),
        "to_ms": to_ms,
        "horizon_ms": row["horizon_ms"],
        "gaps": row["gaps"],
    }


def read_rows(
    connection: Connection, table: Table, *, window_ms: int, from_ms: int, to_ms: int
) -> list[Row]:
    """The rows of the windows that begin in this time, each window from one source."""
    columns = table.c
    wanted = (
        select(table)
        .where(
            columns.window_ms == window_ms,
            columns.window_start_ms >= from_ms,
            columns.window_start_ms < to_ms,
        )
        .order_by(*table.primary_key.columns)
    )
    rows = [dict(row) for row in connection.execute(wanted).mappings()]
    chosen = preferred(rows)
    return [row for row in rows if chosen[row["window_start_ms"]] == row["source"]]


def preferred(rows: Iterable[Mapping[str, Any]]) -> dict[int, str]:
    """Which source counts for each window: batch, if it saw all of the window; else
    the one that has seen more."""
    seen: dict[int, dict[str, int]] = {}
    ends: dict[int, int] = {}
    for row in rows:
        start = row["window_start_ms"]
        sources = seen.setdefault(start, {})
        known = sources.get(row["source"], 0)
        sources[row["source"]] = max(known, row["horizon_ms"])
        ends[start] = start + row["window_ms"]
    return {start: _choice(sources, ends[start]) for start, sources in seen.items()}


def _choice(sources: Mapping[str, int], end_ms: int) -> str:
    batch_ms = sources.get(BATCH, -1)
    if batch_ms >= end_ms or batch_ms >= sources.get(STREAM, -1):
        return BATCH
    return STREAM
