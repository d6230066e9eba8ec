"""Walking over pending timers a slice at a time, from wherever the last one ended.

A cursor is a key of the index; it stays good whatever comes and goes meanwhile.

    ByDueTime    topic by topic, each by due time
    ByDueTimeBackwards   the same, each topic's last first
    ByKey        topic by topic, those with one key by their ids
"""

from bisect import bisect_left
from typing import NamedTuple, Protocol

from halfpast_core_store.ports import Index

from . import keys
from .event_states import EventStates
from .operation import EventFilter

DUE_MS_MAX = 2**64 - 1
TIMER_SIZE = 29


class Met(NamedTuple):
    """A timer, and the cursor from which on it is met again."""

    cursor: bytes
    timer: bytes
    record: bytes


class Walk(Protocol):
    """`rows` gives some timers and where to go on; None when there are no more."""

    def rows(self, cursor: bytes, limit: int) -> tuple[list[Met], bytes | None]: ...


class ByDueTime:
    """In the order in which a topic's timers fall due."""

    def __init__(self, index: Index, wanted: EventFilter) -> None:
        self._index = index
        self._wanted = wanted
        self._first = due_bytes(wanted.due_after_ms)
        self._end = due_bytes(wanted.due_before_ms)

    def rows(self, cursor: bytes, limit: int) -> tuple[list[Met], bytes | None]:
        prefix = cursor[:5] or first_topic(self._index, self._wanted)
        if prefix is None:
            return [], None
        start = max(cursor, prefix + self._first)
        found = self._index.scan(start, prefix + self._end, limit)
        met = [Met(key, key, record) for key, record in found]
        if len(found) == limit:
            return met, found[-1][0] + b"\0"
        return met, next_topic(self._index, self._wanted, prefix)


class ByDueTimeBackwards:
    """Those that are due last come first: for moving timers to later times, so that
    what has been moved is not met again."""

    def __init__(self, index: Index, wanted: EventFilter) -> None:
        self._index = index
        self._wanted = wanted
        self._first = due_bytes(wanted.due_after_ms)
        self._end = due_bytes(wanted.due_before_ms)

    def rows(self, cursor: bytes, limit: int) -> tuple[list[Met], bytes | None]:
        prefix = cursor[:5] or first_topic(self._index, self._wanted)
        if prefix is None:
            return [], None
        last = cursor if len(cursor) == TIMER_SIZE else prefix + self._end
        found = self._index.scan_back(last, prefix + self._first, limit)
        met = [Met(key, key, record) for key, record in found]
        if len(found) == limit:
            return met, before(found[-1][0])
        return met, next_topic(self._index, self._wanted, prefix)


class ByKey:
    """Those with one key, which all are within a few steps."""

    def __init__(self, index: Index, wanted: EventFilter) -> None:
        assert wanted.key is not None
        self._index = index
        self._wanted = wanted
        self._key = wanted.key
        self._due = range(wanted.due_after_ms, wanted.due_before_ms)

    def rows(self, cursor: bytes, limit: int) -> tuple[list[Met], bytes | None]:
        prefix = b"T" + cursor[1:5] if cursor else None
        prefix = prefix or first_topic(self._index, self._wanted)
        if prefix is None:
            return [], None
        topic_id = keys.timer_topic(prefix)
        start, end = keys.by_key_range(topic_id, self._key)
        found = self._index.scan(max(cursor, start), end, limit)
        met = self._meet(topic_id, [key for key, _ in found])
        if len(found) == limit:
            return met, found[-1][0] + b"\0"
        after = next_topic(self._index, self._wanted, prefix)
        return met, None if after is None else b"K" + after[1:]

    def _meet(self, topic_id: int, rows: list[bytes]) -> list[Met]:
        """Their timers. Where those are, the events tell: one that is tried again is
        not where its key says."""
        states = EventStates(self._index).get_many([row[-16:] for row in rows])
        places: list[tuple[bytes, bytes]] = []
        for row, event in zip(rows, states, strict=True):
            if event is not None and event.timer_ms in self._due:
                timer = keys.timer(topic_id, event.timer_ms, row[-16:])
                places.append((row, timer))
        records = self._index.get_many([timer for _, timer in places])
        return [
            Met(row, timer, record)
            for (row, timer), record in zip(places, records, strict=True)
            if record is not None
        ]


def walk_for(index: Index, wanted: EventFilter, *, backwards: bool) -> Walk:
    """The shortest way to what a filter wants."""
    if wanted.key:
        return ByKey(index, wanted)
    if backwards:
        return ByDueTimeBackwards(index, wanted)
    return ByDueTime(index, wanted)


def first_topic(index: Index, wanted: EventFilter) -> bytes | None:
    """The prefix of the only topic, or of the first that is wanted or has timers."""
    if wanted.topic_id:
        return keys.timer_prefix(wanted.topic_id)
    if wanted.topic_ids:
        return keys.timer_prefix(wanted.topic_ids[0])
    found = index.scan_keys(b"T", b"U", 1)
    return found[0][:5] if found else None


def next_topic(index: Index, wanted: EventFilter, prefix: bytes) -> bytes | None:
    """The prefix of the next topic, if another one is wanted."""
    behind = keys.timer_topic(prefix) + 1
    if wanted.topic_id or behind >= 2**32:
        return None
    if some := wanted.topic_ids:
        place = bisect_left(some, behind)
        return keys.timer_prefix(some[place]) if place < len(some) else None
    found = index.scan_keys(keys.timer_prefix(behind), b"U", 1)
    return found[0][:5] if found else None


def due_bytes(due_ms: int) -> bytes:
    return keys.BIG_U64.pack(min(max(due_ms, 0), DUE_MS_MAX))


def before(key: bytes) -> bytes:
    """The last key of the same length before this one."""
    return (int.from_bytes(key, "big") - 1).to_bytes(len(key), "big")
