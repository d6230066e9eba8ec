"""What new events change in the live counts: what is added, less what is taken away."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from .count_columns import ON_TIME_COUNTS, TRANSACTION_COUNTS
from .frame_records import Numbers
from .histogram import EARLY, SUB_BITS, SUB_COUNT
from .live_entries import NO_VALUE, Entries
from .live_grouping import Grouped
from .live_names import LiveNames
from .live_timers import ON_TIME
from .live_transactions import TRANSACTIONS

COUNTS = {TRANSACTIONS: TRANSACTION_COUNTS, ON_TIME: ON_TIME_COUNTS}
MEASURES = {TRANSACTIONS: "outcome_ms", ON_TIME: "lateness_ms"}
CHECKS = "checks"

Key = tuple[int, str, str]  # window_start_ms, producer group, topic
Bucket = tuple[str, int, str, str, int]  # measure, then as a Key, and the bucket


@dataclass(slots=True)
class Changes:
    """What a batch changes."""

    window_ms: int
    counts: dict[str, dict[Key, list[int]]] = field(
        default_factory=lambda: {TRANSACTIONS: {}, ON_TIME: {}}
    )
    largest: dict[tuple[str, Key], int] = field(default_factory=lambda: {})
    buckets: dict[Bucket, int] = field(default_factory=lambda: {})
    position: int = -1
    """Of the last of the new events."""
    horizon_ms: int = 0
    """When that was stored."""
    events: int = 0
    gaps: list[str] = field(default_factory=lambda: [])
    """What could not be seen."""

    def add(self, entries: Entries, weight: int, names: LiveNames) -> None:
        """Count them (1), or no longer (-1)."""
        if not len(entries):
            return
        starts = entries.at_ms - entries.at_ms % self.window_ms
        rows = Grouped(starts, entries.group, entries.topic)
        sums = rows.sums(entries.counts) * weight
        largest = rows.most(entries.values)
        places = (starts, entries.group, entries.topic)
        keys = [
            (start, names.group(group), names.topic(topic))
            for start, group, topic in zip(
                *(rows.keys(it).tolist() for it in places), strict=True
            )
        ]
        known = self.counts[entries.audit]
        for key, some, value in zip(keys, sums.tolist(), largest.tolist(), strict=True):
            old = known.get(key)
            known[key] = some if old is None else _added(old, some)
            if weight > 0 and value != NO_VALUE:
                place = entries.audit, key
                self.largest[place] = max(self.largest.get(place, value), value)
        measure = MEASURES[entries.audit]
        has_value = entries.values != NO_VALUE
        buckets = bucket_numbers(entries.values[has_value])
        self._add_buckets(
            measure, [it[has_value] for it in places], buckets, weight, names
        )
        if entries.checks is not None:
            self._add_buckets(CHECKS, places, entries.checks, weight, names)

    def rows(self, audit: str) -> Iterator[tuple[Key, dict[str, int]]]:
        """The counts that change, by name."""
        for key, sums in self.counts[audit].items():
            yield key, dict(zip(COUNTS[audit], sums, strict=True))

    def _add_buckets(
        self,
        measure: str,
        places: "tuple[Numbers, ...] | list[Numbers]",
        buckets: Numbers,
        weight: int,
        names: LiveNames,
    ) -> None:
        rows = Grouped(*places, buckets)
        counts = rows.sums(np.ones(len(buckets), np.int64)) * weight
        keys = zip(
            *(rows.keys(it).tolist() for it in (*places, buckets)),
            counts.tolist(),
            strict=True,
        )
        for start, group, topic, bucket, count in keys:
            place = measure, start, names.group(group), names.topic(topic), bucket
            self.buckets[place] = self.buckets.get(place, 0) + count


def _added(some: list[int], others: list[int]) -> list[int]:
    return [a + b for a, b in zip(some, others, strict=True)]


def bucket_numbers(values: Numbers) -> Numbers:
    """`histogram.bucket_of` each."""
    digits = np.frexp(values.astype(np.float64))[1]  # exact: they are less than 2**53
    shift = np.maximum(digits - 1 - SUB_BITS, 0)
    large = 1 + shift * SUB_COUNT + (values >> shift)
    small = np.where(values < 0, EARLY, values + 1)
    found: Numbers = np.where(values < SUB_COUNT, small, large)
    return found
