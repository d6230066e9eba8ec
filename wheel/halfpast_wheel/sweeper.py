"""Takes tombstones out of the slots, a piece at a time."""

from array import array
from collections.abc import Iterator

from halfpast_wheel.hierarchy import Hierarchy
from halfpast_wheel.level import Slot
from halfpast_wheel.sparse_level import SparseLevel
from halfpast_wheel.tombstones import Tombstones


class Sweeper:
    """Goes over the wheel again and again, as far as each `work` pays for.

    The wheel may change between two pieces. Then some entries may be missed, which
    does no harm: they are met in the next pass.
    """

    def __init__(
        self, hierarchy: Hierarchy, tombstones: Tombstones, piece_max: int
    ) -> None:
        self._hierarchy = hierarchy
        self._tombstones = tombstones
        self._piece_max = piece_max
        self._credit = 0
        self._pieces = self._sweep()

    def work(self, entry_count: int) -> None:
        """Look at so many entries more, on average; at one piece at a time."""
        self._credit += entry_count
        while self._credit > 0:
            looked = next(self._pieces, None)
            if looked is None:  # everything has been looked at
                self._pieces = self._sweep()
                break
            self._credit -= looked

    def _sweep(self) -> Iterator[int]:
        """One pass; yields after each piece of work how large it was."""
        for depth in range(len(self._hierarchy.levels)):
            yield from self._sweep_level(depth)
        yield from self._sweep_sparse(self._hierarchy.due, 0)
        yield from self._sweep_sparse(
            self._hierarchy.overflow, self._hierarchy.bucket_bits
        )

    def _sweep_level(self, depth: int) -> Iterator[int]:
        hierarchy = self._hierarchy
        slot_count = len(hierarchy.levels[depth].slots)
        for index in range(slot_count):
            position = 0
            while True:
                # Looked up again each time: levels change places, slots come and go.
                level = hierarchy.levels[depth]
                slot = level.slots[index]
                if slot is None or position >= len(slot):
                    break
                start = hierarchy.slot_start(depth, index)
                looked, kept = self._sweep_piece(slot, position, start)
                position += kept
                if not slot:
                    level.close(index)
                yield looked
        yield slot_count  # looking at empty slots is work too

    def _sweep_sparse(self, sparse: SparseLevel, key_bits: int) -> Iterator[int]:
        keys = list(sparse.buckets)
        for key in keys:
            position = 0
            while (bucket := sparse.buckets.get(key)) is not None:
                position = max(position, bucket.position)
                if position >= len(bucket.entries):
                    break
                looked, kept = self._sweep_piece(
                    bucket.entries, position, key << key_bits
                )
                position += kept
                if not len(bucket):
                    sparse.drop(key)
                yield looked
        yield len(keys)

    def _sweep_piece(self, slot: Slot, position: int, start: int) -> tuple[int, int]:
        """Rewrite a piece of a slot; return how many entries were there and remain."""
        end = position + self._piece_max
        piece = slot[position:end]
        alive = self._tombstones.bury(piece, start)
        if len(alive) < len(piece):
            slot[position:end] = array("Q", alive)
        return len(piece), len(alive)
