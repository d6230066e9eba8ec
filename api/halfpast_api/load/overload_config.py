"""When to refuse work that cannot be done in time."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class OverloadConfig:
    """How much work may be under way, and how long it may take.

    Work is counted in units: a request is one, and one more for each 4 KiB that it
    brings, up to 64. How many units may be under way follows from how long they take.
    """

    target_ms: float = 40.0
    """How long requests that bring work may take on average, from when they could have
    been read. Twice and more than that is seen by one in a hundred."""

    late_ms: float = 200.0
    """How late the event loop may be, all through an interval, before reads and pops
    are refused as well."""

    interval_ms: float = 100.0
    """How often that is looked at."""

    units_min: int = 256
    """However slow it is, so much may be under way: a slow disk is not overload."""

    units_first: int = 1024
    """At the start."""

    units_max: int = 20_000
    """However quick it is."""

    def __post_init__(self) -> None:
        if not 0 < self.units_min <= self.units_first <= self.units_max:
            raise ValueError("units_min, units_first, units_max must rise, from 1")
        if not (self.target_ms > 0 and self.late_ms > 0 and self.interval_ms >= 10):
            raise ValueError(
                "target_ms, late_ms must be over 0, interval_ms 10 or more"
            )
