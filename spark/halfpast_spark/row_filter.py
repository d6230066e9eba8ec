"""Which rows are wanted: by kind, topic and time."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .frame_records import Mask
from .row_kinds import CODES, IN_FRAME, UNKNOWN, table_of

FOREVER_MS = 1 << 62


@dataclass(frozen=True, slots=True)
class RowFilter:
    """None means all. Times are of `stored_ms`; `end_ms` is not included."""

    kinds: frozenset[str] | None = None
    topics: frozenset[str] | None = None
    start_ms: int = 0
    end_ms: int = FOREVER_MS

    @property
    def wants_gaps(self) -> bool:
        return self.kinds is None or "gap" in self.kinds

    def kind_table(self) -> Mask:
        """For each code of `row_kinds`, whether rows of that kind are wanted."""
        if self.kinds is not None:
            return table_of(*self.kinds)
        table = np.ones(len(CODES) + 1, np.bool_)
        table[UNKNOWN] = False
        return table

    def wants_time(self, stored_ms: int) -> bool:
        return self.start_ms <= stored_ms < self.end_ms

    def wants_topic(self, name: Callable[[int], str], number: int) -> bool:
        return self.topics is None or name(number) in self.topics

    @property
    def joins_frames(self) -> bool:
        """Whether a wanted kind learns its topic from its frame."""
        return bool((self.kind_table() & IN_FRAME).any())
