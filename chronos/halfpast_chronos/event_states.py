"""Where events stand, and how little the index keeps of those that just wait.

Of an event that was scheduled, and to which nothing has happened since, the record of
its timer tells all. So it has no entry in family E before something happens; what is
kept is where its timer is, as a row beside those of its neighbours. For the ids of
one request are consecutive, and up to 63 of them share an entry of family I:

    I, id whose 6 low bits are 1 -> | topic u32 | due_ms u64 | low byte of the id | x n

The one of 64 whose low bits are 0 has a row of its own, under its id: most requests
bring one event, and it can be entered without a look at what there is. Numbers are
big-endian, as in the timer's key. A row stays until the event is forgotten; where
there is an entry in family E, or no such timer, it means nothing.
"""

from collections.abc import Iterable, Sequence

from halfpast_core_store.ports import Index, IndexBatch
from halfpast_core_store.record import HEADER, HEADER_SIZE, RecordKind

from . import keys
from .event_state import StoredEvent, decode_event

ID_SIZE = 16
ROW_SIZE = 13
READ_COUNT = 25  # messages read at a time, each of which may be 4 MiB
# The last byte of the key, by the last byte of the id.
GROUPS = tuple(bytes(((low & 0xC0) + (low & 0x3F > 0),)) for low in range(256))
ALONE = 0x3F  # of these bits, none is set in an id that has a row of its own


class EventStates:
    """The events of one index."""

    def __init__(self, index: Index) -> None:
        self._index = index

    def get(self, event_id: bytes) -> StoredEvent | None:
        """Where an event stands, or None if it is unknown or forgotten."""
        value = self._index.get(keys.event(event_id))
        if value is not None:
            return decode_event(value)
        if len(event_id) != ID_SIZE:  # a claim may be of another kind
            return None
        timer = timer_of(event_id, self._index.get(group_of(event_id)))
        record = None if timer is None else self._index.get(timer)
        return None if record is None else as_scheduled(record)

    def get_many(self, event_ids: Sequence[bytes]) -> list[StoredEvent | None]:
        """The same for many."""
        values = self._index.get_many([keys.event(it) for it in event_ids])
        found = [None if value is None else decode_event(value) for value in values]
        missing = [at for at, event in enumerate(found) if event is None]
        if not missing:
            return found
        groups = self._groups(event_ids[at] for at in missing)
        places: list[tuple[int, bytes]] = []
        for at in missing:
            timer = timer_of(event_ids[at], groups[group_of(event_ids[at])])
            if timer is not None:
                places.append((at, timer))
        for first in range(0, len(places), READ_COUNT):
            some = places[first : first + READ_COUNT]
            records = self._index.get_many([timer for _, timer in some])
            for (at, _), record in zip(some, records, strict=True):
                found[at] = None if record is None else as_scheduled(record)
        return found

    def of_records(
        self, event_ids: Sequence[bytes], records: Sequence[bytes | None]
    ) -> list[StoredEvent | None]:
        """The same where the record of the timer is at hand, if there is a timer."""
        values = self._index.get_many([keys.event(it) for it in event_ids])
        return [
            decode_event(value)
            if value is not None
            else None
            if record is None
            else as_scheduled(record)
            for value, record in zip(values, records, strict=True)
        ]

    def scheduled(self, batch: IndexBatch, timers: Sequence[bytes]) -> None:
        """Enter events that were just scheduled: the keys of their timers."""
        rows: dict[bytes, list[bytes]] = {}
        group, of_group = b"", list[bytes]()
        for timer in timers:
            low = timer[28]
            key = b"I" + timer[13:28] + GROUPS[low]
            if not low & ALONE:
                batch.put(key, timer[1:13] + timer[28:])
                continue
            if key != group:
                group, of_group = key, rows.setdefault(key, [])
            of_group.append(timer[1:13] + timer[28:])
        if not rows:
            return
        before = self._index.get_many(list(rows))
        for (key, new), old in zip(rows.items(), before, strict=True):
            batch.put(key, b"".join(new) if old is None else joined(old, new))

    def forget(self, batch: IndexBatch, event_ids: Sequence[bytes]) -> None:
        """Delete all that is kept of these."""
        gone: dict[bytes, set[int]] = {}
        for event_id in event_ids:
            batch.delete(keys.event(event_id))
            gone.setdefault(group_of(event_id), set()).add(event_id[15])
        for group, value in self._groups(event_ids).items():
            if value is None:
                continue
            rows = [row for row in rows_of(value) if row[-1] not in gone[group]]
            if rows:
                batch.put(group, b"".join(rows))
            else:
                batch.delete(group)

    def _groups(self, event_ids: Iterable[bytes]) -> dict[bytes, bytes | None]:
        wanted = list(dict.fromkeys(map(group_of, event_ids)))
        return dict(zip(wanted, self._index.get_many(wanted), strict=True))


def group_of(event_id: bytes) -> bytes:
    """The key under which the event's row is."""
    return b"I" + event_id[:15] + GROUPS[event_id[15]]


def rows_of(value: bytes) -> list[bytes]:
    """The rows of an entry of family I."""
    return [value[at : at + ROW_SIZE] for at in range(0, len(value), ROW_SIZE)]


def joined(old: bytes, new: Sequence[bytes]) -> bytes:
    """An entry with rows that are new, or came once more."""
    rows = {row[-1]: row for row in rows_of(old)}
    rows.update((row[-1], row) for row in new)
    return b"".join(rows.values())


def timer_of(event_id: bytes, value: bytes | None) -> bytes | None:
    """The key that the event's timer has, or had, while nothing happened to it."""
    if value is None:
        return None
    low = event_id[15]
    for at in range(0, len(value), ROW_SIZE):
        if value[at + ROW_SIZE - 1] == low:
            return b"T" + value[at : at + ROW_SIZE - 1] + event_id
    return None


def as_scheduled(record: bytes) -> StoredEvent | None:
    """An event of which its record tells all. None for timers of other kinds."""
    if record[4] != RecordKind.SCHEDULE:
        return None
    head = HEADER.unpack_from(record)
    return StoredEvent.scheduled(head, record[HEADER_SIZE : HEADER_SIZE + head[11]])
