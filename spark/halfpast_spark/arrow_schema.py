"""The event table's columns as Arrow types."""

from collections.abc import Sequence
from typing import Any

from .arrow import pa
from .event_schema import COLUMN_NAMES, COLUMNS
from .log_file import Gap

ARROW_TYPES: dict[str, Any] = {
    "string": pa.string(),
    "bigint": pa.int64(),
    "int": pa.int32(),
    "boolean": pa.bool_(),
}


def arrow_schema(columns: Sequence[str] = COLUMN_NAMES) -> Any:
    """The schema of these columns, in this order."""
    types = dict(COLUMNS)
    return pa.schema([(name, ARROW_TYPES[types[name]]) for name in columns])


def gap_batch(gap: Gap, stored_ms: int, columns: Sequence[str]) -> Any:
    """The one row that tells of a gap behind a frame stored at this time."""
    values: dict[str, Any] = dict.fromkeys(COLUMN_NAMES)
    values |= {
        "kind": "gap",
        "position": gap.start,
        "number": 0,
        "stored_ms": stored_ms,
        "topic_id": 0,
        "topic": "",
        "queue": 0,
        "offset": gap.end,
        "from_check": False,
        "forced": False,
        "size": 0,
        "reason": gap.reason,
    }
    schema = arrow_schema(columns)
    arrays = [pa.array([values[field.name]], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
