"""Records that tell of many things at once: how many rows each gives, and which.

    FIRED                          one row for each timer
    BULK_CANCEL, BULK_RESCHEDULE   one row for each timer
    OCCURRED                       one row for each occurrence that has a message
    POP_ACK, OFFSETS               one row for each message that a group is done with

Every other record gives one row, or none where the table has no kind for it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec
import numpy as np

from halfpast_chronos.keys import FIRED_SIZE, TIMER_KEY
from halfpast_core_store.group_state import ACK_DECODER, OFFSETS_DECODER
from halfpast_core_store.record import RecordKind

from .frame_records import Bytes, Mask, Numbers, Records

MOVE_SIZE = TIMER_KEY.size + 12  # as `bulk_records.py` of chronos packs it
ENTRY_SIZES = {
    int(RecordKind.FIRED): FIRED_SIZE,
    int(RecordKind.BULK_CANCEL): TIMER_KEY.size,
    int(RecordKind.BULK_RESCHEDULE): MOVE_SIZE,
}
_unpack = msgspec.msgpack.Decoder().decode


@dataclass(slots=True)
class Occurrences:
    """All occurrences of a chunk, one behind the other."""

    due_ms: list[int] = field(default_factory=list[int])
    ids: list[bytes] = field(default_factory=list[bytes])

    def add(self, body: bytes) -> int:
        """Gives how many of a record's occurrences have a message in its frame; the
        others are timers of their own, of which a SCHEDULE record tells."""
        before = len(self.ids)
        for due_ms, event_id, *rest in _unpack(body)[1]:
            if not (rest and rest[0]):
                self.due_ms.append(due_ms)
                self.ids.append(event_id)
        return len(self.ids) - before


@dataclass(slots=True)
class Consumption:
    """All stretches of queues that groups are done with, one behind the other."""

    queues: list[int] = field(default_factory=list[int])
    firsts: list[int] = field(default_factory=list[int])
    counts: list[int] = field(default_factory=list[int])

    def add(self, stretches: Iterator[tuple[int, int, int]]) -> int:
        total = 0
        for queue, first, count in stretches:
            self.queues.append(queue)
            self.firsts.append(first)
            self.counts.append(count)
            total += count
        return total


class Entries:
    """How many rows each record of a chunk gives, and what is in them.

    Rows are named by their record and their place in it.
    """

    def __init__(self, records: Records, silent: Mask) -> None:
        """`silent`: which records give no row."""
        self._records = records
        self.kinds = records.heads["kind"]
        self.counts: Numbers = np.ones(len(records), np.int64)
        """Rows of each record."""
        self._base: Numbers = np.zeros(len(records), np.int64)
        self._occurrences = Occurrences()
        self._consumption = Consumption()
        present = set(np.unique(self.kinds).tolist())
        self._count(present)
        self.counts[silent] = 0
        self.rows_before = np.cumsum(self.counts) - self.counts
        """Rows of all records before each."""
        ends = np.cumsum(np.array(self._consumption.counts, np.int64))
        self._stretch_ends: Numbers = ends

    def _count(self, present: set[int]) -> None:
        body_sizes = self._records.ends - self._records.bodies
        for kind in present.intersection(ENTRY_SIZES):
            of_kind = self.kinds == kind
            self.counts[of_kind] = body_sizes[of_kind] // ENTRY_SIZES[kind]
        if RecordKind.OCCURRED in present:
            for record in np.flatnonzero(self.kinds == RecordKind.OCCURRED).tolist():
                self._base[record] = len(self._occurrences.ids)
                body = self._records.body(record)
                self.counts[record] = self._occurrences.add(body)
        settles = (self.kinds == RecordKind.POP_ACK) | (
            self.kinds == RecordKind.OFFSETS
        )
        total = 0
        for record in np.flatnonzero(settles).tolist():
            self._base[record] = total
            stretches = self._stretches(record)
            self.counts[record] = self._consumption.add(stretches)
            total += int(self.counts[record])

    def _stretches(self, record: int) -> Iterator[tuple[int, int, int]]:
        body = self._records.body(record)
        if self.kinds[record] == RecordKind.POP_ACK:
            yield from ACK_DECODER.decode(body).settled
            return
        moved = OFFSETS_DECODER.decode(body)
        for queue, offset in moved.offsets.items():
            before = moved.before.get(queue, offset)
            if before < offset:  # else it goes back, and is done with nothing new
                yield queue, before, offset - before

    def fixed(self, kind: int, record: Numbers, place: Numbers) -> Bytes:
        """The entries of these rows of FIRED or BULK records, as rows of bytes."""
        size = ENTRY_SIZES[kind]
        at = self._records.bodies[record] + place * size
        windows = np.lib.stride_tricks.sliding_window_view(self._records.octets, size)
        return np.ascontiguousarray(windows[at])

    def occurrences(self, record: Numbers, place: Numbers) -> tuple[Numbers, Bytes]:
        """Due times and ids of these rows of OCCURRED records."""
        at = self._base[record] + place
        due_ms = np.array(self._occurrences.due_ms, np.int64)
        ids = np.frombuffer(b"".join(self._occurrences.ids), np.uint8)
        return due_ms[at], ids.reshape(-1, 16)[at]

    def consumed(self, record: Numbers, place: Numbers) -> tuple[Numbers, Numbers]:
        """Queues and offsets of these rows of POP_ACK and OFFSETS records."""
        at = self._base[record] + place
        stretch = np.searchsorted(self._stretch_ends, at, side="right")
        counts = np.array(self._consumption.counts, np.int64)
        within = at - (self._stretch_ends - counts)[stretch]
        queues = np.array(self._consumption.queues, np.int64)[stretch]
        return queues, np.array(self._consumption.firsts, np.int64)[stretch] + within
