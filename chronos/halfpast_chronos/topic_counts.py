"""How many timers of one topic are due when, as a tree of counts.

    total
    stretches of 32 days     ──> days ──> hours ──> minutes ──> seconds

A count that reaches SPLIT_COUNT is split into a page of counts of the next finer
unit, and one that falls below MERGE_COUNT loses its page. So the finest counts are
where many timers are due, what a topic takes in memory is bounded by how many timers
it has, however they are spread, and what has no finer counts has few timers: whoever
asks for more looks at those.
"""

from array import array
from collections.abc import Callable
from typing import TypeAlias

import msgspec

SECOND_MS = 1_000
MINUTE_MS = 60 * SECOND_MS
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
STRETCH_MS = 32 * DAY_MS
UNITS_MS = (STRETCH_MS, DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS)
PARTS = (32, 24, 60, 60)
"""Into how many of the next unit each is split."""

SPLIT_COUNT = 512
MERGE_COUNT = 256

Page: TypeAlias = "array[int]"
Place = tuple[int, int]
"""A count: the index of its unit in UNITS_MS, and which one since the epoch."""

Sink = Callable[[int, int], None]
"""Takes a bucket's number and a count in it."""

Gap = Callable[[int, int, int, int], None]
"""Takes a range of time without finer counts (first ms, end), and the place's length
and count."""


class TopicCounts:
    """The counts of one topic."""

    __slots__ = ("crowded", "is_growing", "pages", "stretches", "total")

    def __init__(self) -> None:
        self.is_growing = False
        """Whether this is being counted only now, so that no page may be lost."""
        self.total = 0
        self.stretches: dict[int, int] = {}
        self.pages: tuple[dict[int, Page], ...] = ({}, {}, {}, {})
        """Of each unit but the last: the pages of its counts that are split."""
        self.crowded: set[Place] = set()
        """Counts that should be split."""

    def add(self, due_ms: int, change: int) -> None:
        """So many timers that are due in this second have come or (negative) gone."""
        self.total += change
        stretch = due_ms // STRETCH_MS
        count = self.stretches.get(stretch, 0) + change
        if count:
            self.stretches[stretch] = count
        else:
            self.stretches.pop(stretch, None)
        number = stretch
        for level, pages in enumerate(self.pages):
            page = pages.get(number)
            if page is None:
                if count >= SPLIT_COUNT:
                    self.crowded.add((level, number))
                return
            if count < MERGE_COUNT and change < 0 and not self.is_growing:
                self.merge(level, number)
                return
            number = due_ms // UNITS_MS[level + 1]
            part = number % PARTS[level]
            count = page[part] = page[part] + change

    def count_at(self, level: int, number: int) -> int:
        """The count at a place; 0 where nothing so fine is known."""
        if level == 0:
            return self.stretches.get(number, 0)
        parts = PARTS[level - 1]
        page = self.pages[level - 1].get(number // parts)
        return 0 if page is None else page[number % parts]

    def split(self, level: int, number: int, page: Page) -> None:
        """Give the count at a place these finer counts."""
        self.crowded.discard((level, number))
        if self.count_at(level, number) >= MERGE_COUNT:
            self.pages[level][number] = page
            if level + 1 < len(PARTS):
                first = number * PARTS[level]
                for part, count in enumerate(page):
                    if count >= SPLIT_COUNT:
                        self.crowded.add((level + 1, first + part))

    def merge(self, level: int, number: int) -> None:
        """Forget what is finer than the count at a place."""
        self.crowded.discard((level, number))
        if level < len(self.pages):
            page = self.pages[level].pop(number, None)
            if page is not None:
                first = number * PARTS[level]
                for part in range(len(page)):
                    self.merge(level + 1, first + part)

    def visit(
        self, start_ms: int, end_ms: int, bucket_ms: int, sink: Sink, gap: Gap
    ) -> None:
        """Tell all counts from `start_ms` to before `end_ms` by buckets of so many ms.

        What lies in a bucket as a whole goes to `sink`, the rest is told as gaps.
        """

        def descend(level: int, number: int, count: int) -> None:
            unit_ms = UNITS_MS[level]
            first_ms, behind_ms = number * unit_ms, (number + 1) * unit_ms
            if count <= 0 or behind_ms <= start_ms or end_ms <= first_ms:
                return
            bucket = first_ms // bucket_ms
            within = start_ms <= first_ms and behind_ms <= end_ms
            if within and (behind_ms - 1) // bucket_ms == bucket:
                sink(bucket, count)
                return
            page = self.pages[level].get(number) if level < len(PARTS) else None
            if page is None:
                gap(max(first_ms, start_ms), min(behind_ms, end_ms), unit_ms, count)
                return
            finer_ms = UNITS_MS[level + 1]
            first = number * PARTS[level]
            low = max(first, start_ms // finer_ms)
            high = min(first + len(page), -(-end_ms // finer_ms))
            for part in range(low, high):
                descend(level + 1, part, page[part - first])

        for number, count in list(self.stretches.items()):
            descend(0, number, count)

    def encode(self) -> bytes:
        """For the index; in the byte order of this machine."""
        pages = [
            {number: page.tobytes() for number, page in some.items()}
            for some in self.pages
        ]
        return ENCODE((self.total, self.stretches, pages, sorted(self.crowded)))


ENCODE = msgspec.msgpack.Encoder().encode
DECODER = msgspec.msgpack.Decoder(
    tuple[int, dict[int, int], list[dict[int, bytes]], list[Place]]
)


def decode_counts(data: bytes) -> TopicCounts:
    """What `encode` gave."""
    counts = TopicCounts()
    counts.total, counts.stretches, pages, crowded = DECODER.decode(data)
    for known, some in zip(counts.pages, pages, strict=True):
        for number, page in some.items():
            known[number] = array("i", page)
    counts.crowded = set(crowded)
    return counts


def empty_page(level: int) -> Page:
    return array("i", bytes(array("i").itemsize * PARTS[level]))
