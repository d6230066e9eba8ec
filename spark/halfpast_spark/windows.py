"""Windows of time: which one a moment lies in, and which ones an audit is about.

Windows begin at multiples of their length since 1970 (UTC), so that the time zone of a
cluster, or of its people, changes nothing.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """What an audit is about: windows from `from_ms` to before `to_ms`, both of them
    at window borders, as the log stood at `horizon_ms`.

    A timer is lost only if it was due before the horizon minus `grace_ms`.
    """

    from_ms: int
    to_ms: int
    window_ms: int
    horizon_ms: int
    grace_ms: int

    def __post_init__(self) -> None:
        assert self.window_ms > 0
        assert self.from_ms % self.window_ms == 0
        assert self.to_ms % self.window_ms == 0

    @property
    def settled_ms(self) -> int:
        """Whatever was due before this must have come."""
        return self.horizon_ms - self.grace_ms


def floor_ms(at_ms: int, window_ms: int) -> int:
    """Where the window begins that holds this moment."""
    return at_ms - at_ms % window_ms


def ceil_ms(at_ms: int, window_ms: int) -> int:
    """The first border at this moment or after it."""
    return floor_ms(at_ms + window_ms - 1, window_ms)


def window_start(at_ms: "Column", window_ms: int) -> "Column":
    """`floor_ms` of a column."""
    return at_ms - at_ms % window_ms


def within(at_ms: "Column", period: Period) -> "Column":
    """Whether the moment lies in one of the windows."""
    return (at_ms >= period.from_ms) & (at_ms < period.to_ms)
