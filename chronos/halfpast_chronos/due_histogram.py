"""What is coming, what is late, and why: the answer to `AskDue`, made in steps."""

from heapq import nlargest

from . import keys
from .core import DelayCore
from .due_calls import AskDue, DueHistogram, LateTopic
from .due_query import DueQuery
from .release_state import release_state
from .topic_counts import HOUR_MS

LATE_TOPICS_MAX = 100
TOPIC_COUNT = 10  # topics looked at in one step
LATE_COST_MAX = 1_000  # of looking at the index, for one of them


class HistogramQuery:
    """Others may work between the steps."""

    def __init__(self, core: DelayCore, request: AskDue) -> None:
        self._core = core
        self._request = request
        self._now_ms = core.now_ms()
        counts = core.due_counts
        topic_id = request.topic_id
        some = [topic_id] if topic_id else request.topic_ids
        self._topic_ids = some or counts.topic_ids()
        self._coming = self._query(
            self._topic_ids, request.start_ms, request.end_ms, request.bucket_ms
        )
        self._late: list[LateTopic] = []
        self._late_count = 0
        self._looked = 0
        self._is_exact = True

    def step(self) -> bool:
        """Count some more; False when the answer is complete."""
        if self._coming.step():
            return True
        some = self._topic_ids[self._looked : self._looked + TOPIC_COUNT]
        self._looked += len(some)
        for topic_id in some:
            self._look(topic_id)
        return self._looked < len(self._topic_ids)

    def answer(self) -> DueHistogram:
        counts, bucket_ms = self._core.due_counts, self._request.bucket_ms
        pending = sum(map(counts.pending, self._topic_ids))
        return DueHistogram(
            self._now_ms,
            [(n * bucket_ms, it) for n, it in sorted(self._coming.buckets.items())],
            pending,
            self._late_count,
            nlargest(LATE_TOPICS_MAX, self._late, key=lambda it: it.count),
            self._is_exact and self._coming.is_exact,
        )

    def _query(
        self, topic_ids: list[int], start_ms: int, end_ms: int, bucket_ms: int
    ) -> DueQuery:
        core = self._core
        return DueQuery(
            core.index, core.due_counts, topic_ids, start_ms, end_ms, bucket_ms
        )

    def _look(self, topic_id: int) -> None:
        """How many of a topic's timers should have fired before this second."""
        core = self._core
        second_ms = self._now_ms // 1000 * 1000
        query = self._query([topic_id], 0, second_ms, HOUR_MS)
        query.cost_max = LATE_COST_MAX
        while query.step():
            pass
        self._is_exact &= query.is_exact
        retrying = core.failing.retrying(topic_id)
        count = query.total() + retrying
        if not count:
            return
        # Before the first hour with any there may be many that were deleted.
        first_ms = min(query.buckets, default=0) * HOUR_MS
        start, end = keys.timer_range(topic_id, first_ms, second_ms)
        oldest = core.index.scan_keys(start, end, 1)
        reasons = {self._reason(topic_id): query.total(), "retrying": retrying}
        self._late_count += count
        self._late.append(
            LateTopic(
                topic_id,
                count,
                keys.timer_due_ms(oldest[0]) if oldest else 0,
                {reason: number for reason, number in reasons.items() if number},
            )
        )

    def _reason(self, topic_id: int) -> str:
        """Why this topic's timers have not fired though they are due."""
        word = release_state(self._core, topic_id)
        return "overloaded" if word == "open" else word
