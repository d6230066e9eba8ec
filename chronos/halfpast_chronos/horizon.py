"""The near horizon: those timers that are due next, in the wheel.

Each topic has a *reach*: everything of it in the index up to a key is in the wheel,
and nothing behind it is. That is a key and not a time, so that it may lie within one
millisecond: a million timers due at once are loaded as they fire. New timers within
reach go straight into the wheel. When too many do, the reach is drawn back, and what
now lies behind it is dropped a slice at a time (it is in the index anyway).

What is due waits in its topic's queue, and the topics take turns. Since no topic may
have more than its share in memory either, a million timers of one are in nobody's way.

Keys take about 300 bytes a timer. Records are kept beside them as long as there is
room for them; those of the others are read when they fire.
"""

from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from itertools import islice
from typing import Protocol

from halfpast_core_store.ports import Index
from halfpast_wheel.timing_wheel import TimingWheel

from .keys import BIG_U64
from .reach import NEVER, Reach
from .turns import Turns

SAMPLE_COUNT = 999
SLICE_MIN = 32
DROPS_PER_INSERT = 4
SLICE_SIZE = 1024 * 1024
COLLECT_COUNT = 1_000  # moved from the wheel to the topics' queues in one go
FIRST = bytes(8)


class HorizonConfig(Protocol):
    """How much is held in memory (see `config.py`)."""

    @property
    def lookahead_ms(self) -> int: ...
    @property
    def near_count_max(self) -> int: ...
    @property
    def near_topic_count_max(self) -> int: ...
    @property
    def near_size_max(self) -> int: ...
    @property
    def load_count(self) -> int: ...


class Horizon:
    """The wheel over the timers of an index: over all keys of family T.

    A key is a prefix of `prefix_size` bytes, which names the topic, the due time as a
    big-endian u64, and an id.
    """

    def __init__(
        self, index: Index, config: HorizonConfig, now_ms: int, prefix_size: int
    ) -> None:
        self._index = index
        self._config = config
        self._prefix_size = prefix_size
        self._wheel = TimingWheel(now_ms)
        self._now_ms = now_ms
        self._key_of: dict[int, bytes] = {}
        self._handle_of: dict[bytes, int] = {}
        self._handles = 0
        self._dropping: list[bytes] = []
        self._drawn_back: Reach | None = None
        self._count_before = 0
        self._records: dict[bytes, bytes] = {}
        self._records_size = 0
        self._slice_count = min(SLICE_MIN, config.load_count)
        self._reaches: dict[bytes, Reach] = {}
        self._behind: list[tuple[int, bytes]] = []  # heap; may hold what is outdated
        self.turns = Turns()
        self._discover()

    def __len__(self) -> int:
        return len(self._handle_of)

    def prefixes(self) -> list[bytes]:
        """The prefixes of all topics that have timers, and of some that had."""
        return sorted(self._reaches)

    # --- what comes and goes ------------------------------------------------------

    def add(self, key: bytes) -> bool:
        """A timer has been stored; True if it now is in the wheel."""
        reach = self._reach_of(key)
        if key >= reach.end and not self._extend(reach, key):
            return False
        if key in self._handle_of:
            return False
        self._insert(reach, key)
        return True

    def add_many(self, new: Sequence[bytes], records: Sequence[bytes] = ()) -> None:
        """Timers have been stored, with these records if they are at hand."""
        before = len(self._handle_of)
        size = self._prefix_size
        handle_of = self._handle_of
        prefix, reach = b"", None
        for i, key in enumerate(new):
            if reach is None or key[:size] != prefix:
                reach = self._reach_of(key)
                prefix = reach.prefix
            within = key < reach.end or self._extend(reach, key)
            if within and key not in handle_of:
                self._insert(reach, key)
                if records:
                    self._keep(key, records[i])
        if self._dropping:
            self._drop_slice(DROPS_PER_INSERT * (len(self._handle_of) - before))
        elif len(self._handle_of) > before:
            self._draw_back_if_full(reach)

    def discard(self, key: bytes) -> None:
        """A timer will not fire under this key any more."""
        handle = self._handle_of.pop(key, None)
        if handle is not None:
            reach = self._reaches[key[: self._prefix_size]]
            reach.count -= 1
            if self._key_of.pop(handle, None) is not None:
                self._wheel.cancel(handle)
            # One that is due stays in its topic's queue until its turn comes.
        self.take_record(key)  # also of one that fell due while it was claimed

    def take_record(self, key: bytes) -> bytes | None:
        """The record of a timer if it was kept; it is not kept any longer."""
        record = self._records.pop(key, None)
        if record is not None:
            self._records_size -= len(record)
        return record

    @property
    def records_size(self) -> int:
        """How many bytes of records are kept."""
        return self._records_size

    # --- what is due ----------------------------------------------------------------

    def due(self, now_ms: int, limit: int) -> list[bytes]:
        """Keys of timers due now, each topic's earliest first; they leave the horizon.
        The caller then takes the record of each."""
        self.collect(now_ms)
        found: list[bytes] = []
        for key in self.turns.take(limit):
            if self._handle_of.pop(key, None) is not None:
                self._reaches[key[: self._prefix_size]].count -= 1
                found.append(key)
        return found

    def collect(self, now_ms: int) -> bool:
        """Move some of what is due from the wheel into the queues of its topics.

        True if there is more.
        """
        self._now_ms = max(self._now_ms, now_ms)
        size = self._prefix_size
        moved = 0
        while moved < COLLECT_COUNT:
            for handle in self._wheel.advance(now_ms, COLLECT_COUNT - moved):
                key = self._key_of.pop(handle)
                self.turns.add(self._reaches[key[:size]], key)
                moved += 1
            if not self._wheel.behind:
                return False
        return True

    def next_ms(self) -> int:
        """When to look again: something may be due, or has to be loaded."""
        if self.turns:
            return 0
        behind_ms = self._next_behind_ms()
        near_ms = self._wheel.next_deadline_ms()
        return behind_ms if near_ms is None else min(near_ms, behind_ms)

    # --- loading --------------------------------------------------------------------

    def load(self, now_ms: int) -> bool:
        """Load one slice of what is due next, if there is room or it cannot wait.

        True if there may be more to load, or to drop, at once.
        """
        self._now_ms = max(self._now_ms, now_ms)
        self._drop_slice(self._config.load_count)
        reach = self._pop_loadable(now_ms)
        if reach is None:
            return bool(self._dropping)
        self._load_slice(reach, now_ms)
        return True

    def wants_load(self, now_ms: int) -> bool:
        """Whether loading should not wait."""
        runs_low = len(self._handle_of) < self._config.near_count_max // 2
        return runs_low or self._next_behind_ms() <= now_ms

    def _load_slice(self, reach: Reach, now_ms: int) -> None:
        room = self._config.near_topic_count_max - reach.count
        count = max(1, min(self._slice_count, room))
        until_ms = now_ms + self._config.lookahead_ms
        until = reach.prefix + BIG_U64.pack(until_ms + 1)
        found = self._index.scan(reach.end, until, count)
        for key, record in found:
            if key not in self._handle_of:
                self._insert(reach, key)
                self._keep(key, record)
        self._resize_slice(sum(len(record) for _, record in found))
        if len(found) < count:
            reach.end = max(reach.end, until)
            behind = self._index.scan(reach.end, after(reach.prefix), 1)
            self._set_behind(reach, self._due_ms(behind[0][0]) if behind else NEVER)
        else:
            reach.end = found[-1][0] + b"\0"
            self._set_behind(reach, self._due_ms(found[-1][0]))

    def _pop_loadable(self, now_ms: int) -> Reach | None:
        """The topic with the earliest timers behind its reach, if it has room."""
        until_ms = now_ms + self._config.lookahead_ms
        full = len(self._handle_of) >= self._config.near_count_max
        waiting: list[tuple[int, bytes]] = []
        found: Reach | None = None
        while self._behind and self._behind[0][0] <= until_ms and found is None:
            behind_ms, prefix = heappop(self._behind)
            reach = self._reaches.get(prefix)
            if reach is None or reach.behind_ms != behind_ms:
                continue
            if reach.count < self._config.near_topic_count_max and not (
                full and (reach.count or behind_ms > now_ms)
            ):
                found = reach
            else:
                waiting.append((behind_ms, prefix))
        for entry in waiting:
            heappush(self._behind, entry)
        return found

    def _next_behind_ms(self) -> int:
        """When a timer that is not in memory may be due, of topics that have room;
        the others are looked at when some of theirs have fired."""
        room = self._config.near_topic_count_max
        waiting: list[tuple[int, bytes]] = []
        next_ms = NEVER
        while self._behind:
            behind_ms, prefix = self._behind[0]
            reach = self._reaches.get(prefix)
            if reach is not None and reach.behind_ms == behind_ms:
                if reach.count < room:
                    next_ms = behind_ms
                    break
                waiting.append(self._behind[0])
            heappop(self._behind)
        for entry in waiting:
            heappush(self._behind, entry)
        return next_ms

    # --- reaches --------------------------------------------------------------------

    def _discover(self) -> None:
        """The topics that have timers in the index."""
        start = b"T"
        while found := self._index.scan(start, b"U", 1):
            key = found[0][0]
            reach = self._reach_of(key)
            self._set_behind(reach, self._due_ms(key))
            start = after(reach.prefix)

    def _reach_of(self, key: bytes) -> Reach:
        prefix = key[: self._prefix_size]
        reach = self._reaches.get(prefix)
        if reach is None:
            reach = self._reaches[prefix] = Reach(prefix, prefix + FIRST)
        return reach

    def _extend(self, reach: Reach, key: bytes) -> bool:
        """A new timer behind the reach: let it in if it is near and nothing else that
        lies there is; else note that it is there."""
        due_ms = self._due_ms(key)
        near_ms = self._now_ms + self._config.lookahead_ms
        if due_ms <= near_ms < reach.behind_ms:
            reach.end = reach.prefix + BIG_U64.pack(near_ms + 1)
            return True
        if due_ms < reach.behind_ms:
            self._set_behind(reach, due_ms)
        return False

    def _set_behind(self, reach: Reach, behind_ms: int) -> None:
        if behind_ms == reach.behind_ms:
            if behind_ms != NEVER:
                heappush(self._behind, (behind_ms, reach.prefix))
            return
        reach.behind_ms = behind_ms
        if behind_ms != NEVER:
            heappush(self._behind, (behind_ms, reach.prefix))
        if len(self._behind) > 4 * len(self._reaches) + SAMPLE_COUNT:
            reaches = self._reaches.values()
            self._behind = [
                (r.behind_ms, r.prefix) for r in reaches if r.behind_ms != NEVER
            ]
            heapify(self._behind)

    def forget_idle(self) -> None:
        """Drop the reaches of topics that have no timers."""
        idle = [
            prefix
            for prefix, reach in self._reaches.items()
            if not reach.count and reach.due is None and reach.behind_ms == NEVER
        ]
        for prefix in idle:
            del self._reaches[prefix]

    def _due_ms(self, key: bytes) -> int:
        return int(BIG_U64.unpack_from(key, self._prefix_size)[0])

    # --- the wheel ------------------------------------------------------------------

    def _insert(self, reach: Reach, key: bytes) -> None:
        self._handles = (self._handles + 1) & 0xFF_FFFF_FFFF
        self._handle_of[key] = self._handles
        self._key_of[self._handles] = key
        self._wheel.insert(self._due_ms(key), self._handles)
        reach.count += 1

    def _keep(self, key: bytes, record: bytes) -> None:
        self.take_record(key)  # left there by one that fell due while it was claimed
        if self._records_size + len(record) <= self._config.near_size_max:
            self._records[key] = record
            self._records_size += len(record)

    def _resize_slice(self, size: int) -> None:
        """A scan brings the bodies along: load fewer timers if they are large."""
        count = self._slice_count * 2 if size < SLICE_SIZE else self._slice_count // 2
        self._slice_count = min(max(count, SLICE_MIN), self._config.load_count)

    def _draw_back_if_full(self, latest: Reach | None) -> None:
        """Draw back the topic that was added to, or the largest, if there are too
        many timers in the wheel."""
        config = self._config
        if latest is not None and latest.count > 2 * config.near_topic_count_max:
            self._draw_back(latest)
        elif len(self._handle_of) > 2 * config.near_count_max:
            self._draw_back(max(self._reaches.values(), key=lambda r: r.count))

    def _draw_back(self, reach: Reach) -> None:
        """Move a reach to about the middle of what is within it, never forward: what
        came in behind it meanwhile is not in the wheel."""
        keys = list(self._handle_of)
        step = max(1, len(keys) // SAMPLE_COUNT)
        sampled = islice(keys, 0, None, step)
        sample = sorted(key for key in sampled if key.startswith(reach.prefix))
        if not sample:
            return
        reach.end = min(reach.end, sample[len(sample) // 2])
        self._set_behind(reach, min(reach.behind_ms, self._due_ms(reach.end)))
        self._dropping = keys
        self._drawn_back = reach
        self._count_before = len(keys)

    def _drop_slice(self, count: int) -> None:
        if not count or not self._dropping:
            return
        for key in self._dropping[-count:]:
            handle = self._handle_of.get(key)
            if handle in self._key_of and key >= self._reach_of(key).end:
                self.discard(key)
        del self._dropping[-count:]
        if not self._dropping and self._drawn_back is not None:
            reach, self._drawn_back = self._drawn_back, None
            if len(self._handle_of) < self._count_before:  # what is due stays
                self._draw_back_if_full(reach)


def after(prefix: bytes) -> bytes:
    """Behind every key with this prefix."""
    return (int.from_bytes(prefix, "big") + 1).to_bytes(len(prefix), "big")
