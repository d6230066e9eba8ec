"""How long the event loop stands still: how late a timer of 10 ms comes, all the time.

Whatever is late here has kept everybody else waiting too. A stall of `s` ms shows as
`s` - 10 to `s`, since it may begin anywhere between two looks. How much of it the
loop's own thread has spent computing is told beside it: the rest it waited, for the
disk, or for a processor that others use.
"""

import asyncio
import time
from collections import deque

INTERVAL_S = 0.01
MINUTE_S = 60
AT_LEAST_MS = (10, 20, 50, 100, 200, 500, 1000)


class StallCounts:
    """Stalls by their length, and the longest of all and of the last minute."""

    def __init__(self) -> None:
        self._max_ms = 0.0
        self._busy_ms_max = 0.0
        self._counts = dict.fromkeys(AT_LEAST_MS, 0)
        self._seconds: deque[tuple[int, float]] = deque()
        """The longest of each second of the last minute, newest last."""

    def note(self, now_s: float, late_ms: float, busy_ms: float) -> None:
        """A timer came `late_ms` late at `now_s` (monotonic); the thread has computed
        for `busy_ms` since the last one."""
        busy_ms = min(busy_ms, late_ms)
        self._max_ms = max(self._max_ms, late_ms)
        self._busy_ms_max = max(self._busy_ms_max, busy_ms)
        for at_least_ms in AT_LEAST_MS:
            if late_ms < at_least_ms:
                break
            self._counts[at_least_ms] += 1
        second = int(now_s)
        if self._seconds and self._seconds[-1][0] == second:
            late_ms = max(late_ms, self._seconds.pop()[1])
        self._seconds.append((second, late_ms))
        while self._seconds[0][0] <= second - MINUTE_S:
            self._seconds.popleft()

    def counters(self) -> dict[str, float]:
        """How many stalls there were, counted as histograms are: each in all classes
        that it reaches."""
        return {
            f'loop_stalls_total{{at_least_ms="{at_least_ms}"}}': count
            for at_least_ms, count in self._counts.items()
        }

    def gauges(self) -> dict[str, float]:
        """The longest ones; `busy` is the part of a stall that was computing."""
        minute_ms = max((late_ms for _, late_ms in self._seconds), default=0.0)
        return {
            'loop_stall_ms_max{since="start"}': self._max_ms,
            'loop_stall_ms_max{since="minute"}': minute_ms,
            "loop_stall_busy_ms_max": self._busy_ms_max,
        }


class StallWatch:
    """Watches the loop that it is started on, from there until it is closed."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.counts = StallCounts()
        self._loop = loop
        # Not the loop's own time, which stands still while a callback runs.
        self._set_at = time.perf_counter()
        self._computed_s = time.thread_time()
        self._handle = loop.call_later(INTERVAL_S, self._look)

    def _look(self) -> None:
        now_s, computed_s = time.perf_counter(), time.thread_time()
        late_ms = max(now_s - self._set_at - INTERVAL_S, 0.0) * 1000
        busy_ms = (computed_s - self._computed_s) * 1000
        self.counts.note(now_s, late_ms, busy_ms)
        self._set_at, self._computed_s = now_s, computed_s
        self._handle = self._loop.call_later(INTERVAL_S, self._look)

    def close(self) -> None:
        """Watch no longer."""
        self._handle.cancel()
