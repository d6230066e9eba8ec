"""Finding an event by its id.

The ids of one request are consecutive and share their high bits, the block. The
index holds one entry a block: where the frame lies in which these events were
first stored. Events that a timer delivers, or that go to dead letters, keep their
id and get no second entry. A message of a transaction gets its entry by the commit,
and an occurrence of a schedule, which has an id of its own, when it is delivered, or
before that if its topic does not take it, by the timer that it becomes.
"""

from collections.abc import Iterable, Iterator

from . import keys
from .broker import FoundEvent
from .commit_log import CommitLog
from .frame import read_runs, records_of
from .ports import Index, IndexBatch
from .record import HEADER, RecordFlag, RecordKind

FIRST_KINDS = frozenset((RecordKind.NORMAL, RecordKind.SCHEDULE))


def first_stored(record: bytes) -> bool:
    """Whether this record is how its event came into the log."""
    header = HEADER.unpack_from(record)
    kind, flags, due_ms = header[1], header[2], header[8]
    if kind == RecordKind.NORMAL:
        came_alone = due_ms == 0 or flags & RecordFlag.OCCURRENCE
        return bool(came_alone) and not flags & RecordFlag.DEAD_LETTER
    return kind in FIRST_KINDS


def blocks_of(records: Iterable[bytes]) -> Iterator[bytes]:
    """Index keys of the blocks in these records, each stretch of one block once."""
    last = b""
    for record in records:
        if first_stored(record):
            block = keys.event_block(record[16:32])
            if block != last:
                last = block
                yield block


class Events:
    """The index of event ids."""

    def __init__(self, index: Index, log: CommitLog) -> None:
        self._index = index
        self._log = log

    def find(self, event_id: bytes) -> FoundEvent:
        """The record under which this event was first stored, if it is kept."""
        value = self._index.get(keys.event_block(event_id))
        if value is None or keys.read_u64(value) < self._log.start:
            return FoundEvent(None)
        header, frame = self._log.read_frame(keys.read_u64(value))
        for run in read_runs(frame, header):
            for record in records_of(frame, run):
                if record[16:32] == event_id and first_stored(record):
                    return FoundEvent(record, header.stored_ms)
        return FoundEvent(None)

    def purge(self, start: bytes, limit: int) -> bytes | None:
        """Delete entries of frames that are gone, looking at `limit` of them. Gives
        the key to go on from, None when there are no more.

        Ids begin with the time, so what is gone stands in front: where nothing is
        gone, the end is reached. A straggler is found when the next segment goes.
        """
        found = self._index.scan(start or b"E", b"F", limit)
        gone = [key for key, value in found if keys.read_u64(value) < self._log.start]
        batch: IndexBatch = self._index.batch()
        for key in gone:
            batch.delete(key)
        self._index.write(batch)
        return found[-1][0] if gone and len(found) == limit else None
