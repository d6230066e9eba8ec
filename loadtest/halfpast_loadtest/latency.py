"""A set of durations, summed up as p50, p99, p99.9 and the worst one."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """Milliseconds. All zero for an empty set."""

    p50_ms: float
    p99_ms: float
    p999_ms: float
    max_ms: float
    count: int

    def shown(self, prefix: str = "") -> dict[str, float]:
        """The percentiles by name, to a microsecond."""
        return {
            f"{prefix}p50_ms": round(self.p50_ms, 3),
            f"{prefix}p99_ms": round(self.p99_ms, 3),
            f"{prefix}p999_ms": round(self.p999_ms, 3),
            f"{prefix}max_ms": round(self.max_ms, 3),
        }


def summarise(values_ms: Iterable[float]) -> Latency:
    """The nearest-rank percentiles: each one is a value that did occur."""
    ordered = sorted(values_ms)
    return Latency(
        p50_ms=_rank(ordered, 0.50),
        p99_ms=_rank(ordered, 0.99),
        p999_ms=_rank(ordered, 0.999),
        max_ms=ordered[-1] if ordered else 0.0,
        count=len(ordered),
    )


def _rank(ordered: list[float], share: float) -> float:
    if not ordered:
        return 0.0
    at = -int(-share * len(ordered) // 1) - 1  # ceil(share * n) - 1
    return ordered[min(max(at, 0), len(ordered) - 1)]
