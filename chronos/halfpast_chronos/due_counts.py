"""How many timers are due when, over all topics: kept in memory, exact, cheap.

Every timer that comes or goes is counted, in the order of the log. What has been
counted is saved with the index, and a mark beside it says that it is true of the very
timers that the index holds: the mark goes with the first change after that. A process
that finds no mark (it was killed amid changes) begins with what was saved, says that
it is not exact, and counts again in the background.
"""

import sys
from collections.abc import Iterable, Sequence

from halfpast_core_store.ports import Index, IndexBatch

from . import keys
from .recount import Recount, Split
from .topic_counts import Gap, Sink, TopicCounts, decode_counts

MARK = sys.byteorder.encode()  # the pages are as this machine has them
SLICE_COUNT = 500


class DueCounts:
    """The counts of all topics. `topic_ids` are those that have timers."""

    def __init__(self, index: Index, topic_ids: Iterable[int]) -> None:
        self._index = index
        self._topics: dict[int, TopicCounts] = {}
        self._dirty: set[int] = set()
        self._crowded: set[int] = set()
        self._job: Recount | Split | None = None
        self.is_marked = index.get(keys.COUNTED) == MARK
        """Whether what is saved is true of what the index holds."""
        if self.is_marked or index.get(keys.COUNTED_ON) == MARK:
            self._load()
        self._unsure: set[int] = set()
        """Topics that have to be counted again."""
        if not self.is_marked:
            self._unsure = {*topic_ids, *self._topics}

    @property
    def is_exact(self) -> bool:
        return not self._unsure

    def is_exact_of(self, topic_id: int) -> bool:
        return topic_id not in self._unsure

    def topic_ids(self) -> list[int]:
        """Topics that have timers, and some that had."""
        return list(self._topics)

    def pending(self, topic_id: int) -> int:
        """How many timers a topic has."""
        counts = self._topics.get(topic_id)
        return 0 if counts is None else max(0, counts.total)

    def pending_in_all(self) -> int:
        return sum(max(0, counts.total) for counts in self._topics.values())

    def visit(
        self,
        topic_id: int,
        span_ms: tuple[int, int],
        bucket_ms: int,
        sink: Sink,
        gap: Gap,
    ) -> None:
        """See `TopicCounts.visit`."""
        counts = self._topics.get(topic_id)
        if counts is not None:
            counts.visit(*span_ms, bucket_ms, sink, gap)

    # --- counting -----------------------------------------------------------------

    def spoil(self, batch: IndexBatch) -> None:
        """This batch changes timers: what was saved is not true any more."""
        if self.is_marked:
            self.is_marked = False
            batch.delete(keys.COUNTED)

    def change(self, timers: Sequence[bytes], change: int) -> None:
        """These timers have come (1) or gone (-1)."""
        job = self._job
        unpack = keys.TIMER_KEY.unpack
        last_topic, last_second, last_ms, count = -1, -1, 0, 0
        for key in timers:
            _, topic_id, due_ms, _ = unpack(key)
            if job is not None and job.topic_id == topic_id:
                job.change(key, due_ms, change)
            second = due_ms // 1000
            if second == last_second and topic_id == last_topic:
                count += 1
                continue
            if count:
                self._add(last_topic, last_ms, count * change)
            last_topic, last_second, last_ms, count = topic_id, second, due_ms, 1
        if count:
            self._add(last_topic, last_ms, count * change)

    def _add(self, topic_id: int, due_ms: int, change: int) -> None:
        counts = self._topics.get(topic_id)
        if counts is None:
            counts = self._topics[topic_id] = TopicCounts()
        counts.add(due_ms, change)
        self._dirty.add(topic_id)
        if counts.crowded:
            self._crowded.add(topic_id)

    # --- in the background --------------------------------------------------------

    def step(self) -> bool:
        """Count again, or more finely, a slice of what needs it; False if nothing."""
        job = self._job
        if job is None:
            job = self._job = self._next_job()
            if job is None:
                return False
        if not job.step(self._index, SLICE_COUNT):
            self._job = None
            known = self._topics.get(job.topic_id) or TopicCounts()
            counts = self._topics[job.topic_id] = job.finish(known)
            if isinstance(job, Recount):
                self._unsure.discard(job.topic_id)
            if counts.crowded:
                self._crowded.add(job.topic_id)
            self._dirty.add(job.topic_id)
        return True

    def _next_job(self) -> Recount | Split | None:
        if self._unsure:
            return Recount(min(self._unsure))
        while self._crowded:
            topic_id = next(iter(self._crowded))
            counts = self._topics.get(topic_id)
            if counts is not None and counts.crowded:
                return Split(topic_id, min(counts.crowded))
            self._crowded.discard(topic_id)
        return None

    # --- saving -------------------------------------------------------------------

    def save(self, batch: IndexBatch, size_max: int, *, is_whole: bool) -> None:
        """Enter what has changed, about so many bytes of it; the rest another time.

        `is_whole`: what is in the index will not be applied again.
        """
        size = 0
        while self._dirty and size < size_max:
            topic_id = self._dirty.pop()
            counts = self._topics[topic_id]
            if counts.stretches:
                data = counts.encode()
                batch.put(keys.counts(topic_id), data)
                size += len(data)
            else:
                batch.delete(keys.counts(topic_id))
                del self._topics[topic_id]
        batch.put(keys.COUNTED_ON, MARK)
        if is_whole and not self._dirty and not self._unsure:
            batch.put(keys.COUNTED, MARK)
            self.is_marked = True

    def _load(self) -> None:
        start = b"C"
        while found := self._index.scan(start, b"D", 100):
            for key, data in found:
                counts = decode_counts(data)
                self._topics[keys.counts_topic(key)] = counts
                if counts.crowded:
                    self._crowded.add(keys.counts_topic(key))
            start = found[-1][0] + b"\0"
