"""Counts in classes, as Prometheus has them: one increment for each value."""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final


class Histogram:
    """How many values were at most as large as each of `bounds`, which rise."""

    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds: Final = tuple(bounds)
        self._counts = [0] * (len(self._bounds) + 1)
        self._sum = 0.0

    def add(self, value: float) -> None:
        """Count one value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def metrics(self, name: str) -> dict[str, float]:
        """Cumulative buckets, sum and count, by the names of the metrics."""
        found: dict[str, float] = {}
        total = 0
        for bound, count in zip(self._bounds, self._counts, strict=False):
            total += count
            found[f'{name}_bucket{{le="{bound:g}"}}'] = total
        total += self._counts[-1]
        found[f'{name}_bucket{{le="+Inf"}}'] = total
        found[f"{name}_sum"] = self._sum
        found[f"{name}_count"] = total
        return found
