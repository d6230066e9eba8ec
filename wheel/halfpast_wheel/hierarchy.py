"""Where each timer lies: the levels, the past, the far future, and one cascade.

Two rules keep the order of arrival among timers of the same tick. They never depend
on how far away a timer is, only on the digits of its tick (one digit is `slot_bits`):

- A timer lies on the level of the highest digit in which its tick differs from the
  `cursor`, the last tick that was reached. So all timers of a tick lie in one slot.
- While a slot is emptied, which may take many calls, the cursor stays before its start.
  New timers therefore join its end, and are moved after those that came earlier.

What is moved goes to a second set of levels, `staged`, that takes the place of the
first at the start of the slot. So moving may begin while the first set is in use.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from halfpast_wheel.config import HANDLE_BITS, REMAINDER_BITS, WheelConfig
from halfpast_wheel.level import Level
from halfpast_wheel.sparse_level import SparseLevel


class Source(NamedTuple):
    """A slot above level 0, or everything outside of the levels up to their reach."""

    start: int  # tick
    depth: int  # level_count: outside


class Hierarchy:
    """All entries of a wheel, live or not. Times are ticks, not milliseconds."""

    def __init__(self, cursor: int, config: WheelConfig) -> None:
        self.cursor = cursor
        self.levels = [Level(d, config.slot_bits) for d in range(config.level_count)]
        self.staged = [Level(d, config.slot_bits) for d in range(config.level_count)]
        self.due = SparseLevel()  # by tick; none is after the cursor
        self.overflow = SparseLevel()  # by tick >> bucket_bits
        self.source: Source | None = None  # what is being emptied into `staged`
        self.slot_bits = config.slot_bits
        self.reach_bits = config.slot_bits * config.level_count
        self.bucket_bits = min(self.reach_bits, REMAINDER_BITS)
        # From the bit length of the difference to the level.
        digits = [(bits - 1) // config.slot_bits for bits in range(self.reach_bits + 1)]
        self._depths = [max(digit, 0) for digit in digits]

    def place(self, tick: int, handle: int) -> None:
        """Add a timer behind all others of its tick."""
        distance = tick ^ self.cursor
        if tick <= self.cursor:
            self.due.append(tick, handle)
        elif distance >> self.reach_bits:
            key = tick >> self.bucket_bits
            remainder = tick - (key << self.bucket_bits)
            self.overflow.append(key, remainder << HANDLE_BITS | handle)
        else:
            depth = self._depths[distance.bit_length()]
            self.levels[depth].append(tick, handle)

    def place_many(self, timers: Iterable[tuple[int, int]]) -> None:
        """`place` for each (tick, handle), with its usual branch unrolled."""
        cursor, depths, levels = self.cursor, self._depths, self.levels
        reach_bits, slot_mask = self.reach_bits, levels[0].slot_mask
        for tick, handle in timers:
            distance = tick ^ cursor
            if tick <= cursor or distance >> reach_bits:
                self.place(tick, handle)
                continue
            level = levels[depths[distance.bit_length()]]
            index = (tick >> level.shift) & slot_mask
            slot = level.slots[index] or level.open(index)
            slot.append((tick & level.remainder_mask) << HANDLE_BITS | handle)

    def next_tick(self) -> int | None:
        """When there is something to hand out or to move, or None if all is empty."""
        tick = self.due.first()
        if tick is not None:
            return tick
        finest = self.levels[0]
        if finest.occupied:
            return self.slot_start(0, finest.first())
        source = self.next_source()
        return None if source is None else source.start

    def next_source(self) -> Source | None:
        """What has to be emptied next. All that level 0 holds comes before it."""
        if self.source is not None:
            return self.source
        for depth in range(1, len(self.levels)):
            if self.levels[depth].occupied:
                return Source(self.slot_start(depth, self.levels[depth].first()), depth)
        key = self.overflow.first()
        if key is None:
            return None
        return Source(self.reach_start(key), len(self.levels))

    def slot_start(self, depth: int, index: int) -> int:
        """The first tick of a slot in use: its ring is the one the cursor is in."""
        shift = depth * self.slot_bits
        ring = self.cursor >> shift >> self.slot_bits
        return (ring << self.slot_bits | index) << shift

    def reach_start(self, key: int) -> int:
        """The first tick of the levels' reach that the bucket `key` belongs to."""
        return key << self.bucket_bits >> self.reach_bits << self.reach_bits

    def backlog(self, source: Source) -> int:
        """How many entries there are to move; for the outside only a lower bound."""
        if source.depth == len(self.levels):
            key = self.overflow.first()
            if key is None or self.reach_start(key) != source.start:
                return 0
            return len(self.overflow.buckets[key])
        level = self.levels[source.depth]
        slot = level.slots[(source.start >> level.shift) & level.slot_mask]
        return 0 if slot is None else len(slot)

    def stage(self, source: Source, moves_max: int) -> int:
        """Move entries of the next source, oldest first; return how many."""
        assert self.cursor < source.start
        self.source = source
        if source.depth == len(self.levels):
            entries = self._take_outside(source, moves_max)
        else:
            entries = self._take_slot(source, moves_max)
        if source.depth == 1:  # by far the most common
            self.staged[0].scatter(entries)
            return len(entries)
        low = 0
        for level in self.staged[: source.depth]:
            high = 1 << HANDLE_BITS + level.shift + self.slot_bits
            level.scatter(entry for entry in entries if low <= entry < high)
            low = high
        return len(entries)

    def enter(self, source: Source) -> None:
        """Go to the start of a source that has been emptied."""
        levels, staged = self.levels, self.staged
        for depth in range(source.depth):
            levels[depth], staged[depth] = staged[depth], levels[depth]
        self.source = None
        self.cursor = source.start
        first = levels[0].slots[0]
        if first is not None:
            levels[0].close(0)
            self.due.put(source.start, first)

    def _take_slot(self, source: Source, count: int) -> Sequence[int]:
        level = self.levels[source.depth]
        index = (source.start >> level.shift) & level.slot_mask
        slot = level.slots[index]
        if slot is None:
            return ()
        entries = slot[:count]
        del slot[:count]
        if not slot:
            level.close(index)
        return entries

    def _take_outside(self, source: Source, count: int) -> Sequence[int]:
        key = self.overflow.first()
        if key is None or self.reach_start(key) != source.start:
            return ()
        ahead = ((key << self.bucket_bits) - source.start) << HANDLE_BITS
        return [ahead + entry for entry in self.overflow.take(key, count)]
