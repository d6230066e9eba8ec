"""How fast something may go: a token bucket, by a clock that is passed in.

It is kept as one number, the time at which the bucket is full again (the "virtual
scheduling" form of the algorithm of ITU-T I.371, GCRA): no timer fills it, and an idle
one costs nothing.
"""

BURST_MS = 100
"""So much of a second's worth may go at once after a silence."""

NS_PER_MS = 1_000_000
NS_PER_S = 1_000_000_000


class Gate:
    """Lets `rate_per_s` through on average, and one at least at a time; 0 is all."""

    __slots__ = ("_burst_ns", "_full_at_ns", "_interval_ns", "rate_per_s")

    def __init__(self, rate_per_s: int = 0) -> None:
        self._full_at_ns = 0
        self.set_rate(rate_per_s)

    def set_rate(self, rate_per_s: int) -> None:
        """From now on; what has gone counts as it did."""
        self.rate_per_s = rate_per_s
        self._interval_ns = NS_PER_S // rate_per_s if rate_per_s else 0
        self._burst_ns = max(BURST_MS * NS_PER_MS, self._interval_ns)

    def take(self, now_ms: int, wanted: int) -> int:
        """How many of `wanted` may go now; they have gone."""
        if not self._interval_ns:
            return wanted
        now_ns = now_ms * NS_PER_MS
        full_at_ns = self._full_at(now_ns)
        count = (now_ns + self._burst_ns - full_at_ns) // self._interval_ns
        count = max(0, min(wanted, count))
        self._full_at_ns = full_at_ns + count * self._interval_ns
        return count

    def give_back(self, count: int) -> None:
        """So many have not gone after all."""
        self._full_at_ns -= count * self._interval_ns

    def next_ms(self, now_ms: int) -> int:
        """When the next one may go: at once, or in the future."""
        if not self._interval_ns:
            return now_ms
        free_ns = self._full_at(now_ms * NS_PER_MS) + self._interval_ns - self._burst_ns
        return max(now_ms, -(-free_ns // NS_PER_MS))

    def _full_at(self, now_ns: int) -> int:
        """A bucket is at most empty, also when the clock was set back."""
        return min(max(self._full_at_ns, now_ns), now_ns + self._burst_ns)
