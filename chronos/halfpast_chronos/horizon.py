"""The near horizon: those timers that are due next, in the wheel.

Each topic has a *reach*: everything of it in the index up to a key is in the wheel,
and nothing behind it is. That is a key and not a time, so that it may lie within one
millisecond: a million timers due at once are loaded as they fire. New timers within
reach go straight into the wheel. When too many do, the reach is drawn back, and what
then lies behind it is dropped in slices (it is in the index anyway).

What is due waits in its topic's queue, and the topics take turns. Since none may have
more than its share in memory either, a million timers of one are in nobody's way. A
topic that is held has nothing in memory at all: its reach ends where it begins.
Keys take about 300 bytes a timer. Records are kept beside them while there is room.
"""

from collections.abc import Sequence

from halfpast_core_store.ports import Index

from .behind import Behind
from .config import HorizonConfig
from .drops import Drops
from .key_wheel import KeyWheel
from .keys import BIG_U64
from .load_slice import LoadSlice
from .near_records import NearRecords
from .reach import NEVER, Reach, are_far, behind_all, start_of
from .release_rules import ReleaseRules
from .turns import Turns

SAMPLE_COUNT = 999
DROPS_PER_INSERT = 4
SOON_MS = 2_000  # what is due later is loaded when there is nothing else to do
COLLECT_COUNT = 1_000  # moved from the wheel to the topics' queues in one go


class Horizon:
    """The wheel over the timers of an index: over all keys of family T.

    A key is a prefix of `prefix_size` bytes, which names the topic, the due time as a
    big-endian u64, and an id. With `holds_strangers` a topic is held until `control`
    has told about it; those that wait for that are gathered in `strangers`.
    """

    def __init__(
        self,
        index: Index,
        config: HorizonConfig,
        now_ms: int,
        prefix_size: int,
        *,
        holds_strangers: bool = False,
    ) -> None:
        self._index = index
        self._config = config
        self._prefix_size = prefix_size
        self._wheel = KeyWheel(now_ms)  # those that are not due yet
        self._now_ms = self._looked_ms = now_ms  # `_now_ms`: the latest seen
        self._collected_ms = now_ms  # what is queued was due then
        self._count, self._is_crowded = 0, False
        self._records = NearRecords(config.near_size_max)
        self.take_record = self._records.take
        self._slice = LoadSlice(index, config.load_count)
        self._reaches: dict[bytes, Reach] = {}
        self._behind = Behind()
        self._drops = Drops(self.discard)
        self._rules = ReleaseRules(config, holds_strangers=holds_strangers)
        self.strangers = self._rules.strangers
        self.turns = Turns()
        self._discover()

    def __len__(self) -> int:
        return self._count

    def prefixes(self) -> list[bytes]:
        """The prefixes of all topics that have timers, and of some that had."""
        return sorted(self._reaches)

    @property
    def records_size(self) -> int:
        """How many bytes of records are kept."""
        return self._records.size

    # --- what comes and goes ------------------------------------------------------

    def add(self, key: bytes) -> bool:
        """A timer has been stored; True if it now is in the wheel."""
        reach = self._reach_of(key)
        if key >= reach.end and not self._extend(reach, key):
            return False
        if key in reach.handles:
            return False
        self._insert(reach, key)
        return True

    def add_many(self, new: Sequence[bytes], records: Sequence[bytes] = ()) -> None:
        """Timers have been stored, with these records if they are at hand."""
        near_ms = self._now_ms + self._config.lookahead_ms
        if not self._drops and are_far(self._reaches, new, near_ms):
            return
        before, size = self._count, self._prefix_size
        prefix, reach = b"", None
        for i, key in enumerate(new):
            if reach is None or key[:size] != prefix:
                if reach is not None:
                    self._draw_back_if_full(reach)
                reach = self._reach_of(key)
                prefix = reach.prefix
            within = key < reach.end or self._extend(reach, key)
            if within and key not in reach.handles:
                self._insert(reach, key)
                if records:
                    self._records.keep(key, records[i])
        if reach is not None:
            self._draw_back_if_full(reach)
        if self._drops:
            self._drop_slice(DROPS_PER_INSERT * (self._count - before))

    def discard(self, key: bytes) -> None:
        """A timer will not fire under this key any more."""
        reach = self._reaches.get(key[: self._prefix_size])
        handle = None if reach is None else self._leave(reach, key)
        was_due = handle is not None and not self._wheel.take_out(handle)
        if reach is not None and was_due:
            self.turns.lost_one(reach)
        self.take_record(key)  # also of one that fell due while it was claimed

    # --- what is due ----------------------------------------------------------------

    def due(self, now_ms: int, limit: int) -> list[bytes]:
        """Keys of timers due now, each topic's earliest first; they leave the horizon.
        The caller then takes the record of each."""
        self.collect(now_ms)
        found: list[bytes] = []
        looked = 0
        while len(found) < limit and looked < COLLECT_COUNT:
            taken = self.turns.take(limit - len(found), now_ms)
            if not taken:
                break
            looked += len(taken)
            self._take_due(taken, now_ms, found)
        return found

    def _take_due(self, taken: list[bytes], now_ms: int, found: list[bytes]) -> None:
        """Leave out what was discarded meanwhile, or is not due any more."""
        size, reaches = self._prefix_size, self._reaches
        was_set_back = now_ms < self._collected_ms
        for key in taken:
            reach = reaches[key[:size]]
            handle = self._leave(reach, key)
            if handle is None:
                reach.gate.give_back(1)
                reach.gone = max(0, reach.gone - 1)
                continue
            self._wheel.take_out(handle)  # if it came back under the same key
            if was_set_back and self._due_ms(key) > now_ms:
                reach.gate.give_back(1)
                self._insert(reach, key)
                continue
            found.append(key)

    def collect(self, now_ms: int) -> bool:
        """Move some of what is due from the wheel into the queues of its topics.

        True if there is more.
        """
        self._look(now_ms)
        size = self._prefix_size
        moved = 0
        while moved < COLLECT_COUNT:
            for key in self._wheel.advance(now_ms, COLLECT_COUNT - moved):
                reach = self._reaches[key[:size]]
                if not reach.is_held:  # else it is about to be dropped
                    self.turns.add(reach, key)
                moved += 1
            if not self._wheel.behind:
                return False
        return True

    def _look(self, now_ms: int) -> None:
        self._now_ms = max(self._now_ms, now_ms)
        if now_ms < self._looked_ms:
            self.turns.reopen_all()
        self._looked_ms = now_ms
        if now_ms > self._collected_ms or not self.turns:
            self._collected_ms = now_ms

    def next_ms(self) -> int:
        """When to look again: something may be due, or has to be loaded."""
        return min(self.turns.next_ms(self._looked_ms), self._next_due_ms())

    def idle_until(self, now_ms: int) -> int:
        """The same if nothing is due at `now_ms`, else 0. Costs next to nothing."""
        if now_ms < self._looked_ms:
            return 0  # the clock was set back: `collect` has to know
        next_ms = min(self.turns.next_ms(now_ms), self._next_due_ms())
        return next_ms if next_ms > now_ms else 0

    def is_idle(self, now_ms: int) -> bool:
        """Whether nothing is due that may be released."""
        return not self.turns.are_pressing and self._next_due_ms() > now_ms

    def _next_due_ms(self) -> int:
        near_ms = self._wheel.next_deadline_ms()
        behind_ms = self._next_behind_ms()
        return behind_ms if near_ms is None else min(near_ms, behind_ms)

    # --- what may be released ---------------------------------------------------------

    def control(self, prefix: bytes, *, is_held: bool, rate_per_s: int = 0) -> None:
        """From now on a topic is held, or released at this rate (0: no limit)."""
        gate = self._rules.set(prefix, is_held=is_held, rate_per_s=rate_per_s)
        reach = self._reaches.get(prefix)
        if reach is None:
            return
        reach.gate = gate
        reach.count_max = self._rules.share(rate_per_s)
        if is_held:
            self._hold(reach)
        elif reach.is_held:
            reach.is_opening = True
            self._open_when_empty(reach)
        else:
            self.turns.reopen(reach)
            self._behind.opened(reach)
            self._draw_back_if_full(reach)

    def holds(self, key: bytes) -> bool:
        """Whether this timer's topic is held."""
        reach = self._reaches.get(key[: self._prefix_size])
        return reach is not None and reach.is_held

    def release_state(self, prefix: bytes) -> str:
        """One word for what a topic waits for."""
        return self._rules.state(prefix, self._reaches.get(prefix))

    def _hold(self, reach: Reach) -> None:
        reach.is_opening = False
        if reach.is_held:
            return
        reach.is_held = True
        self.turns.clear(reach)
        reach.end = start_of(reach.prefix)
        self._behind.note(reach, self._first_behind_ms(reach))
        self._drops.begin(reach)

    def _open_when_empty(self, reach: Reach) -> None:
        """What is still to be dropped is in the index, and nowhere else: to load it
        while it is half dropped would miss some of it."""
        if reach.is_opening and reach.dropping is None:
            reach.is_held = reach.is_opening = False
            self._behind.opened(reach)

    # --- loading --------------------------------------------------------------------

    def load(self, now_ms: int) -> bool:
        """Load one slice of what is due next, if there is room or it cannot wait.

        True if there may be more to load, or to drop, at once.
        """
        self._now_ms = max(self._now_ms, now_ms)
        self._drop_slice(self._config.load_count)
        reach = self._loadable(now_ms)
        if reach is None:
            return bool(self._drops)
        self._load_slice(reach, now_ms)
        return True

    def wants_load(self, now_ms: int) -> bool:
        """Whether loading should not wait."""
        return bool(self._drops) or self._next_behind_ms() <= now_ms + SOON_MS

    def _loadable(self, now_ms: int) -> Reach | None:
        reach = self._first_behind()
        if reach is None or reach.behind_ms <= now_ms:
            return reach
        is_near = reach.behind_ms <= now_ms + self._config.lookahead_ms
        return reach if is_near and not self._is_crowded else None

    def _next_behind_ms(self) -> int:
        """When a timer may be due that is not in memory, of topics that have room."""
        reach = self._first_behind()
        return NEVER if reach is None else reach.behind_ms

    def _first_behind(self) -> Reach | None:
        count_max = self._config.near_count_max
        limit = count_max * 3 // 4 if self._is_crowded else count_max - 1
        self._is_crowded = self._count > limit
        return self._behind.first(self._is_crowded)

    def _load_slice(self, reach: Reach, now_ms: int) -> None:
        until_ms = now_ms + self._config.lookahead_ms
        until = reach.prefix + BIG_U64.pack(until_ms + 1)
        room = reach.count_max - reach.count
        are_due = reach.behind_ms <= now_ms
        found, are_all = self._slice.read(reach.end, until, room, are_due=are_due)
        new = [timer for timer in found if timer[0] not in reach.handles]
        self._insert_many(reach, new)
        if are_all:
            reach.end = max(reach.end, until)
            self._behind.note(reach, self._first_behind_ms(reach))
        else:
            reach.end = found[-1][0] + b"\0"
            self._behind.note(reach, self._due_ms(found[-1][0]))

    # --- reaches --------------------------------------------------------------------

    def _discover(self) -> None:
        """The topics that have timers in the index."""
        start = b"T"
        while found := self._index.scan_keys(start, b"U", 1):
            key = found[0]
            reach = self._reach_of(key)
            self._behind.note(reach, self._due_ms(key))
            start = behind_all(reach.prefix)

    def _reach_of(self, key: bytes) -> Reach:
        prefix = key[: self._prefix_size]
        reach = self._reaches.get(prefix)
        if reach is None:
            reach = self._reaches[prefix] = self._rules.new_reach(prefix)
        return reach

    def _extend(self, reach: Reach, key: bytes) -> bool:
        """A new timer behind the reach: let it in if it is near and nothing else that
        lies there is; else note that it is there."""
        due_ms = self._due_ms(key)
        near_ms = self._now_ms + self._config.lookahead_ms
        if due_ms <= near_ms < reach.behind_ms and not reach.is_held:
            reach.end = reach.prefix + BIG_U64.pack(near_ms + 1)
            return True
        if due_ms < reach.behind_ms:
            self._behind.note(reach, due_ms)
        return False

    def _first_behind_ms(self, reach: Reach) -> int:
        found = self._index.scan_keys(reach.end, behind_all(reach.prefix), 1)
        return self._due_ms(found[0]) if found else NEVER

    def forget_idle(self) -> None:
        """Drop the reaches of topics that have no timers."""
        idle = [
            prefix
            for prefix, reach in self._reaches.items()
            if not reach.handles
            and reach.due is None
            and reach.behind_ms == NEVER
            and reach.dropping is None
        ]
        for prefix in idle:
            del self._reaches[prefix]

    def _due_ms(self, key: bytes) -> int:
        return int(BIG_U64.unpack_from(key, self._prefix_size)[0])

    # --- the wheel ------------------------------------------------------------------

    def _insert(self, reach: Reach, key: bytes) -> None:
        reach.handles[key] = self._wheel.insert(self._due_ms(key), key)
        self._count += 1

    def _insert_many(self, reach: Reach, new: Sequence[tuple[bytes, bytes]]) -> None:
        """`_insert` timers and keep their records, faster."""
        due_ms = self._due_ms
        handles = self._wheel.insert_many([(due_ms(key), key) for key, _ in new])
        for (key, record), handle in zip(new, handles, strict=True):
            reach.handles[key] = handle
            self._records.keep(key, record)
        self._count += len(new)

    def _leave(self, reach: Reach, key: bytes) -> int | None:
        handle = reach.handles.pop(key, None)
        if handle is not None:
            self._count -= 1
            if reach.room_at >= 0:
                self._behind.left(reach)
        return handle

    def _draw_back_if_full(self, latest: Reach) -> None:
        """Draw back what was added to, or the largest, if there are too many."""
        if len(latest.handles) > 2 * latest.count_max:
            if latest.dropping is None:
                self._draw_back(latest)
        elif self._count > 2 * self._config.near_count_max and not self._drops:
            self._draw_back(max(self._reaches.values(), key=lambda r: r.count))

    def _draw_back(self, reach: Reach) -> None:
        """Move a reach to about the middle of what is within it, never forward: what
        came in behind it meanwhile is not in the wheel."""
        step = max(1, reach.count // SAMPLE_COUNT)
        sample = sorted(list(reach.handles)[::step])
        if sample:
            reach.end = min(reach.end, sample[len(sample) // 2])
            behind_ms = min(reach.behind_ms, self._due_ms(reach.end))
            self._behind.note(reach, behind_ms)
            self._drops.begin(reach)

    def _drop_slice(self, count: int) -> None:
        for reach in self._drops.step(count):
            self._open_when_empty(reach)
            self._draw_back_if_full(reach)
