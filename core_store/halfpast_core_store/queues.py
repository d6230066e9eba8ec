"""Consume queues: which records stand in which queue, and where they lie.

An entry of the index stands for a run (see `frame.py`): its key is the offset of
its first record, its value the frame's position, its store time, and where each
record begins in the frame. A queue without messages costs nothing.

    position u64 | stored_ms u64 | starts u32 x (count + 1)      little-endian

Offsets are assigned when a frame is laid out and become visible when it is
durable, so there is never a gap.
"""

import struct
import sys
from array import array
from collections import deque
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from . import keys
from .commit_log import CommitLog
from .errors import CorruptLog, OffsetOutOfRange
from .frame import FrameHeader, PlacedRun
from .ports import Index, IndexBatch
from .topics import USER_TOPIC_ID_MIN

VALUE = struct.Struct("<QQ")
KNOWN_MAX = 200_000
RECENT_QUEUES = 4_096
RECENT_RUNS = 16  # of a queue, kept in memory
QUEUE_SIZE = 7  # bytes of a key that tell the queue

assert sys.byteorder == "little", "arrays are stored as they lie in memory"


class QueueRun(NamedTuple):
    """A run of a consume queue. Record i of it begins at starts[i] in its frame."""

    base: int
    position: int
    stored_ms: int
    starts: "array[int]"

    @property
    def end(self) -> int:
        return self.base + len(self.starts) - 1


class QueuedRecord(NamedTuple):
    """A record with its place in the queue."""

    offset: int
    stored_ms: int
    record: bytes


class Queues:
    """All consume queues of a store."""

    def __init__(self, index: Index, log: CommitLog) -> None:
        self._index = index
        self._log = log
        self._next: dict[tuple[int, int], int] = {}
        self._ends: dict[tuple[int, int], int] = {}
        self._begins: dict[tuple[int, int], tuple[int, int]] = {}
        """First offsets, and where the log began when they were looked up."""
        self._recent: dict[tuple[int, int], deque[QueueRun]] = {}

    # --- writing --------------------------------------------------------------

    def assign(self, topic_id: int, queue_id: int, count: int) -> int:
        """Take the next `count` offsets of a queue; gives the first of them."""
        queue = (topic_id, queue_id)
        base = self._next.get(queue)
        if base is None:
            base = self.end(topic_id, queue_id)
        self._next[queue] = base + count
        return base

    def apply(
        self, batch: IndexBatch, header: FrameHeader, runs: Sequence[PlacedRun]
    ) -> None:
        """Enter the runs of a durable frame."""
        value = VALUE.pack(header.position, header.stored_ms)
        for topic_id, queue_id, base, starts in runs:
            if topic_id >= USER_TOPIC_ID_MIN:
                places = array("I", starts)
                key = keys.queue_run(topic_id, queue_id, base)
                batch.put(key, value + places.tobytes())
                run = QueueRun(base, header.position, header.stored_ms, places)
                self._remember((topic_id, queue_id), run)

    def _remember(self, queue: tuple[int, int], run: QueueRun) -> None:
        """Keep the end of the queue at hand: that is where most consumers read."""
        if len(self._ends) >= KNOWN_MAX:
            self._ends.clear()
        self._ends[queue] = run.end
        recent = self._recent.get(queue)
        if recent is None:
            if len(self._recent) >= RECENT_QUEUES:
                self._recent.clear()
            recent = self._recent[queue] = deque(maxlen=RECENT_RUNS)
        recent.append(run)

    def forget_assigned(self) -> None:
        """Drop the memory of next offsets. Only while nothing is in flight."""
        if len(self._next) > KNOWN_MAX:
            self._next.clear()

    # --- reading --------------------------------------------------------------

    def end(self, topic_id: int, queue_id: int) -> int:
        """The offset that the next visible record will have."""
        end = self._ends.get((topic_id, queue_id))
        if end is None:
            found = self._run_before(topic_id, queue_id, 2**64 - 1)
            end = self._ends[topic_id, queue_id] = 0 if found is None else found.end
        return end

    def begin(self, topic_id: int, queue_id: int) -> int:
        """The offset of the oldest record that retention has left."""
        log_start = self._log.start
        known = self._begins.get((topic_id, queue_id))
        if known is not None and known[0] == log_start:
            return known[1]
        start = keys.queue_run(topic_id, queue_id, 0)
        end = keys.queue_run(topic_id, queue_id, 2**64 - 1)
        limit = 1  # most often the first will do
        while True:
            found = self._index.scan(start, end, limit)
            for key, value in found:
                if VALUE.unpack_from(value)[0] >= log_start:
                    base = keys.QUEUE_RUN.unpack(key)[3]
                    return self._remember_begin(topic_id, queue_id, log_start, base)
            if len(found) < limit:
                return self.end(topic_id, queue_id)
            limit = 100
            start = found[-1][0] + b"\0"

    def _remember_begin(
        self, topic_id: int, queue_id: int, log_start: int, begin: int
    ) -> int:
        """It stays as long as the log begins there."""
        if len(self._begins) >= KNOWN_MAX:
            self._begins.clear()
        self._begins[topic_id, queue_id] = (log_start, begin)
        return begin

    def read(
        self, topic_id: int, queue_id: int, offset: int, count: int, size_max: int
    ) -> list[QueuedRecord]:
        """Up to `count` records from `offset` on, and at most `size_max` bytes of
        them, but one at least if there is one.

        Ends in front of a damaged frame. Raises OffsetOutOfRange, and CorruptLog
        where the very first record is damaged.
        """
        found: list[QueuedRecord] = []
        for run in self._runs_from(topic_id, queue_id, offset, count):
            first = offset - run.base
            last = min(first + count - len(found), len(run.starts) - 1)
            starts = run.starts
            while last - first > (0 if found else 1) and (
                starts[last] - starts[first] > size_max
            ):
                last = first + (last - first) // 2
            try:
                data = self._log.read_part(run.position, starts[first], starts[last])
            except CorruptLog:
                if not found:
                    raise
                break  # first what is in front of the damage
            shift = starts[first]
            found.extend(
                QueuedRecord(
                    run.base + i,
                    run.stored_ms,
                    data[starts[i] - shift : starts[i + 1] - shift],
                )
                for i in range(first, last)
            )
            size_max -= len(data)
            offset = run.base + last
            if offset < run.end or len(found) >= count:
                break
        return found

    def _runs_from(
        self, topic_id: int, queue_id: int, offset: int, count: int
    ) -> list[QueueRun]:
        end = self.end(topic_id, queue_id)
        if offset == end:
            return []
        recent = self._recent.get((topic_id, queue_id))
        if recent and recent[0].base <= offset < end:
            runs = [run for run in recent if run.end > offset]
            if runs[0].position >= self._log.start:
                return runs
        first = None
        if 0 <= offset < end:
            first = self._run_before(topic_id, queue_id, offset)
        if first is None or offset >= first.end or first.position < self._log.start:
            raise OffsetOutOfRange(offset, self.begin(topic_id, queue_id), end)
        runs = [first]
        missing = count - (first.end - offset)
        if missing > 0:
            more = self._index.scan(
                keys.queue_run(topic_id, queue_id, first.end),
                keys.queue_run(topic_id, queue_id, 2**64 - 1),
                min(missing, 256),
            )
            runs.extend(decode_run(key, value) for key, value in more)
        return runs

    def _run_before(self, topic_id: int, queue_id: int, offset: int) -> QueueRun | None:
        """The run that holds `offset`, or the last one before it."""
        found = self._index.scan_back(
            keys.queue_run(topic_id, queue_id, offset),
            keys.queue_run(topic_id, queue_id, 0),
            1,
        )
        return decode_run(*found[0]) if found else None

    # --- retention ------------------------------------------------------------

    def purge(self, start: bytes, limit: int) -> bytes | None:
        """Delete entries of records that are gone, looking at `limit` of them.

        The last run of a queue stays, since it tells the next offset. Gives the
        key to go on from, None when the end was reached.
        """
        found = self._index.scan(start or b"Q", b"R", limit)
        batch = self._index.batch()
        kept = b""
        for (key, value), (following, _) in pairwise(found):
            queue = key[:QUEUE_SIZE]
            if VALUE.unpack_from(value)[0] >= self._log.start:
                kept = queue  # and so is all behind it in this queue
            elif queue == following[:QUEUE_SIZE]:
                batch.delete(key)
        self._index.write(batch)
        if len(found) < limit:
            return None
        last = found[-1][0]
        is_kept = last[:QUEUE_SIZE] == kept
        return kept + b"\xff" * 9 if is_kept else last


def decode_run(key: bytes, value: bytes) -> QueueRun:
    """An entry of the index."""
    base = keys.QUEUE_RUN.unpack(key)[3]
    position, stored_ms = VALUE.unpack_from(value)
    starts = array("I")
    starts.frombytes(value[VALUE.size :])
    return QueueRun(base, position, stored_ms, starts)
