"""The near horizon: those timers that are due next, in the wheel.

Everything in RocksDB up to a key, the *horizon*, is in the wheel; everything behind
it is not. The horizon is a key and not a time, so that it may lie within one
millisecond: a million timers due at once are loaded as they fire. New timers before
the horizon go straight into the wheel. When too many do, the horizon is drawn back,
and what now lies behind it is dropped a slice at a time (it is in RocksDB anyway).

Keys take about 300 bytes a timer. Records are kept beside them as long as there is
room for them; those of the others are read when they fire.
"""

from collections.abc import Sequence
from itertools import islice
from typing import Protocol

from halfpast_core_store.ports import Index
from halfpast_wheel.timing_wheel import TimingWheel

from . import keys

SAMPLE_COUNT = 999
SLICE_MIN = 32
DROPS_PER_INSERT = 4
SLICE_SIZE = 1024 * 1024


class HorizonConfig(Protocol):
    """How much is held in memory (see `config.py`)."""

    @property
    def lookahead_ms(self) -> int: ...
    @property
    def near_count_max(self) -> int: ...
    @property
    def near_size_max(self) -> int: ...
    @property
    def load_count(self) -> int: ...


class Horizon:
    """The wheel over the timers of an index: over all keys of family T."""

    def __init__(self, index: Index, config: HorizonConfig, now_ms: int) -> None:
        self._index = index
        self._config = config
        self._wheel = TimingWheel(now_ms)
        self._end = keys.timers_until(-1)
        self._exhausted = False  # nothing in the wheel was due when last asked
        self._key_of: dict[int, bytes] = {}
        self._handle_of: dict[bytes, int] = {}
        self._handles = 0
        self._dropping: list[bytes] = []
        self._records: dict[bytes, bytes] = {}
        self._records_size = 0
        self._slice_count = min(SLICE_MIN, config.load_count)

    def __len__(self) -> int:
        return len(self._key_of)

    def add(self, key: bytes) -> bool:
        """A timer has been stored; True if it now is in the wheel."""
        if key >= self._end or key in self._handle_of:
            return False
        self._insert(key)
        return True

    def add_many(self, new: Sequence[bytes], records: Sequence[bytes] = ()) -> None:
        """Timers have been stored, with these records if they are at hand."""
        end = self._end
        before = len(self._key_of)
        for i, key in enumerate(new):
            if key < end and key not in self._handle_of:
                self._insert(key)
                if records:
                    self._keep(key, records[i])
        if self._dropping:
            self._drop_slice(DROPS_PER_INSERT * (len(self._key_of) - before))
        elif len(self._key_of) > 2 * self._config.near_count_max:
            self._draw_back()

    def discard(self, key: bytes) -> None:
        """A timer will not fire under this key any more."""
        handle = self._handle_of.pop(key, None)
        if handle is not None:
            del self._key_of[handle]
            self._wheel.cancel(handle)
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

    def due(self, now_ms: int, limit: int) -> list[bytes]:
        """Keys of timers due now, earliest first; they leave the wheel. The caller
        then takes the record of each."""
        found: list[bytes] = []
        while len(found) < limit:
            for handle in self._wheel.advance(now_ms, limit - len(found)):
                key = self._key_of.pop(handle)
                del self._handle_of[key]
                found.append(key)
            if not self._wheel.behind:
                break
        self._exhausted = len(found) < limit
        return found

    def next_ms(self) -> int:
        """When to look again: something in the wheel may be due, or behind it."""
        behind_ms = keys.timer_due_ms(self._end)
        near_ms = self._wheel.next_deadline_ms()
        return behind_ms if near_ms is None else min(near_ms, behind_ms)

    def load(self, now_ms: int) -> bool:
        """Load one slice of what is due next, if there is room or it cannot wait.

        True if there may be more to load, or to drop, at once.
        """
        config = self._config
        self._drop_slice(config.load_count)
        until = keys.timers_until(now_ms + config.lookahead_ms)
        full = len(self._key_of) >= config.near_count_max
        if self._end >= until or (full and not self._is_late(now_ms)):
            return bool(self._dropping)
        count = self._slice_count
        found = self._index.scan(self._end, until, count)
        for key, record in found:
            if key not in self._handle_of:
                self._insert(key)
                self._keep(key, record)
        self._resize_slice(sum(len(record) for _, record in found))
        if len(found) < count:
            self._end = until
            return False
        self._end = found[-1][0] + b"\0"
        return True

    def wants_load(self, now_ms: int) -> bool:
        """Whether loading should not wait."""
        runs_low = len(self._key_of) < self._config.near_count_max // 2
        return runs_low or self._is_late(now_ms)

    def _is_late(self, now_ms: int) -> bool:
        """Whether something behind the horizon may be due, and before anything in
        the wheel: that may be full of what it has yet to drop."""
        return self._exhausted and keys.timer_due_ms(self._end) <= now_ms

    def _insert(self, key: bytes) -> None:
        self._exhausted = False
        self._handles = (self._handles + 1) & 0xFF_FFFF_FFFF
        self._handle_of[key] = self._handles
        self._key_of[self._handles] = key
        self._wheel.insert(keys.timer_due_ms(key), self._handles)

    def _keep(self, key: bytes, record: bytes) -> None:
        self.take_record(key)  # left there by one that fell due while it was claimed
        if self._records_size + len(record) <= self._config.near_size_max:
            self._records[key] = record
            self._records_size += len(record)

    def _resize_slice(self, size: int) -> None:
        """A scan brings the bodies along: load fewer timers if they are large."""
        count = self._slice_count * 2 if size < SLICE_SIZE else self._slice_count // 2
        self._slice_count = min(max(count, SLICE_MIN), self._config.load_count)

    def _draw_back(self) -> None:
        """Move the horizon to about the middle of what is before it, never forward:
        what came in behind it meanwhile is not in the wheel."""
        step = max(1, len(self._handle_of) // SAMPLE_COUNT)
        sample = sorted(islice(self._handle_of, 0, None, step))
        self._end = min(self._end, sample[len(sample) // 2])
        self._dropping = list(self._handle_of)

    def _drop_slice(self, count: int) -> None:
        if not count:
            return
        for key in self._dropping[-count:]:
            if key >= self._end:
                self.discard(key)
        del self._dropping[-count:]
