"""How far a stream has come, in the database: the guard that makes it exactly-once.

One row a stream, written in the same transaction as the counts of a batch. A batch that
Spark runs again after a crash, because it had not noted its end, is known by its
number. A checkpoint that the row does not belong to is refused: it would count twice,
or leave out what the other one has counted.
"""

import json
import time
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import Connection, delete, insert, select, update

from . import result_tables as tables
from .job_errors import StreamConflict
from .result_tables import STREAM
from .sla import SlaRules

GAPS_MAX = 100
SETTINGS = ("window_ms", "grace_ms", "memory_ms")
"""What cannot change while counts are kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveStream:
    """Which stream it is, and what it counts. Its checkpoint is named by `query_id`."""

    name: str
    query_id: str
    window_ms: int
    grace_ms: int
    memory_ms: int
    rules: SlaRules


class Seen(NamedTuple):
    """How far a stream has come: the last event's place and store time, how many, and
    what it could not see."""

    batch_id: int
    position: int
    horizon_ms: int
    events: int
    gaps: tuple[str, ...]


NOTHING_SEEN = Seen(-1, -1, 0, 0, ())


def read_seen(connection: Connection, stream: LiveStream) -> Seen:
    """How far it has come. Raises StreamConflict."""
    table = tables.streams
    wanted = select(table).where(table.c.name == stream.name)
    row = connection.execute(wanted).mappings().first()
    if row is None:
        return NOTHING_SEEN
    if row["query_id"] != stream.query_id:
        why = "its counts come from another checkpoint"
        raise StreamConflict(stream.name, f"{why}; --restart forgets them")
    for name in SETTINGS:
        if row[name] != (given := getattr(stream, name)):
            what = name.removesuffix("_ms")
            why = f"it counts with a {what} of {row[name]} ms, not of {given} ms"
            raise StreamConflict(stream.name, f"{why}; --restart forgets its counts")
    return Seen(
        batch_id=row["batch_id"],
        position=row["horizon_position"],
        horizon_ms=row["horizon_ms"],
        events=row["events"],
        gaps=tuple(json.loads(row["gaps"])),
    )


def note_seen(connection: Connection, stream: LiveStream, seen: Seen) -> None:
    """From now on it has come so far."""
    table = tables.streams
    row: dict[str, Any] = {
        "query_id": stream.query_id,
        "batch_id": seen.batch_id,
        "horizon_ms": seen.horizon_ms,
        "horizon_position": seen.position,
        "events": seen.events,
        "gaps": json.dumps(seen.gaps[:GAPS_MAX]),
        "updated_ms": time.time_ns() // 1_000_000,
        **{name: getattr(stream, name) for name in SETTINGS},
    }
    named = table.c.name == stream.name
    if not connection.execute(update(table).where(named).values(row)).rowcount:
        connection.execute(insert(table), [{**row, "name": stream.name}])


def forget(connection: Connection, stream: LiveStream) -> None:
    """All that it has counted, and that it has."""
    for table in tables.RESULTS:
        of_stream = (table.c.window_ms == stream.window_ms, table.c.source == STREAM)
        connection.execute(delete(table).where(*of_stream))
    table = tables.streams
    connection.execute(delete(table).where(table.c.name == stream.name))
