"""What one consumer group has in flight on one topic, as a state machine.

A *check point* stands for messages that a pop took together: they are hidden from
the group until `visible_ms`, and then offered again, by a new check point that
claims them from the old one. Nothing is written when a check point runs out; that
it has is plain from the clock. A message leaves when it is acknowledged or goes
to the dead letters. The *cursor* of a queue is the first offset never popped.

All changes come from records, applied in log order by `apply`, both when they are
planned and when a log is replayed. Each application tells which index entries it
changed. No body is ever rewritten for a retry.
"""

import heapq
from collections.abc import Sequence

import msgspec

from . import keys
from .check_point import CheckPoint
from .in_flight import InFlight
from .order_book import OrderBook
from .ports import Index
from .record import Record, RecordKind

Change = tuple[bytes, bytes | None]
Claim = tuple[int, list[int]]
Stretch = tuple[int, int, int]

ENCODER = msgspec.msgpack.Encoder()


class PopBody(msgspec.Struct, array_like=True):
    """Body of a POP or POP_HIDE record: a new check point, with what it claims from
    old ones and where the queue's cursor stands afterwards (-1: unchanged). `lines` as
    in the check point."""

    pop_id: int
    queue: int
    attempt: int
    visible_ms: int
    offsets: list[int]
    cursor: int
    claims: list[Claim]
    lines: list[int] = msgspec.field(default_factory=list[int])


class AckBody(msgspec.Struct, array_like=True):
    """Body of a POP_ACK record. `settled` tells the audits, which do not follow check
    points, what the group is done with: stretches of (queue, first offset, count).
    It is empty where the messages went elsewhere: to the dead letters, or were lost.
    """

    claims: list[Claim]
    settled: list[Stretch] = msgspec.field(default_factory=list[Stretch])


class OffsetsBody(msgspec.Struct, array_like=True):
    """Body of an OFFSETS record: where to go on, per queue, and where the group was
    before; what lies between is settled."""

    offsets: dict[int, int]
    before: dict[int, int] = msgspec.field(default_factory=dict[int, int])


POP_DECODER = msgspec.msgpack.Decoder(PopBody)
ACK_DECODER = msgspec.msgpack.Decoder(AckBody)
OFFSETS_DECODER = msgspec.msgpack.Decoder(OffsetsBody)
CHECK_POINT_DECODER = msgspec.msgpack.Decoder(CheckPoint)


class GroupState:
    """One group on one topic."""

    def __init__(self, group_id: int, topic_id: int) -> None:
        self.group_id = group_id
        self.topic_id = topic_id
        self.cursors: dict[int, int] = {}
        self.check_points: dict[int, CheckPoint] = {}
        self.in_flight = 0
        self.unapplied = 0
        """Planned changes that are not durable yet; such a state stays in memory."""
        self.rotation = 0
        self.full = False
        """Whether the last pop was kept short by what is in flight."""
        self.book: OrderBook | None = None
        """The lines; while the group is popped in order."""
        self._by_time: list[tuple[int, int]] = []

    @classmethod
    def load(cls, index: Index, group_id: int, topic_id: int) -> "GroupState":
        """As the index has it."""
        state = cls(group_id, topic_id)
        start, end = keys.group_topic(b"C", group_id, topic_id)
        for key, value in index.scan(start, end, 1 << 16):
            state.cursors[keys.CURSOR.unpack(key)[3]] = keys.read_u64(value)
        start, end = keys.group_topic(b"P", group_id, topic_id)
        while found := index.scan(start, end, 1000):
            for _, value in found:
                state._add(CHECK_POINT_DECODER.decode(value))
            start = found[-1][0] + b"\0"
        return state

    # --- questions ------------------------------------------------------------

    def next_visible_ms(self) -> int | None:
        """When the next hidden message may be offered again."""
        while self._by_time:
            visible_ms, pop_id = self._by_time[0]
            if pop_id in self.check_points:
                return visible_ms
            heapq.heappop(self._by_time)
        return None

    def visible(self, now_ms: int) -> CheckPoint | None:
        """The check point that ran out first, if any has."""
        visible_ms = self.next_visible_ms()
        if visible_ms is None or visible_ms > now_ms:
            return None
        return self.check_points[self._by_time[0][1]]

    def next_offer_ms(self) -> int | None:
        """When the group may be offered something again: the next hidden message, or
        where it is popped in order the next line."""
        if self.book is None:
            return self.next_visible_ms()
        return self.book.next_due_ms()

    def may_go_on(self, now_ms: int) -> bool:
        """Whether a pop may get something that it could not get before messages were
        acknowledged."""
        if self.full:
            return True
        next_ms = None if self.book is None else self.book.next_due_ms()
        return next_ms is not None and next_ms <= now_ms

    def listed(self, after: tuple[int, int], limit: int) -> list[InFlight]:
        """The first messages in flight behind a place: a queue and an offset in it."""
        behind = (
            (point.queue, point.offsets[i], point)
            for point in self.check_points.values()
            for i in point.open_indexes()
            if (point.queue, point.offsets[i]) > after
        )
        first = heapq.nsmallest(limit, behind, key=lambda found: found[:2])
        return [
            InFlight(queue, offset, point.attempt, point.visible_ms, point.hidden)
            for queue, offset, point in first
        ]

    # --- changes --------------------------------------------------------------

    def apply(self, record: Record) -> list[Change]:
        """Change by a record of this group and topic; gives the index's changes."""
        if record.kind in (RecordKind.POP, RecordKind.POP_HIDE):
            return self._pop(
                POP_DECODER.decode(record.body), record.kind == RecordKind.POP_HIDE
            )
        if record.kind == RecordKind.POP_ACK:
            return self._claim(ACK_DECODER.decode(record.body).claims)
        assert record.kind == RecordKind.OFFSETS
        return [
            self._set_cursor(queue, offset)
            for queue, offset in OFFSETS_DECODER.decode(record.body).offsets.items()
        ]

    def _pop(self, body: PopBody, hidden: bool) -> list[Change]:
        changes = self._claim(body.claims)
        if body.cursor >= 0:
            changes.append(self._set_cursor(body.queue, body.cursor))
        if body.offsets:
            point = CheckPoint(
                body.pop_id,
                body.queue,
                body.attempt,
                body.visible_ms,
                body.offsets,
                hidden=hidden,
                lines=body.lines,
            )
            self._add(point)
            changes.append(self._stored(point))
        return changes

    def _add(self, point: CheckPoint) -> None:
        self.check_points[point.pop_id] = point
        self.in_flight += len(point.open_indexes())
        if self.book is not None:
            self.book.add(point)
        if len(self._by_time) > 2 * len(self.check_points) + 64:
            # Most are done, and nobody has looked: long invisible times.
            known = self.check_points.values()
            self._by_time = [(other.visible_ms, other.pop_id) for other in known]
            heapq.heapify(self._by_time)
        else:
            heapq.heappush(self._by_time, (point.visible_ms, point.pop_id))

    def _claim(self, claims: Sequence[Claim]) -> list[Change]:
        changes: list[Change] = []
        for pop_id, indexes in claims:
            point = self.check_points.get(pop_id)
            if point is None:
                continue
            if self.book is not None:
                self.book.remove(point, indexes)
            self.in_flight -= point.finish(indexes)
            if point.is_done:
                del self.check_points[pop_id]
                changes.append((self._key(point), None))
            else:
                changes.append(self._stored(point))
        return changes

    def _set_cursor(self, queue: int, offset: int) -> Change:
        self.cursors[queue] = offset
        key = keys.cursor(self.group_id, self.topic_id, queue)
        return key, keys.U64.pack(offset)

    def _stored(self, point: CheckPoint) -> Change:
        return self._key(point), ENCODER.encode(point)

    def _key(self, point: CheckPoint) -> bytes:
        return keys.check_point(self.group_id, self.topic_id, point.pop_id)
