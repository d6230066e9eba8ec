"""Percentiles and shares out of histograms whose counts were added up."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

QUANTILES: Final = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p999": 0.999}


@dataclass(frozen=True, slots=True, order=True)
class Bucket:
    """So many values from `lower` to `upper`, both in it."""

    lower: int
    upper: int
    count: int


def percentile(buckets: Iterable[Bucket], quantile: float) -> int | None:
    """A bound from above: no more than the width of one bucket too high.

    The value of rank ceil(quantile * n) is at most that; None if there is no value.
    """
    ranked = sorted(it for it in buckets if it.count > 0)
    wanted = quantile * sum(it.count for it in ranked)
    passed = 0
    for bucket in ranked:
        passed += bucket.count
        if passed >= wanted:
            return bucket.upper
    return None


def percentiles(
    buckets: Sequence[Bucket], largest: float | None = None
) -> dict[str, float | None]:
    """All that are shown. `largest`: the largest value of all, if it is known; no
    percentile is above it."""
    found: dict[str, float | None] = {}
    for name, quantile in QUANTILES.items():
        bound = percentile(buckets, quantile)
        is_above = bound is not None and largest is not None and bound > largest
        found[name] = largest if is_above else bound
    return found
