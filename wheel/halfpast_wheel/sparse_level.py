"""Slots without a ring, for what no ring can hold: the past and the far future."""

from array import array
from heapq import heapify, heappop, heappush

from halfpast_wheel.level import Slot

STALE_KEYS_MIN = 64


class Bucket:
    """Entries in the order of arrival; those before `position` have been taken."""

    __slots__ = ("entries", "position")

    def __init__(self, entries: Slot) -> None:
        self.entries = entries
        self.position = 0

    def __len__(self) -> int:
        return len(self.entries) - self.position


class SparseLevel:
    """Buckets by key, lowest key first. No bucket is empty."""

    __slots__ = ("_keys", "buckets")

    def __init__(self) -> None:
        self.buckets: dict[int, Bucket] = {}
        self._keys: list[int] = []  # a heap; may name buckets that are gone

    def append(self, key: int, entry: int) -> None:
        """Add an entry behind all others of its key."""
        bucket = self.buckets.get(key)
        if bucket is None:
            self.put(key, array("Q", (entry,)))
        else:
            bucket.entries.append(entry)

    def put(self, key: int, entries: Slot) -> None:
        """Make `entries` the bucket of a key that has none."""
        assert key not in self.buckets
        self.buckets[key] = Bucket(entries)
        heappush(self._keys, key)

    def first(self) -> int | None:
        """The lowest key, or None."""
        keys = self._keys
        while keys and keys[0] not in self.buckets:
            heappop(keys)
        return keys[0] if keys else None

    def take(self, key: int, count: int) -> Slot:
        """Remove and return the oldest entries of a key, at most `count`."""
        bucket = self.buckets[key]
        end = bucket.position + count
        taken = bucket.entries[bucket.position : end]
        bucket.position = end
        if end >= len(bucket.entries):
            self.drop(key)
        return taken

    def drop(self, key: int) -> None:
        """Forget a bucket. Its key leaves the heap when met, or with many others."""
        del self.buckets[key]
        if len(self._keys) > 2 * len(self.buckets) + STALE_KEYS_MIN:
            self._keys = list(self.buckets)
            heapify(self._keys)
