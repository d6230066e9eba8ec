"""What was promised to the users of a topic: "99.9 % within 50 ms"."""

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .job_errors import BadSla

if TYPE_CHECKING:
    from pyspark.sql import Column

_PROMISE = re.compile(
    r"\s*(?P<percent>\d+(\.\d+)?)\s*%\s+within\s+(?P<number>\d+(\.\d+)?)\s*"
    r"(?P<unit>ms|s|min|h)\s*"
)
_UNITS_MS = {"ms": 1, "s": 1_000, "min": 60_000, "h": 3_600_000}


@dataclass(frozen=True, slots=True)
class Sla:
    """This share (0 to 1) of the delayed messages comes at most `within_ms` late.

    Lost ones count as not within it, and so do early ones.
    """

    within_ms: int
    share: float


DEFAULT = Sla(50, 0.999)


@dataclass(frozen=True, slots=True)
class SlaRules:
    """What applies to which topic."""

    default: Sla = DEFAULT
    topics: dict[str, Sla] = field(default_factory=lambda: {})

    def of(self, topic: str) -> Sla:
        return self.topics.get(topic, self.default)


def parse_sla(text: str) -> Sla:
    """Reads "99.9 % within 50 ms" (or s, min, h). Raises BadSla."""
    match = _PROMISE.fullmatch(text)
    if match is None or not 0 < float(match["percent"]) <= 100:
        raise BadSla(text)
    within_ms = float(match["number"]) * _UNITS_MS[match["unit"]]
    if within_ms != int(within_ms):
        raise BadSla(text)
    # By way of text: 99.9 / 100 is not 0.999.
    share = float(f"{match['percent']}e-2")
    return Sla(int(within_ms), share)


def within_column(topic: "Column", rules: SlaRules) -> "Column":
    """How late the messages of a topic may be, in ms."""
    from pyspark.sql import functions as F

    found = F.lit(rules.default.within_ms)
    if not rules.topics:
        return found
    pairs = [
        F.lit(it) for name, sla in rules.topics.items() for it in (name, sla.within_ms)
    ]
    return F.coalesce(F.try_element_at(F.create_map(*pairs), topic), found)
