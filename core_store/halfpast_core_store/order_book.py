"""The lines of an ordered group: what it is not done with, by queue and ordering key.

    queue 0, key A    3 (held)   7   9        3 was given; 7 and 9 are held back
    queue 0, key B    4                       its time ran out: offered at once
    queue 0, no key   5 (held)                a line of its own

A line stands in the order of its offsets, and only its first message is offered: when
it may be seen again, and nobody holds another message of the line. (Somebody can: the
group was not always ordered, was moved back, or got a dead letter again.)

All of it follows from the check points, so nothing is stored. Keys count by their hash;
two keys with one hash share a line, which keeps the order of each.
"""

import heapq
import zlib
from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from .check_point import CheckPoint
from .record import HEADER, HEADER_SIZE

HELD_BACK_MAX = 10_000
"""Messages of a queue that may wait for earlier ones; then nobody looks further."""
NO_KEY = 0
KEY_SIZE = 11  # its place in the record header

LineName = tuple[int, int, int]
"""Queue, hash of the key, and for messages without a key the offset, else -1."""


class Place(NamedTuple):
    """A message in flight: its offset, and where its check point has it."""

    offset: int
    pop_id: int
    i: int


class Line:
    """See above. `due_ms`: when it is next offered, None while it is looked at."""

    __slots__ = ("due_ms", "held", "places")

    def __init__(self) -> None:
        self.places: list[Place] = []
        self.held: list[Place] = []
        self.due_ms: int | None = None


class OrderBook:
    """The lines of one group on one topic. Follows `points`, which its owner changes:
    `add` after a check point came in, `remove` before a message of it is done."""

    def __init__(self, points: Mapping[int, CheckPoint]) -> None:
        self._points = points
        self._lines: dict[LineName, Line] = {}
        self._names: dict[Place, LineName] = {}
        self._by_time: list[tuple[int, LineName]] = []
        self._held_back: dict[int, int] = {}
        self._unknown: list[int] = []
        for point in points.values():
            self.add(point)

    # --- questions ------------------------------------------------------------

    def has_line(self, queue: int, key_hash: int) -> bool:
        """Whether a new message of this key would stand behind another one."""
        return key_hash != NO_KEY and (queue, key_hash, -1) in self._lines

    def held_back(self, queue: int) -> int:
        """Messages of this queue that are not the first of their line."""
        return self._held_back.get(queue, 0)

    @property
    def held_back_count(self) -> int:
        """The same for all queues."""
        return sum(self._held_back.values())

    def next_due_ms(self) -> int | None:
        """When the next line is offered."""
        while self._by_time:
            due_ms, name = self._by_time[0]
            line = self._lines.get(name)
            if line is not None and line.due_ms == due_ms:
                return due_ms
            heapq.heappop(self._by_time)
        return None

    # --- taking ---------------------------------------------------------------

    def take(self, now_ms: int) -> tuple[LineName, Place] | None:
        """The first message of a line that is to be offered. The line is left out until
        something in it changes, or it is put back."""
        due_ms = self.next_due_ms()
        if due_ms is None or due_ms > now_ms:
            return None
        _, name = heapq.heappop(self._by_time)
        line = self._lines[name]
        line.due_ms = None
        return name, line.places[0]

    def put_back(self, name: LineName) -> None:
        """Nothing was done with what was taken."""
        line = self._lines.get(name)
        if line is not None:
            self._arm(name, line)

    # --- changes --------------------------------------------------------------

    def next_unknown(self) -> CheckPoint | None:
        """A check point that does not tell the keys of its messages; see `learn`."""
        while self._unknown:
            point = self._points.get(self._unknown[-1])
            if point is not None:
                return point
            self._unknown.pop()
        return None

    def learn(self, point: CheckPoint, key_hashes: Mapping[int, int]) -> None:
        """The hashes of the keys of an unknown check point, by place."""
        assert self._unknown[-1] == point.pop_id
        self._unknown.pop()
        for i in point.open_indexes():
            self._enter(point, i, key_hashes.get(i, NO_KEY))

    def add(self, point: CheckPoint) -> None:
        """This check point came in."""
        if not point.lines:
            if not point.is_done:
                self._unknown.append(point.pop_id)
            return
        for i in point.open_indexes():
            self._enter(point, i, point.lines[i])

    def remove(self, point: CheckPoint, places: Iterable[int]) -> None:
        """These messages leave this check point."""
        for i in places:
            if i >= len(point.offsets):
                continue
            place = Place(point.offsets[i], point.pop_id, i)
            name = self._names.pop(place, None)
            if name is not None:
                self._leave(name, place)

    def _enter(self, point: CheckPoint, i: int, key_hash: int) -> None:
        offset = point.offsets[i]
        place = Place(offset, point.pop_id, i)
        name = (point.queue, key_hash, offset if key_hash == NO_KEY else -1)
        line = self._lines.get(name)
        if line is None:
            line = self._lines[name] = Line()
        insort(line.places, place)
        if not point.hidden:
            line.held.append(place)
        self._names[place] = name
        if len(line.places) > 1:
            self._held_back[point.queue] = self.held_back(point.queue) + 1
        self._arm(name, line)

    def _leave(self, name: LineName, place: Place) -> None:
        line = self._lines[name]
        del line.places[bisect_left(line.places, place)]
        if place in line.held:
            line.held.remove(place)
        if not line.places:
            del self._lines[name]
            return
        self._held_back[name[0]] -= 1
        self._arm(name, line)

    def _arm(self, name: LineName, line: Line) -> None:
        """Note when the line is next offered, if that has changed."""
        due_ms = self._visible_ms(line.places[0])
        if len(line.places) > 1 and line.held:
            due_ms = max(due_ms, *map(self._visible_ms, line.held))
        if line.due_ms == due_ms:
            return
        line.due_ms = due_ms
        if len(self._by_time) > 2 * len(self._lines) + 64:
            self._by_time = [
                (other.due_ms, other_name)
                for other_name, other in self._lines.items()
                if other.due_ms is not None
            ]
            heapq.heapify(self._by_time)
        else:
            heapq.heappush(self._by_time, (due_ms, name))

    def _visible_ms(self, place: Place) -> int:
        return self._points[place.pop_id].visible_ms


def key_hash_of(record: bytes) -> int:
    """The hash of a message's ordering key; NO_KEY if it has none."""
    size = HEADER.unpack_from(record)[KEY_SIZE]
    if not size:
        return NO_KEY
    return zlib.crc32(record[HEADER_SIZE : HEADER_SIZE + size]) or 1
