"""Counting timers in the index, a slice at a time, while they come and go.

A cursor moves through a range of keys in their order. What is before it has been
counted, so a change there changes the count; one behind it will be met.
"""

from halfpast_core_store.ports import Index

from . import keys
from .topic_counts import (
    HOUR_MS,
    MERGE_COUNT,
    PARTS,
    SPLIT_COUNT,
    UNITS_MS,
    Page,
    Place,
    TopicCounts,
    empty_page,
)

HOURS = 2  # the level of hours, the finest that a recount splits


class Split:
    """Makes the page for one crowded count of a topic."""

    def __init__(self, topic_id: int, place: Place) -> None:
        self.topic_id = topic_id
        self.place = place
        level, number = place
        self._page: Page = empty_page(level)
        self._unit_ms = UNITS_MS[level + 1]
        self._parts = PARTS[level]
        first_ms = number * UNITS_MS[level]
        self._start, self._end = keys.timer_range(
            topic_id, first_ms, first_ms + UNITS_MS[level]
        )
        self._cursor = self._start

    def change(self, key: bytes, due_ms: int, change: int) -> None:
        """A timer has come or gone."""
        if self._start <= key < self._cursor:
            self._page[due_ms // self._unit_ms % self._parts] += change

    def step(self, index: Index, limit: int) -> bool:
        """Count some more; False when that was all."""
        found = index.scan_keys(self._cursor, self._end, limit)
        for key in found:
            self._page[keys.timer_due_ms(key) // self._unit_ms % self._parts] += 1
        if len(found) == limit:
            self._cursor = found[-1] + b"\0"
            return True
        self._cursor = self._end
        return False

    def finish(self, counts: TopicCounts) -> TopicCounts:
        """The topic's counts with what was found."""
        counts.split(*self.place, self._page)
        return counts


class Recount:
    """Counts all timers of a topic anew."""

    def __init__(self, topic_id: int) -> None:
        self.topic_id = topic_id
        self._counts = TopicCounts()
        self._counts.is_growing = True
        self._cursor = self._start = keys.timer_prefix(topic_id)
        self._end = keys.timer_prefix(topic_id + 1)
        self._hour = -1

    def change(self, key: bytes, due_ms: int, change: int) -> None:
        """A timer has come or gone."""
        if self._start <= key < self._cursor:
            self._counts.add(due_ms, change)

    def step(self, index: Index, limit: int) -> bool:
        """Count some more; False when that was all."""
        found = index.scan_keys(self._cursor, self._end, limit)
        for key in found:
            due_ms = keys.timer_due_ms(key)
            if due_ms // HOUR_MS != self._hour:
                self._enter(due_ms // HOUR_MS)
            self._counts.add(due_ms, 1)
        if len(found) == limit:
            self._cursor = found[-1] + b"\0"
            return True
        self._cursor = self._end
        self._leave(-1)
        return False

    def finish(self, counts: TopicCounts) -> TopicCounts:
        """The counts in place of those that were in doubt."""
        del counts
        self._counts.is_growing = False
        return self._counts

    def _enter(self, hour: int) -> None:
        """Give the hour pages, and what it is a part of, before anything in it."""
        self._leave(hour)
        self._hour = hour
        for level in range(HOURS + 1):
            number = hour * HOUR_MS // UNITS_MS[level]
            self._counts.pages[level].setdefault(number, empty_page(level))

    def _leave(self, hour: int) -> None:
        """Take the pages back from what has turned out to have few timers."""
        if self._hour < 0:
            return
        for level in range(HOURS, -1, -1):
            number = self._hour * HOUR_MS // UNITS_MS[level]
            if hour >= 0 and hour * HOUR_MS // UNITS_MS[level] == number:
                return
            if self._counts.count_at(level, number) < MERGE_COUNT:
                self._counts.merge(level, number)
            elif level == HOURS:
                page = self._counts.pages[level][number]
                for part, count in enumerate(page):
                    if count >= SPLIT_COUNT:
                        self._counts.crowded.add((level + 1, number * 60 + part))
