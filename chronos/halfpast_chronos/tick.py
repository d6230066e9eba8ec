"""Waking up exactly on time: a timerfd on the wall clock, in the event loop.

`loop.call_at` rounds to whole milliseconds and may fire early; a timerfd wakes
within 0.1 ms on an idle machine. It is set to an absolute
wall-clock time and also wakes when somebody sets the clock, so a jump is noticed
at once. Python has `os.timerfd_create` from 3.13 on; until then, libc's own.
"""

import asyncio
import contextlib
import ctypes
import errno
import os
from collections.abc import Callable

from halfpast_core_store.ports import Alarm, Clock
from halfpast_core_store.virtual_clock import virtual

CLOCK_REALTIME = 0
TFD_NONBLOCK = 0o4000
TFD_CLOEXEC = 0o2000000
TFD_TIMER_ABSTIME = 1
TFD_TIMER_CANCEL_ON_SET = 2


def tick_of(
    clock: Clock, loop: asyncio.AbstractEventLoop, wake: Callable[[], None]
) -> Alarm:
    """An alarm on this clock: a virtual one has its own, any other is the wall's."""
    moved = virtual(clock)
    return Tick(loop, wake) if moved is None else moved.alarm(wake, loop.call_soon)


class Timespec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class TimerSpec(ctypes.Structure):
    _fields_ = (("interval", Timespec), ("value", Timespec))


class Tick:
    """Calls `wake` on the loop at (never before) the wall-clock time last set, and
    when the clock is set. The callee looks at the clock and sets the next time."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, wake: Callable[[], None]
    ) -> None:
        self._loop = loop
        self._wake = wake
        # PyDLL keeps the GIL, which calls that never wait should: to give it up and
        # get it back, a thousand times a second, costs more than they do.
        self._libc = ctypes.PyDLL(None, use_errno=True)
        self._spec = TimerSpec()
        self._spec_at = ctypes.byref(self._spec)
        self._fd = self._libc.timerfd_create(CLOCK_REALTIME, TFD_NONBLOCK | TFD_CLOEXEC)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create")
        self._at_ms: int | None = None
        loop.add_reader(self._fd, self._ready)

    def set(self, at_ms: int | None) -> None:
        """Wake at this wall-clock time (epoch ms), or never."""
        if at_ms == self._at_ms:
            return
        self._at_ms = at_ms
        milliseconds = 0 if at_ms is None else max(1, at_ms)
        value = self._spec.value
        value.seconds, value.nanoseconds = (
            milliseconds // 1000,
            milliseconds % 1000 * 1_000_000,
        )
        flags = TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET
        if self._libc.timerfd_settime(self._fd, flags, self._spec_at, None) < 0:
            raise OSError(ctypes.get_errno(), "timerfd_settime")

    def _ready(self) -> None:
        try:
            os.read(self._fd, 8)
        except BlockingIOError:
            return
        except OSError as error:
            if error.errno != errno.ECANCELED:  # the clock was set
                raise
        self._at_ms = None
        self._wake()

    def close(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed already
            self._loop.remove_reader(self._fd)
        os.close(self._fd)
