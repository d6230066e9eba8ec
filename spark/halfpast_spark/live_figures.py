"""What follows from the live counts: quantiles, and what is lost by now."""

from collections.abc import Iterator
from typing import Any

from sqlalchemy import Connection, Update, and_, bindparam, case, select, update

from . import result_tables as tables
from .histogram import quantile
from .live_counts import TABLES, place_of
from .live_deltas import MEASURES, Changes, Key
from .live_guard import LiveStream
from .live_timers import ON_TIME
from .live_transactions import TRANSACTIONS
from .result_tables import STREAM

QUANTILES = {
    TRANSACTIONS: {
        "outcome_p50_ms": 0.5,
        "outcome_p95_ms": 0.95,
        "outcome_p99_ms": 0.99,
    },
    ON_TIME: {
        "lateness_p50_ms": 0.5,
        "lateness_p95_ms": 0.95,
        "lateness_p99_ms": 0.99,
        "lateness_p999_ms": 0.999,
    },
}
STARTS_AT_ONCE = 500  # a statement takes some thousand parameters at most


def derive_quantiles(
    connection: Connection, stream: LiveStream, changes: Changes
) -> None:
    """Those of the rows whose histogram has changed, as far as buckets tell them."""
    for audit, table in TABLES.items():
        keys = _changed(changes, audit)
        known = _buckets(connection, stream, audit, {key[0] for key in keys})
        rows: list[dict[str, Any]] = []
        place: dict[str, Any] = {}
        for key in keys:
            place = place_of(stream, table, key)
            row = {f"at_{name}": it for name, it in place.items()}
            for name, share in QUANTILES[audit].items():
                row[name] = quantile(known.get(key, ()), share)
            rows.append(row)
        if rows:
            here = (table.c[name] == bindparam(f"at_{name}") for name in place)
            found: dict[str, Any] = {name: bindparam(name) for name in QUANTILES[audit]}
            connection.execute(update(table).where(*here).values(found), rows)


def settle(
    connection: Connection,
    stream: LiveStream,
    *,
    known_ms: int,
    horizon_ms: int,
    changes: Changes | None = None,
) -> None:
    """What nothing has come of is lost where all of the window is long past, and
    pending elsewhere. Looks only at windows where that may have changed: what is long
    past now and was not at `known_ms`, and what `changes`."""
    start = tables.on_time.c.window_start_ms
    settled = _settled(stream, horizon_ms)
    passed = and_(
        start > _past_ms(stream, known_ms), start <= _past_ms(stream, horizon_ms)
    )
    connection.execute(settled.where(passed))
    if changes is None:
        return
    starts = {key[0] for key in changes.counts[ON_TIME]}
    if starts:
        one = settled.where(start == bindparam("at_start"))
        connection.execute(one, [{"at_start": it} for it in sorted(starts)])


def _settled(stream: LiveStream, horizon_ms: int) -> Update:
    columns = tables.on_time.c
    left = columns.scheduled - columns.fired - columns.cancelled - columns.dead
    is_past = columns.window_start_ms <= _past_ms(stream, horizon_ms)
    lost = case((is_past, left), else_=0)
    pending = case((is_past, 0), else_=left)
    return (
        update(tables.on_time)
        .where(columns.window_ms == stream.window_ms, columns.source == STREAM)
        .values(
            lost=lost,
            pending=pending,
            judged=columns.fired + lost,
            horizon_ms=horizon_ms,
        )
    )


def _past_ms(stream: LiveStream, horizon_ms: int) -> int:
    """Windows that begin here or before have ended, and their grace too."""
    return horizon_ms - stream.grace_ms - stream.window_ms


def _changed(changes: Changes, audit: str) -> list[Key]:
    """The rows whose histogram a batch changes."""
    return list(
        dict.fromkeys(
            (start, group, topic)
            for (measure, start, group, topic, _), count in changes.buckets.items()
            if count and measure == MEASURES[audit]
        )
    )


def _buckets(
    connection: Connection, stream: LiveStream, audit: str, windows: set[int]
) -> dict[Key, list[tuple[int, int]]]:
    """The histograms of these windows."""
    columns = tables.histograms.c
    wanted = select(
        columns.window_start_ms,
        columns.producer_group,
        columns.topic,
        columns.bucket,
        columns["count"],
    ).where(
        columns.window_ms == stream.window_ms,
        columns.source == STREAM,
        columns.measure == MEASURES[audit],
    )
    found: dict[Key, list[tuple[int, int]]] = {}
    for starts in _some_starts(windows):
        rows = connection.execute(wanted.where(columns.window_start_ms.in_(starts)))
        for start, group, topic, bucket, count in rows:
            found.setdefault((start, group, topic), []).append((bucket, count))
    return found


def _some_starts(starts: set[int]) -> Iterator[list[int]]:
    ordered = sorted(starts)
    for at in range(0, len(ordered), STARTS_AT_ONCE):
        yield ordered[at : at + STARTS_AT_ONCE]
