"""How much work may be under way, by how long it takes.

    every interval    delay = how late the loop was + how long requests took, on average
    over the target   the window shrinks in proportion, at most to a half
    under it, full    the window grows by a twentieth

So under any load the window settles where the target is just kept, and what is beyond
is refused while it costs little. It is work under way that is counted, not requests a
second: what a request costs differs by a factor of a thousand.
"""

from typing import Final

from halfpast_api.load.overload_config import OverloadConfig

UNIT_BYTES: Final = 4096
UNITS_EACH_MAX: Final = 64  # so that one huge request does not shut all others out
_FULL: Final = 0.9
_GROWTH: Final = 1.05
_SHRINKS_TO: Final = 0.5


class WorkWindow:
    """Pure arithmetic. Whoever enters leaves."""

    __slots__ = (
        *("_config", "_count", "_peak", "_taken_s"),
        *("is_late", "late_s", "size", "units"),
    )

    def __init__(self, config: OverloadConfig) -> None:
        self._config = config
        self.size = float(config.units_first)
        self.units = 0
        """Under way."""
        self.late_s = 0.0
        """How late the event loop was in the last interval, on average."""
        self.is_late = False
        """Whether even what takes work away comes too late."""
        self._peak = 0
        self._taken_s = 0.0
        self._count = 0

    @property
    def is_full(self) -> bool:
        return self.units >= self.size

    def enter(self, body_size: int) -> int:
        """Count work in, how much it is."""
        units = min(1 + body_size // UNIT_BYTES, UNITS_EACH_MAX)
        self.units += units
        self._peak = max(self._peak, self.units)
        return units

    def leave(self, units: int, took_s: float) -> None:
        """It is done, or has failed."""
        self.units -= units
        self._taken_s += took_s
        self._count += 1

    def adjust(self, late_s: float, least_s: float) -> None:
        """An interval is over, in which the loop was so late on average, and at
        least."""
        config = self._config
        self.late_s = late_s
        self.is_late = least_s * 1000 > config.late_ms
        took_s = self._taken_s / self._count if self._count else 0.0
        delay_ms = (late_s + took_s) * 1000
        if delay_ms > config.target_ms:
            share = max(_SHRINKS_TO, config.target_ms / delay_ms)
            size = min(self.size, max(self._peak, 1)) * share
            self.size = max(float(config.units_min), size)
        elif self._peak >= self.size * _FULL:
            self.size = min(float(config.units_max), self.size * _GROWTH + 1)
        self._peak, self._taken_s, self._count = self.units, 0.0, 0
