"""Pending timers of several topics in the order of their due times, row by row.

Each topic has its own stretch of the index, in that order; here they are merged.
"""

from heapq import heappop, heappush

from halfpast_core_store.ports import Index

from . import keys

Row = tuple[bytes, bytes]
ORDER_SIZE = 24  # due time and id: what a page goes on from
PRIME_COUNT = 25
BUFFER_COUNT = 8  # rows of a topic that are read at once: more if they are small
BUFFER_COUNT_MAX = 128
BUFFER_SIZE = 64 * 1024


class PendingRows:
    """Rows behind `after` (a due time and an id, as in a key) and before `until_ms`."""

    def __init__(
        self, index: Index, prefixes: list[bytes], after: bytes, until_ms: int
    ) -> None:
        self._index = index
        self._unprimed = prefixes
        self._after = after
        self._until = keys.BIG_U64.pack(min(max(until_ms, 0), 2**64 - 1))
        self._buffers: dict[bytes, list[Row]] = {}
        self._counts: dict[bytes, int] = {}
        self._heap: list[tuple[bytes, bytes]] = []

    @property
    def ready(self) -> bool:
        """Whether the first rows of all topics are at hand."""
        return not self._unprimed

    def prime(self) -> None:
        """Read the first rows of some more topics."""
        some, self._unprimed = (
            self._unprimed[:PRIME_COUNT],
            self._unprimed[PRIME_COUNT:],
        )
        for prefix in some:
            self._fill(prefix, self._after)

    def take(self, count: int) -> list[Row]:
        """The next rows; fewer only at the end."""
        rows: list[Row] = []
        while self._heap and len(rows) < count:
            _, prefix = heappop(self._heap)
            buffer = self._buffers[prefix]
            # Nobody else's come before the next topic's first.
            until = self._heap[0][0] if self._heap else b"\xff" * ORDER_SIZE
            while True:
                row = buffer.pop()
                rows.append(row)
                if not buffer or len(rows) == count or order_of(buffer[-1]) > until:
                    break
            if buffer:
                self._push(prefix, buffer)
            else:
                self._fill(prefix, order_of(row) + b"\0")
        return rows

    def _fill(self, prefix: bytes, start: bytes) -> None:
        count = self._counts.get(prefix, BUFFER_COUNT)
        found = self._index.scan(prefix + start, prefix + self._until, count)
        if found:
            small = sum(len(record) for _, record in found) < BUFFER_SIZE
            count = count * 2 if small else count // 2
            self._counts[prefix] = min(max(count, BUFFER_COUNT), BUFFER_COUNT_MAX)
            buffer = found[::-1]
            self._buffers[prefix] = buffer
            self._push(prefix, buffer)

    def _push(self, prefix: bytes, buffer: list[Row]) -> None:
        heappush(self._heap, (order_of(buffer[-1]), prefix))


def order_of(row: Row) -> bytes:
    return row[0][keys.TIMER_PREFIX_SIZE :]
