"""What can be limited, and what is allowed."""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from halfpast_api.metadata.errors import InvalidSettings
from halfpast_api.metadata.settings import DELAY_MS_MAX, LIMIT_VALUE_MAX

RATE_MIN: Final = 0.001
RATE_MAX: Final = 1_000_000_000
BURST_OF_S: Final = 2
"""Without a burst of its own, a rate allows what comes in so many seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallerLimits:
    """The limits of one subject. None: as those say that are for all of its kind; 0: no
    limit, whatever those say."""

    requests_per_s: float | None = None
    request_burst: int | None = None
    bytes_per_s: float | None = None
    byte_burst: int | None = None
    max_pending: int | None = None
    max_delay_ms: int | None = None

    @classmethod
    def of(cls, values: Mapping[str, float]) -> "CallerLimits":
        """As stored; what this release does not know is left out."""
        found = {it: values[it] for it in NAMES if it in values}
        return cls(
            **{
                name: value if name.endswith("_per_s") else int(value)
                for name, value in found.items()
            }  # type: ignore[arg-type]
        )

    def values(self) -> dict[str, float]:
        """What is given, by name."""
        given = ((name, getattr(self, name)) for name in NAMES)
        return {name: value for name, value in given if value is not None}

    def over(self, defaults: "CallerLimits") -> "CallerLimits":
        """These, and for what they do not say the defaults.

        A burst belongs to its rate: one without the other's rate says nothing.
        """
        values = {**defaults.values(), **self.values()}
        for rate, burst in BURSTS.items():
            if getattr(self, rate) is not None and getattr(self, burst) is None:
                values.pop(burst, None)
        return CallerLimits.of(values)


NAMES: Final = tuple(it.name for it in dataclasses.fields(CallerLimits))
BURSTS: Final = {"requests_per_s": "request_burst", "bytes_per_s": "byte_burst"}


def check_limits(limits: CallerLimits, *, is_namespace: bool) -> None:
    """Raise InvalidSettings for the first value that is not allowed."""
    for name in ("requests_per_s", "bytes_per_s"):
        value = getattr(limits, name)
        if value and not RATE_MIN <= value <= RATE_MAX:
            raise InvalidSettings(
                name, f"must be 0 (no limit) or {RATE_MIN} to {RATE_MAX}"
            )
        burst = BURSTS[name]
        if getattr(limits, burst) is not None and not value:
            raise InvalidSettings(burst, f"needs {name}; give both, or neither")
    for name in ("request_burst", "byte_burst"):
        value = getattr(limits, name)
        if value is not None and not 1 <= value <= LIMIT_VALUE_MAX:
            raise InvalidSettings(name, f"must be 1 to {LIMIT_VALUE_MAX}")
    if limits.max_delay_ms is not None and not 0 <= limits.max_delay_ms <= DELAY_MS_MAX:
        raise InvalidSettings("max_delay_ms", f"must be 0 (no limit) to {DELAY_MS_MAX}")
    if limits.max_pending is None:
        return
    if not is_namespace:
        raise InvalidSettings(
            "max_pending",
            "can be limited for namespaces alone, since what is pending does not know "
            "by which key it came; limit the key's namespace",
        )
    if not 0 <= limits.max_pending <= LIMIT_VALUE_MAX:
        raise InvalidSettings(
            "max_pending", f"must be 0 (no limit) to {LIMIT_VALUE_MAX}"
        )


def burst_of(rate_per_s: float, burst: int | None) -> int:
    """How much may come at once."""
    return burst or max(1, math.ceil(rate_per_s * BURST_OF_S))
