"""A timing wheel whose timers are keys of any length."""

from collections.abc import Sequence

from halfpast_wheel.config import HANDLE_MASK
from halfpast_wheel.timing_wheel import TimingWheel


class KeyWheel:
    """Gives each key a handle, a small number, by which it can be taken out again."""

    def __init__(self, now_ms: int) -> None:
        self._wheel = TimingWheel(now_ms)
        self._key_of: dict[int, bytes] = {}
        self._last = 0

    @property
    def behind(self) -> bool:
        """Whether more is due than `advance` has given."""
        return self._wheel.behind

    def next_deadline_ms(self) -> int | None:
        """When to call `advance` next; see `TimingWheel`."""
        return self._wheel.next_deadline_ms()

    def insert(self, due_ms: int, key: bytes) -> int:
        """Give the key back when it is due. The handle."""
        handle = self._last = (self._last + 1) & HANDLE_MASK
        self._key_of[handle] = key
        self._wheel.insert(due_ms, handle)
        return handle

    def insert_many(self, timers: Sequence[tuple[int, bytes]]) -> list[int]:
        """`insert` each, faster."""
        first = self._last + 1
        handles = [n & HANDLE_MASK for n in range(first, first + len(timers))]
        self._last = (self._last + len(timers)) & HANDLE_MASK
        self._key_of.update(
            zip(handles, [key for _, key in timers], strict=True),
        )
        self._wheel.insert_many(
            [(due_ms, n) for (due_ms, _), n in zip(timers, handles, strict=True)]
        )
        return handles

    def take_out(self, handle: int) -> bool:
        """It shall not be given back. False if it has been already."""
        if self._key_of.pop(handle, None) is None:
            return False
        self._wheel.cancel(handle)
        return True

    def advance(self, now_ms: int, limit: int) -> list[bytes]:
        """Keys that are due, earliest first; see `TimingWheel`."""
        return [self._key_of.pop(n) for n in self._wheel.advance(now_ms, limit)]
