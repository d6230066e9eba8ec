"""Events as live counts take them: thousands of rows packed into one value.

Spark moves a row for about a microsecond on each of its ways, and a column of text for
several. So a worker packs what it has read, and Spark sees one row for each few
thousand events:

    events   rows of EVENT, one behind the other
    names    JSON: topics by number, producer groups by place, what could not be read
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from .arrow import pa, pc
from .event_schema import COMMITTED, ROLLED_BACK
from .frame_join import transaction_ids
from .frame_records import Bytes, Mask, Numbers
from .log_file import Gap
from .names import Names
from .row_columns import RowColumns
from .row_kinds import CODES

ID_SIZE = 16
NONE = -1
FAR = 1 << 62
"""Where the least of something is asked for, and there is none."""

EVENT = np.dtype(
    [
        ("id", f"S{ID_SIZE}"),
        ("position", "<i8"),
        ("stored_ms", "<i8"),
        ("due_ms", "<i8"),  # or NONE
        ("topic", "<i4"),
        ("group", "<i4"),  # place in `groups`, or NONE
        ("check", "<i4"),
        ("kind", "u1"),  # as in `row_kinds.py`
        ("flags", "u1"),
    ]
)
FROM_CHECK, FORCED, WAS_COMMITTED, WAS_ROLLED_BACK, OF_TRANSACTION = 1, 2, 4, 8, 16

SCHEMA = "events BINARY, names BINARY"
_ARROW = pa.schema([("events", pa.binary()), ("names", pa.binary())])
_MADE = np.array([1 << (8 * i) for i in range(5, -1, -1)], np.int64)

Table = NDArray[Any]


class _Names(msgspec.Struct):
    topics: dict[str, str]
    groups: list[str]
    gaps: list[str]


@dataclass(slots=True)
class LiveEvents:
    """Some events, in the order of the log, and what their numbers are called."""

    events: Table
    topics: dict[int, str] = field(default_factory=lambda: {})
    groups: list[str] = field(default_factory=lambda: [])
    gaps: list[str] = field(default_factory=lambda: [])
    """What could not be read."""

    def as_batch(self) -> Any:
        """One row for Spark."""
        names = _Names(
            {str(number): name for number, name in self.topics.items()},
            self.groups,
            self.gaps,
        )
        columns = [[self.events.tobytes()], [msgspec.json.encode(names)]]
        arrays = [pa.array(column, pa.binary()) for column in columns]
        return pa.RecordBatch.from_arrays(arrays, schema=_ARROW)


def unpacked(table: Any) -> Iterator[LiveEvents]:
    """From an Arrow table of such rows."""
    events, names = table.column("events"), table.column("names")
    for data, told in zip(events, names, strict=True):
        known = msgspec.json.decode(told.as_buffer(), type=_Names)
        topics = {int(number): name for number, name in known.topics.items()}
        packed = np.frombuffer(data.as_buffer(), EVENT)
        yield LiveEvents(packed, topics, known.groups, known.gaps)


def gap_events(gap: Gap) -> LiveEvents:
    told = f"positions {gap.start} to {gap.end}: {gap.reason}"
    return LiveEvents(np.empty(0, EVENT), gaps=[told])


def packed_rows(rows: RowColumns, names: Names) -> LiveEvents:
    """The events of some rows. Messages that are neither delayed nor of a transaction
    are left out."""
    codes = rows.codes
    is_release = (codes == CODES["message"]) | (codes == CODES["schedule"])
    in_transaction = rows.of_transaction(transaction_ids(rows.ids))
    keep = (codes != CODES["message"]) | in_transaction
    if not keep.all():
        rows, codes = rows.only(keep), codes[keep]
        is_release, in_transaction = is_release[keep], in_transaction[keep]
    events = np.zeros(len(rows), EVENT)
    events["id"] = id_values(rows.ids)
    for name in ("position", "stored_ms"):
        events[name] = rows.column(name).to_numpy()
    events["due_ms"] = _filled(rows, "due_ms", NONE)
    events["check"] = _filled(rows, "check", 0)
    events["kind"] = codes
    events["topic"] = rows.topic_ids()
    group = rows.column("group").dictionary_encode()
    events["group"] = group.indices.fill_null(NONE).to_numpy(zero_copy_only=False)
    outcome = rows.column("outcome")
    for bit, mask in (
        (FROM_CHECK, rows.column("from_check")),
        (FORCED, rows.column("forced")),
        (WAS_COMMITTED, pc.equal(outcome, COMMITTED).fill_null(False)),
        (WAS_ROLLED_BACK, pc.equal(outcome, ROLLED_BACK).fill_null(False)),
    ):
        events["flags"] |= np.where(_mask(mask), bit, 0).astype(np.uint8)
    of_transaction = is_release & in_transaction
    events["flags"] |= np.where(of_transaction, OF_TRANSACTION, 0).astype(np.uint8)
    topics = {int(it): names.topic(int(it)) for it in np.unique(events["topic"])}
    return LiveEvents(events, topics, group.dictionary.to_pylist())


def _filled(rows: RowColumns, name: str, nothing: int) -> Numbers:
    filled: Numbers = rows.column(name).fill_null(nothing).to_numpy()
    return filled


def _mask(column: Any) -> Mask:
    mask: Mask = column.to_numpy(zero_copy_only=False)
    return mask


def id_values(ids: Bytes) -> Table:
    """Ids, one row of bytes each, as values that can be sorted and compared."""
    return np.ascontiguousarray(ids).view(f"S{ids.shape[1]}").reshape(-1)


def id_bytes(ids: Table) -> Bytes:
    """The other way round."""
    found: Bytes = np.ascontiguousarray(ids).view(np.uint8)
    return found.reshape(len(ids), ids.dtype.itemsize)


def made_ms(ids: Table) -> Numbers:
    """When ids (UUIDv7, whatever follows them) were made."""
    found: Numbers = id_bytes(ids)[:, :6].astype(np.int64) @ _MADE
    return found
