"""A hierarchical timing wheel: many timers, and which of them are due, cheaply.

After George Varghese and Tony Lauck, "Hashed and Hierarchical Timing Wheels: Data
Structures for the Efficient Implementation of a Timer Facility", SOSP 1987, scheme 7.

Read a time like the digits of a clock. With ten slots a level (the real one has 1024),
it is tick 274, and timers are pending for 276, 278, 291 and 508:

    level 2, a slot is 100 ticks   | 0 1 2 3 4 5 6 7 8 9      slot 5: 508
                                         ^         *
    level 1, a slot is 10 ticks    | 0 1 2 3 4 5 6 7 8 9      slot 9: 291
                                                   ^   *
    level 0, a slot is 1 tick      | 0 1 2 3 4 5 6 7 8 9      slot 6: 276, slot 8: 278
                                             ^   *   *

A timer lies on the level of the first digit that differs from the clock's. Inserting
is finding that digit and appending to an array, whatever else is pending. With each
tick the hand on level 0 moves on, and what lies in its slot is due. At 290, slot 9 of
level 1 is emptied: 291 moves down to slot 1 of level 0. That is a *cascade*. A timer
takes part in at most one a level, and what is far away is never looked at. At 500, 508
goes from level 2 straight to slot 8 of level 0: its middle digit is the clock's.

What is added to the textbook:

- A bit set per level says which slots are in use, so time that holds nothing is
  skipped at once: `advance` goes from slot to slot and never counts ticks.
- A cascade is done in pieces, so that no call takes long, and mostly before its time.
  The order is kept all the same: by tick, then by arrival (`hierarchy.py`).
- A timer is 64 bits in an `array('Q')` (`config.py`), nothing for the garbage
  collector to follow. What lies beyond the last level waits in buckets outside.
- Cancelling leaves a tombstone (`tombstones.py`). When these outnumber the timers,
  each further cancel sweeps a little (`sweeper.py`).
"""

from collections.abc import Iterable, KeysView

from halfpast_wheel.config import HANDLE_BITS, WheelConfig
from halfpast_wheel.errors import HandleOutOfRange, HandlePending
from halfpast_wheel.hierarchy import Hierarchy
from halfpast_wheel.sweeper import Sweeper
from halfpast_wheel.tombstones import Tombstones

# What turning to a slot costs, beside moving what is in it, by the clock.
MOVES_PER_CASCADE = 16
# A cancel pays for this part of a piece of sweeping: 64 entries, normally.
CALLS_PER_PIECE = 16


class TimingWheel:
    """Timers by deadline. Times are whole milliseconds of whatever clock you use.

    A handle is any number of 40 bits that you choose; it can have one timer at a time.
    Rounding is up, so nothing is ever early.
    """

    def __init__(self, now_ms: int, config: WheelConfig | None = None) -> None:
        self._config = config or WheelConfig()
        self._tick_ms = self._config.tick_ms
        self._now = now_ms // self._tick_ms  # as last told; may go back
        self._hierarchy = Hierarchy(max(self._now, 0), self._config)
        self._deadlines: dict[int, int] = {}  # live timers: handle -> deadline_ms
        self._tombstones = Tombstones()
        self._sweeper = Sweeper(
            self._hierarchy, self._tombstones, self._config.upkeep_moves_max
        )

    def __len__(self) -> int:
        """How many timers are pending."""
        return len(self._deadlines)

    def handles(self) -> KeysView[int]:
        """The handles that are pending, a live view in no order of time."""
        return self._deadlines.keys()

    def deadline_ms(self, handle: int) -> int | None:
        """The deadline of a pending timer as it was given, or None."""
        return self._deadlines.get(handle)

    @property
    def tombstone_count(self) -> int:
        """How many cancelled timers still take up room in the wheel."""
        return len(self._tombstones)

    def insert(self, deadline_ms: int, handle: int) -> None:
        """Add a timer. A deadline in the past is due at the next `advance`.

        Raises `HandleOutOfRange`, or `HandlePending`: cancel before inserting anew.
        """
        if handle >> HANDLE_BITS:
            raise HandleOutOfRange(handle, HANDLE_BITS)
        if handle in self._deadlines:
            raise HandlePending(handle)
        self._deadlines[handle] = deadline_ms
        tick = -(-deadline_ms // self._tick_ms)
        if not (self._tombstones and self._tombstones.revive(tick, handle)):
            self._hierarchy.place(tick, handle)

    def insert_many(self, items: Iterable[tuple[int, int]]) -> None:
        """`insert` each (deadline_ms, handle), faster. All are inserted, or none.

        Raises as `insert` does, also where a handle comes twice.
        """
        timers = items if isinstance(items, list) else list(items)
        added = {handle: deadline_ms for deadline_ms, handle in timers}
        self._check_new(timers, added)
        self._deadlines.update(added)
        tick_ms, tombstones = self._tick_ms, self._tombstones
        if tick_ms != 1:
            timers = [(-(-at // tick_ms), handle) for at, handle in timers]
        if tombstones:
            timers = [timer for timer in timers if not tombstones.revive(*timer)]
        self._hierarchy.place_many(timers)

    def cancel(self, handle: int) -> bool:
        """Drop a timer. True if it was pending; it will not be returned any more."""
        deadline_ms = self._deadlines.pop(handle, None)
        if deadline_ms is None:
            return False
        self._tombstones.add(-(-deadline_ms // self._tick_ms), handle)
        self._sweep_if_needed()
        return True

    def advance(self, now_ms: int, limit: int) -> list[int]:
        """Remove and return the handles that are due at `now_ms`, earliest first.

        Those of one tick come in the order of arrival (but one that was cancelled and
        came back to the same tick may take its old place again). At most `limit` are
        returned. Fewer than are due come back, even none, when the call has moved or
        dropped about `cascade_moves_max` entries: look at `behind` and call again.

        The wheel never turns back. With a `now_ms` smaller than before it returns only
        what is due at that time and had not been returned, normally nothing.
        """
        self._now = now = now_ms // self._tick_ms
        hierarchy = self._hierarchy
        expired: list[int] = []
        moves_left = self._config.cascade_moves_max
        while len(expired) < limit and moves_left > 0:
            tick = hierarchy.due.first()
            if tick is not None and tick <= now:
                moves_left -= self._expire_due(tick, limit, expired)
            elif hierarchy.cursor >= now:
                break
            elif hierarchy.levels[0].occupied:
                moves_left -= self._expire_ring(now, limit, expired)
            else:
                source = hierarchy.next_source()
                if source is None or source.start > now:
                    hierarchy.cursor = now
                    break
                hierarchy.cursor = source.start - 1
                moves_left -= hierarchy.stage(source, moves_left) + MOVES_PER_CASCADE
                if not hierarchy.backlog(source):
                    hierarchy.enter(source)
        deadlines = self._deadlines
        for handle in expired:
            del deadlines[handle]
        self._work_ahead()
        self._sweep_if_needed()
        return expired

    @property
    def behind(self) -> bool:
        """Whether to call `advance` again at once, with the same time: more is due."""
        tick = self._hierarchy.next_tick()
        return tick is not None and tick <= self._now and bool(self._deadlines)

    def next_deadline_ms(self) -> int | None:
        """When to call `advance` next; None if nothing is pending. Never too late.

        Exact when the next timer is on level 0 or overdue. It is earlier than the next
        deadline when that one is further away (the start of its slot), was cancelled
        and not yet swept, or when a slot of more than `cascade_moves_max` entries is
        coming: then the wheel asks for a call each tick, to work ahead.
        """
        if not self._deadlines:
            return None
        hierarchy = self._hierarchy
        tick = hierarchy.next_tick()
        assert tick is not None  # a live timer lies somewhere
        source = hierarchy.next_source()
        if source and hierarchy.backlog(source) > self._config.cascade_moves_max:
            ahead = source.start - len(hierarchy.levels[0].slots)
            tick = min(tick, max(ahead, hierarchy.cursor + 1))
        return tick * self._tick_ms

    def _check_new(self, timers: list[tuple[int, int]], added: dict[int, int]) -> None:
        """Raise unless the handles are in range, and new to us and to each other."""
        if not added:
            return
        for handle in (min(added), max(added)):
            if handle >> HANDLE_BITS:
                raise HandleOutOfRange(handle, HANDLE_BITS)
        if len(added) == len(timers) and self._deadlines.keys().isdisjoint(added):
            return
        seen: set[int] = set()
        for _, handle in timers:
            if handle in seen or handle in self._deadlines:
                raise HandlePending(handle)
            seen.add(handle)

    def _expire_due(self, tick: int, limit: int, expired: list[int]) -> int:
        """Hand out timers of a tick that was reached; return how many were dead."""
        entries = self._hierarchy.due.take(tick, limit - len(expired))
        alive = self._tombstones.bury(entries, tick) if self._tombstones else entries
        expired += alive
        return len(entries) - len(alive)

    def _expire_ring(self, now: int, limit: int, expired: list[int]) -> int:
        """Go on to `now` or the end of level 0, handing out what lies on the way.

        Stops at a slot that would go beyond the limit. Returns how many were dead.
        """
        hierarchy, tombstones = self._hierarchy, self._tombstones
        level = hierarchy.levels[0]
        slots, occupied = level.slots, level.occupied
        start = hierarchy.slot_start(0, 0)
        last = min(now - start, level.slot_mask)
        room, dead_count = limit - len(expired), 0
        index = level.first()
        while index <= last:
            slot = slots[index]
            if slot is None:
                rest = occupied >> index
                if not rest:
                    break
                index += (rest & -rest).bit_length() - 1
                continue
            slots[index] = None
            if len(slot) > room:
                hierarchy.due.put(start + index, slot)
                last = index
                break
            room -= len(slot)
            if tombstones:
                alive = tombstones.bury(slot, start + index)
                dead_count += len(slot) - len(alive)
                expired += alive
            else:
                expired += slot
            index += 1
        level.occupied = occupied >> (last + 1) << (last + 1)
        hierarchy.cursor = start + last
        return dead_count

    def _work_ahead(self) -> None:
        """Move a part of what comes right after level 0, if all that is due is out."""
        hierarchy = self._hierarchy
        if hierarchy.cursor != self._now or hierarchy.due.buckets:
            return
        source = hierarchy.next_source()
        end = (hierarchy.cursor | hierarchy.levels[0].slot_mask) + 1
        if source and source.start == end and hierarchy.backlog(source):
            hierarchy.stage(source, self._config.upkeep_moves_max)

    def _sweep_if_needed(self) -> None:
        """Sweep a little while tombstones clearly outnumber the timers."""
        piece_max = self._config.upkeep_moves_max
        if len(self._tombstones) > len(self._deadlines) + piece_max:
            self._sweeper.work(max(1, piece_max // CALLS_PER_PIECE))
