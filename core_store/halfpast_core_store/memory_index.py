"""A model of the index in memory: for simulation and tests, and small tools.

`crash` does what a power cut does to the real one: it keeps the batches up to the
last flush and, since RocksDB also flushes when it likes, perhaps some more.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence

from .ports import IndexBatch


class MemoryBatch:
    """See `ports.IndexBatch`."""

    def __init__(self) -> None:
        self.changes: list[tuple[bytes, bytes | None]] = []

    def put(self, key: bytes, value: bytes) -> None:
        self.changes.append((bytes(key), bytes(value)))

    def delete(self, key: bytes) -> None:
        self.changes.append((bytes(key), None))


class MemoryIndex:
    """See `ports.Index`. Not for large amounts: inserting costs the size."""

    def __init__(self) -> None:
        self._values: dict[bytes, bytes] = {}
        self._keys: list[bytes] = []
        self._durable: dict[bytes, bytes] = {}
        self._since_flush: list[MemoryBatch] = []

    def get(self, key: bytes) -> bytes | None:
        return self._values.get(key)

    def get_many(self, keys: Sequence[bytes]) -> Sequence[bytes | None]:
        return [self._values.get(key) for key in keys]

    def scan(self, start: bytes, end: bytes, limit: int) -> list[tuple[bytes, bytes]]:
        first = bisect_left(self._keys, start)
        keys = self._keys[first : first + limit]
        return [(key, self._values[key]) for key in keys if key < end]

    def scan_keys(self, start: bytes, end: bytes, limit: int) -> list[bytes]:
        return [key for key, _ in self.scan(start, end, limit)]

    def scan_back(
        self, start: bytes, floor: bytes, limit: int
    ) -> list[tuple[bytes, bytes]]:
        behind = bisect_right(self._keys, start)
        keys = self._keys[max(0, behind - limit) : behind]
        return [(key, self._values[key]) for key in reversed(keys) if key >= floor]

    def batch(self) -> IndexBatch:
        return MemoryBatch()

    def write(self, batch: IndexBatch) -> None:
        assert isinstance(batch, MemoryBatch)
        self._since_flush.append(batch)
        for key, value in batch.changes:
            self._change(key, value)

    def _change(self, key: bytes, value: bytes | None) -> None:
        if value is None:
            if self._values.pop(key, None) is not None:
                del self._keys[bisect_left(self._keys, key)]
            return
        if key not in self._values:
            insort(self._keys, key)
        self._values[key] = value

    def flush(self) -> None:
        apply(self._durable, self._since_flush)
        self._since_flush = []

    def close(self) -> None:
        """Closing flushes nothing: what matters has been flushed."""

    @property
    def batches_at_risk(self) -> int:
        """How many batches a crash may still lose."""
        return len(self._since_flush)

    def crash(self, kept: int) -> "MemoryIndex":
        """What a new process finds: all flushed batches and `kept` later ones."""
        survivor = MemoryIndex()
        apply(self._durable, self._since_flush[:kept])
        survivor._durable = dict(self._durable)
        survivor._values = dict(self._durable)
        survivor._keys = sorted(survivor._values)
        return survivor

    def contents(self) -> dict[bytes, bytes]:
        """Everything, for comparing two indexes."""
        return dict(self._values)


def apply(values: dict[bytes, bytes], batches: Sequence[MemoryBatch]) -> None:
    """Apply batches to a plain dict."""
    for batch in batches:
        for key, value in batch.changes:
            if value is None:
                values.pop(key, None)
            else:
                values[key] = value
