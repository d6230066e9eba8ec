"""The rows of the live counts: what a batch adds to them."""

from collections.abc import Iterator
from typing import Any

from sqlalchemy import Connection, Table, bindparam, case, delete
from sqlalchemy.dialects import postgresql, sqlite

from . import result_tables as tables
from .histogram import bounds_of
from .live_deltas import COUNTS, Changes, Key
from .live_guard import LiveStream
from .live_timers import ON_TIME
from .live_transactions import TRANSACTIONS
from .result_tables import ALL_TOPICS, STREAM

TABLES = {TRANSACTIONS: tables.transactions, ON_TIME: tables.on_time}
LARGEST = {TRANSACTIONS: "outcome_max_ms", ON_TIME: "lateness_max_ms"}
IN_ALL = {TRANSACTIONS: "half", ON_TIME: "scheduled"}
"""The count that each entry adds to: without any, there is nothing to tell."""

Row = dict[str, Any]


def add_counts(
    connection: Connection, stream: LiveStream, changes: Changes, horizon_ms: int
) -> None:
    """All counts and histograms, as they are with what has changed."""
    for audit, table in TABLES.items():
        rows = list(_count_rows(stream, audit, changes, horizon_ms))
        added = set(COUNTS[audit])
        _upsert(connection, table, rows, added=added, largest=LARGEST[audit])
        _drop_empty(connection, table, rows, IN_ALL[audit])
    rows = list(_bucket_rows(stream, changes, horizon_ms))
    _upsert(connection, tables.histograms, rows, added={"count"})
    _drop_empty(connection, tables.histograms, rows, "count")


def place_of(stream: LiveStream, table: Table, key: Key) -> Row:
    """Where a row stands, as far as these columns tell it."""
    start, group, topic = key
    place = {
        "window_ms": stream.window_ms,
        "window_start_ms": start,
        "source": STREAM,
        "topic": topic,
    }
    if "producer_group" in table.c:
        place["producer_group"] = group
    return place


def _count_rows(
    stream: LiveStream, audit: str, changes: Changes, horizon_ms: int
) -> Iterator[Row]:
    for key, counts in changes.rows(audit):
        row = {**place_of(stream, TABLES[audit], key), "horizon_ms": horizon_ms}
        if audit == ON_TIME:
            row |= _sla(stream, key[2])
        yield {**row, **counts, LARGEST[audit]: changes.largest.get((audit, key))}


def _bucket_rows(
    stream: LiveStream, changes: Changes, horizon_ms: int
) -> Iterator[Row]:
    for (measure, start, group, topic, bucket), count in changes.buckets.items():
        if not count:
            continue
        lower, upper = (bucket, bucket) if measure == "checks" else bounds_of(bucket)
        yield {
            **place_of(stream, tables.histograms, (start, group, topic)),
            "horizon_ms": horizon_ms,
            "measure": measure,
            "bucket": bucket,
            "lower": lower,
            "upper": upper,
            "count": count,
        }


def _sla(stream: LiveStream, topic: str) -> dict[str, float | None]:
    if topic == ALL_TOPICS:
        return {"sla_ms": None, "sla_share": None}
    sla = stream.rules.of(topic)
    return {"sla_ms": sla.within_ms, "sla_share": sla.share}


def _drop_empty(
    connection: Connection, table: Table, rows: list[Row], count: str
) -> None:
    """What has moved to another window leaves nothing behind."""
    keys = [column.name for column in table.primary_key.columns]
    left = [
        {f"at_{name}": row[name] for name in keys} for row in rows if row[count] < 0
    ]
    if left:
        here = (table.c[name] == bindparam(f"at_{name}") for name in keys)
        connection.execute(delete(table).where(*here, table.c[count] == 0), left)


def _upsert(
    connection: Connection,
    table: Table,
    rows: list[Row],
    *,
    added: set[str],
    largest: str = "",
) -> None:
    """Add the columns `added` to those that are there, keep the larger `largest`, and
    replace the others."""
    if not rows:
        return
    is_postgres = connection.dialect.name == "postgresql"
    made = (postgresql if is_postgres else sqlite).insert(table)
    keys = {column.name for column in table.primary_key.columns}
    changed: dict[str, Any] = {}
    for name in rows[0]:
        new, old = made.excluded[name], table.c[name]
        if name in added:
            changed[name] = old + new
        elif name == largest:
            changed[name] = case((new.is_(None), old), (old > new, old), else_=new)
        elif name not in keys:
            changed[name] = new
    statement = made.on_conflict_do_update(
        index_elements=list(table.primary_key.columns), set_=changed
    )
    connection.execute(statement, rows)
