"""Loading timers from the index, a slice at a time."""

from halfpast_core_store.ports import Index

SLICE_MIN = 32
AHEAD_COUNT = 100  # a third of a millisecond of work
SLICE_SIZE = 1024 * 1024


class LoadSlice:
    """A scan brings the bodies along: `count` is fewer where they are large, and where
    none of them is due yet, so that what is due does not wait for it."""

    def __init__(self, index: Index, count_max: int) -> None:
        self._index = index
        self._count_max = count_max
        self.count = min(SLICE_MIN, count_max)

    def read(
        self, start: bytes, end: bytes, room: int, *, are_due: bool
    ) -> tuple[list[tuple[bytes, bytes]], bool]:
        """The next timers between two keys, one at least and no more than there is
        room for; and whether these are all."""
        count = self.count if are_due else min(self.count, AHEAD_COUNT)
        count = max(1, min(count, room))
        found = self._index.scan(start, end, count)
        self._loaded(sum(len(record) for _, record in found))
        return found, len(found) < count

    def _loaded(self, size: int) -> None:
        count = self.count * 2 if size < SLICE_SIZE else self.count // 2
        self.count = min(max(count, SLICE_MIN), self._count_max)
