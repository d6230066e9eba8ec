"""How late timers fired: counts in log-spaced classes, which add up over time."""

from bisect import bisect_left

BOUNDS_MS = (
    0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500,
    1_000, 2_000, 5_000, 10_000, 60_000, 600_000, 3_600_000,
)  # fmt: skip


class Lateness:
    """A histogram of lateness in milliseconds, from due time to durable."""

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS_MS) + 1)
        self.total_ms = 0.0
        self.max_ms = 0.0
        self.early = 0
        """Fired before its time. Must stay 0; counted so that anybody can see."""

    def add(self, late_ms: float, count: int = 1) -> None:
        """So many were so late."""
        if late_ms < 0:
            self.early += count
        self.counts[bisect_left(BOUNDS_MS, late_ms)] += count
        self.total_ms += late_ms * count
        self.max_ms = max(self.max_ms, late_ms)

    def metrics(self) -> dict[str, float]:
        """Cumulative buckets, sum and count, as Prometheus has them."""
        found: dict[str, float] = {}
        total = 0
        for bound, count in zip(BOUNDS_MS, self.counts, strict=False):
            total += count
            found[f'lateness_ms_bucket{{le="{bound:g}"}}'] = total
        total += self.counts[-1]
        found['lateness_ms_bucket{le="+Inf"}'] = total
        found["lateness_ms_sum"] = self.total_ms
        found["lateness_ms_count"] = total
        found["early_total"] = self.early
        return found
