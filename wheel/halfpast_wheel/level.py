"""One level of the wheel: a ring of slots, and a bit set of those in use."""

from array import array
from collections.abc import Iterable
from typing import TypeAlias

from halfpast_wheel.config import HANDLE_BITS

Slot: TypeAlias = "array[int]"


class Level:
    """The slots of one level; a slot that holds nothing is None.

    `occupied` has a bit for each slot that is not None, so the next one is found
    without looking at those between.
    """

    __slots__ = ("occupied", "remainder_mask", "shift", "slot_mask", "slots")

    def __init__(self, depth: int, slot_bits: int) -> None:
        self.shift = depth * slot_bits  # a slot spans 2 ** shift ticks
        self.remainder_mask = (1 << self.shift) - 1
        self.slot_mask = (1 << slot_bits) - 1
        self.slots: list[Slot | None] = [None] * (1 << slot_bits)
        self.occupied = 0

    def append(self, tick: int, handle: int) -> None:
        """Add a timer behind all others of its slot."""
        index = (tick >> self.shift) & self.slot_mask
        slot = self.slots[index] or self.open(index)
        slot.append((tick & self.remainder_mask) << HANDLE_BITS | handle)

    def scatter(self, entries: Iterable[int]) -> None:
        """Add entries whose remainders count from the start of this whole ring."""
        shift = HANDLE_BITS + self.shift
        mask = (1 << shift) - 1
        slots = self.slots
        for entry in entries:
            index = entry >> shift
            slot = slots[index] or self.open(index)
            slot.append(entry & mask)

    def open(self, index: int) -> Slot:
        """Put an empty slot at `index`. Whoever opens it puts something in."""
        slot = self.slots[index] = array("Q")
        self.occupied |= 1 << index
        return slot

    def close(self, index: int) -> None:
        """Take the slot at `index` away."""
        self.slots[index] = None
        self.occupied &= ~(1 << index)

    def first(self) -> int:
        """The lowest slot in use, which is also the next. Only if there is one."""
        return (self.occupied & -self.occupied).bit_length() - 1
