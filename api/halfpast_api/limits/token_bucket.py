"""A token bucket: so much a second, and a burst at once.

It is full at first. Whoever takes may leave it in debt, so the size of what is taken
need not be known beforehand, and over time no more is let in than the rate.
"""

from typing import Final


class TokenBucket:
    """Pure arithmetic; whoever asks says what time it is, on a clock that never goes
    back."""

    __slots__ = ("_at_s", "_level", "burst", "rate_per_s")

    def __init__(self, rate_per_s: float, burst: float, now_s: float) -> None:
        assert rate_per_s > 0
        assert burst > 0
        self.rate_per_s: Final = rate_per_s
        self.burst: Final = burst
        self._level = burst
        self._at_s = now_s

    def level(self, now_s: float) -> float:
        """How much could be taken now; negative: how much is owed."""
        level = self._level + (now_s - self._at_s) * self.rate_per_s
        return min(level, self.burst)

    def take(self, count: float, now_s: float) -> None:
        """Take it, also if that makes a debt."""
        self._level = self.level(now_s) - count
        self._at_s = now_s

    def wait_s(self, needed: float, now_s: float) -> float:
        """Until there is so much; 0 if there is."""
        return max(0.0, (needed - self.level(now_s)) / self.rate_per_s)
