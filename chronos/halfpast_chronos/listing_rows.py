"""Rows that a list looks at, from one of four places in the index.

    pending    timers by their due time, of all topics together
    keyed      pending events with one key, topic by topic
    dead       topic by topic, by the time they were given up
    finished   delivered and cancelled events by the time of that

Each tells with a row where to go on behind it. That stays good whatever comes and goes
meanwhile, so pages neither repeat nor leave out what does not change.
"""

from typing import NamedTuple, Protocol

from halfpast_core_store.ports import Index

from . import keys
from .operation import EventFilter
from .pending_rows import PendingRows
from .walk import ByKey

DEAD_COUNT = 8  # a row may bring 4 MiB


class ListedRow(NamedTuple):
    """`behind` is where a page goes on that ends with this row."""

    behind: bytes
    event_id: bytes
    record: bytes | None


class ListedRows(Protocol):
    """`take` gives about `count` rows; `is_over` tells whether those were the last."""

    is_over: bool

    def take(self, count: int) -> list[ListedRow]: ...


class Pending:
    """Pending events by their due time."""

    def __init__(
        self, index: Index, prefixes: list[bytes], wanted: EventFilter, after: bytes
    ) -> None:
        first = keys.BIG_U64.pack(max(wanted.due_after_ms, 0)) + bytes(16)
        self._rows = PendingRows(
            index, prefixes, max(first, after), wanted.due_before_ms
        )
        self.is_over = False

    def take(self, count: int) -> list[ListedRow]:
        if not self._rows.ready:
            self._rows.prime()
            return []
        found = self._rows.take(count)
        self.is_over = len(found) < count
        return [
            ListedRow(
                key[keys.TIMER_PREFIX_SIZE :] + b"\0", key[keys.TIMER_ID_AT :], record
            )
            for key, record in found
        ]


class Keyed:
    """Pending events with one key."""

    def __init__(self, index: Index, wanted: EventFilter, after: bytes) -> None:
        self._walk = ByKey(index, wanted)
        self._cursor: bytes | None = after
        self.is_over = False

    def take(self, count: int) -> list[ListedRow]:
        assert self._cursor is not None
        met, self._cursor = self._walk.rows(self._cursor, count)
        self.is_over = self._cursor is None
        rows = [
            ListedRow(it.cursor + b"\0", it.timer[keys.TIMER_ID_AT :], it.record)
            for it in met
        ]
        if rows and self._cursor is not None:
            rows[-1] = rows[-1]._replace(behind=self._cursor)
        return rows


class Dead:
    """Events that are dead."""

    def __init__(self, index: Index, topic_id: int, after: bytes) -> None:
        self._index = index
        start, self._end = keys.dead_range(topic_id)
        self._start = max(start, after)
        self.is_over = False

    def take(self, count: int) -> list[ListedRow]:
        count = min(count, DEAD_COUNT)
        found = self._index.scan(self._start, self._end, count)
        self.is_over = len(found) < count
        if found:
            self._start = found[-1][0] + b"\0"
        return [ListedRow(key + b"\0", key[-16:], record) for key, record in found]


class Finished:
    """Events that are delivered or cancelled."""

    def __init__(self, index: Index, wanted: EventFilter, after: bytes) -> None:
        self._index = index
        start = keys.finished(max(wanted.due_after_ms, 0), b"")
        self._start = max(start, after)
        self._end = keys.finished(max(wanted.due_before_ms, 0), b"")
        self.is_over = False

    def take(self, count: int) -> list[ListedRow]:
        found = self._index.scan_keys(self._start, self._end, count)
        self.is_over = len(found) < count
        if found:
            self._start = found[-1] + b"\0"
        return [ListedRow(key + b"\0", key[9:], None) for key in found]
