"""A question to the counts: how many timers are due when, in buckets of equal length.

Most of the answer is read off the counts. Where they are not fine enough there are few
timers, which are looked at in the index; where that would be too many all the same
(the counts are just being made), they are taken to be spread evenly, and the answer
says that it is not exact.
"""

from dataclasses import dataclass, field

from halfpast_core_store.ports import Index

from . import keys
from .due_counts import DueCounts

SCAN_COUNT = 250  # keys looked at in one step
TOPIC_COUNT = 50  # topics visited in one step
COST_MAX = 50_000  # of looking at the index: one a key, and SEEK_COST a look
SEEK_COST = 20


@dataclass(slots=True)
class Gap:
    """Timers of a topic whose counts are not fine enough."""

    topic_id: int
    start_ms: int
    end_ms: int
    expected: int
    cursor: bytes = b""
    found: int = 0


@dataclass(slots=True)
class DueQuery:
    """Made in steps, between which others may work. `buckets` is the answer, by the
    number of each bucket since the epoch."""

    index: Index
    counts: DueCounts
    topic_ids: list[int]
    start_ms: int
    end_ms: int
    bucket_ms: int
    buckets: dict[int, int] = field(default_factory=dict[int, int])
    is_exact: bool = True
    cost_max: int = COST_MAX
    _visited: int = 0
    _gaps: list[Gap] = field(default_factory=list[Gap])
    _cost: int = 0

    def step(self) -> bool:
        """Count some more; False when the answer is complete."""
        if self._visited < len(self.topic_ids):
            some = self.topic_ids[self._visited : self._visited + TOPIC_COUNT]
            self._visited += len(some)
            for topic_id in some:
                self._visit(topic_id)
        elif self._gaps:
            self._scan(self._gaps[-1])
        return bool(self._gaps) or self._visited < len(self.topic_ids)

    def total(self) -> int:
        """All buckets together."""
        return sum(self.buckets.values())

    def estimate(self) -> int:
        """About how many in all, told from the counts alone."""
        found = 0

        def add(_: int, count: int) -> None:
            nonlocal found
            found += count

        def guess(start_ms: int, end_ms: int, unit_ms: int, count: int) -> None:
            add(0, -(-count * (end_ms - start_ms) // unit_ms))

        for topic_id in self.topic_ids:
            span_ms = (self.start_ms, self.end_ms)
            self.counts.visit(topic_id, span_ms, self.bucket_ms, add, guess)
        return found

    def _visit(self, topic_id: int) -> None:
        def gap(start_ms: int, end_ms: int, unit_ms: int, count: int) -> None:
            share = -(-count * (end_ms - start_ms) // unit_ms)
            self._gaps.append(Gap(topic_id, start_ms, end_ms, share))

        span_ms = (self.start_ms, self.end_ms)
        self.counts.visit(topic_id, span_ms, self.bucket_ms, self._put, gap)
        self.is_exact &= self.counts.is_exact_of(topic_id)

    def _put(self, bucket: int, count: int) -> None:
        self.buckets[bucket] = self.buckets.get(bucket, 0) + count

    def _scan(self, gap: Gap) -> None:
        if self._cost > self.cost_max:
            self._gaps.pop()
            self._guess(gap)
            return
        start, end = keys.timer_range(gap.topic_id, gap.start_ms, gap.end_ms)
        found = self.index.scan_keys(gap.cursor or start, end, SCAN_COUNT)
        for key in found:
            self._put(keys.timer_due_ms(key) // self.bucket_ms, 1)
        self._cost += SEEK_COST + len(found)
        gap.found += len(found)
        if len(found) < SCAN_COUNT:
            self._gaps.pop()
        else:
            gap.cursor = found[-1] + b"\0"

    def _guess(self, gap: Gap) -> None:
        """Spread what has not been looked at evenly over the rest of the gap."""
        self.is_exact = False
        start_ms = keys.timer_due_ms(gap.cursor) if gap.cursor else gap.start_ms
        first = start_ms // self.bucket_ms
        count = (gap.end_ms - 1) // self.bucket_ms - first + 1
        rest = gap.expected - gap.found
        for n in range(count if rest > 0 else 0):
            share = rest * (n + 1) // count - rest * n // count
            if share:
                self._put(first + n, share)
