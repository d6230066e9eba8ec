"""Noticing that the clock was set: wall time against time that only goes on."""

from halfpast_core_store.ports import Clock


class ClockWatch:
    """Tells of jumps of at least `threshold_ms`. A clock that is slewed drifts from
    look to look by less, and so does one that is looked at seldom."""

    def __init__(self, clock: Clock, threshold_ms: int) -> None:
        self._clock = clock
        self._threshold_ns = threshold_ms * 1_000_000
        self._ahead_ns = clock.now_ns() - clock.monotonic_ns()
        self.forward_count = 0
        self.back_count = 0

    def jump(self) -> int:
        """1 if the clock was set forward so far since the last look, -1 if back."""
        ahead_ns = self._clock.now_ns() - self._clock.monotonic_ns()
        jump_ns = ahead_ns - self._ahead_ns
        self._ahead_ns = ahead_ns
        if abs(jump_ns) < self._threshold_ns:
            return 0
        if jump_ns > 0:
            self.forward_count += 1
            return 1
        self.back_count += 1
        return -1

    def counters(self) -> dict[str, float]:
        """Jumps since the start, as the metrics show them."""
        return {
            'clock_jumps_total{direction="forward"}': self.forward_count,
            'clock_jumps_total{direction="back"}': self.back_count,
        }
