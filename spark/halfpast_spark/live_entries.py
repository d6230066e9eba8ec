"""What transactions and delayed messages add to the counts, many at once."""

from dataclasses import dataclass

import numpy as np

from .frame_records import Numbers
from .live_events import NONE

NO_VALUE = -(1 << 62)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entries:
    """One an element: `at_ms` tells the window, `group` and `topic` the row (NONE: all
    topics). `values`: the time to the outcome, or the lateness, or NO_VALUE.
    `checks`: how many, or None where there is no such thing. `counts` has a column
    for each of `count_columns.py`."""

    audit: str
    at_ms: Numbers
    group: Numbers
    topic: Numbers
    values: Numbers
    checks: Numbers | None
    counts: Numbers

    def __len__(self) -> int:
        return len(self.at_ms)


def twice(entries: Entries) -> Entries:
    """Each for its topic, and once more for all topics together."""
    return Entries(
        audit=entries.audit,
        at_ms=np.tile(entries.at_ms, 2),
        group=np.tile(entries.group, 2),
        topic=np.concatenate([entries.topic, np.full(len(entries), NONE, np.int64)]),
        values=np.tile(entries.values, 2),
        checks=None if entries.checks is None else np.tile(entries.checks, 2),
        counts=np.tile(entries.counts, (2, 1)),
    )
