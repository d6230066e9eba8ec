"""Dead letters that are offered to their group again, or are done with.

Where a group stands on its own dead-letter topic tells which of them have been dealt
with: those before its cursor, but for what is in flight. Dealing with one beyond the
cursor moves that behind it, and leaves those between in flight, to be had at once.

The message itself is offered where it came from: by a new check point on its old place,
so that this group gets it, and no other.
"""

from collections.abc import Callable, Sequence

from .broker import TopicInfo
from .dead_letter import DeadLetter, read_dead_letter
from .errors import CorruptLog, OffsetOutOfRange
from .group_plan import Plan
from .group_state import AckBody, Claim, GroupState, PopBody
from .groups import Groups
from .queues import QueuedRecord
from .record import RecordKind, decode_record

GAP_MAX = 100_000
"""Dead letters that may be in flight, because newer ones were dealt with."""
POINT_SIZE = 100
NOT_DEAD, GONE, TOO_MANY = "not_dead", "gone", "too_many_between"


class RevivePlanner:
    """Plans for one group. `dead` is the plan for its dead-letter topic, `origins` are
    those for the topics that the messages came from, by id."""

    def __init__(
        self,
        groups: Groups,
        dead: Plan,
        now_ms: int,
        topic: Callable[[str], TopicInfo | None],
    ) -> None:
        self._groups = groups
        self._dead = dead
        self._now_ms = now_ms
        self._topic = topic
        self.origins: dict[int, Plan] = {}

    def settle(self, offsets: Sequence[int], *, discard: bool) -> list[str]:
        """Fill the plans; a code for each offset, empty for success."""
        codes = dict.fromkeys(offsets, "")
        places = self._places_in_flight(codes)
        for offset in sorted(codes):
            codes[offset] = self._settle(offset, places, discard=discard)
        return [codes[offset] for offset in offsets]

    def _places_in_flight(self, wanted: dict[int, str]) -> dict[int, Claim]:
        return {
            point.offsets[i]: (point.pop_id, [i])
            for point in self._dead.state.check_points.values()
            for i in point.open_indexes()
            if point.offsets[i] in wanted
        }

    def _settle(self, offset: int, places: dict[int, Claim], *, discard: bool) -> str:
        state = self._dead.state
        cursor = self._groups.cursor(state, 0)
        claim = places.get(offset)
        if offset < cursor and claim is None:
            return NOT_DEAD
        if offset - cursor + state.in_flight > GAP_MAX:
            return TOO_MANY
        record = self._read(state, 0, offset)
        if record is None:
            return NOT_DEAD
        if not discard and not self._offer(record):
            return GONE
        if claim is None:
            self._pass(cursor, offset)
        else:
            self._dead.add(RecordKind.POP_ACK, AckBody([claim]))
        return ""

    def _pass(self, cursor: int, offset: int) -> None:
        """Move the cursor behind `offset`, leaving what lies between."""
        first = cursor
        while first < offset:
            end = min(first + POINT_SIZE, offset)
            self._hide(self._dead, 0, list(range(first, end)), end)
            first = end
        self._hide(self._dead, 0, [], offset + 1)

    def _offer(self, dead_record: QueuedRecord) -> bool:
        """Whether the message is where it was, and is offered again."""
        record = decode_record(dead_record.record)
        dead, _ = read_dead_letter(record)
        topic = self._topic(dead.topic) if dead else None
        if dead is None or topic is None:
            return False
        state = self._origin(topic.id)
        found = self._read(state, dead.queue, dead.offset)
        if found is None or decode_record(found.record).event_id != record.event_id:
            return False
        if not self._is_passed(state, dead):
            return True  # the group was moved back: it gets the message anyway
        plan = self.origins.setdefault(topic.id, Plan(state))
        self._hide(plan, dead.queue, [dead.offset], -1)
        return True

    def _origin(self, topic_id: int) -> GroupState:
        plan = self.origins.get(topic_id)
        if plan is not None:
            return plan.state
        return self._groups.state(self._dead.state.group_id, topic_id)

    def _is_passed(self, state: GroupState, dead: DeadLetter) -> bool:
        return dead.offset < self._groups.cursor(state, dead.queue)

    def _hide(self, plan: Plan, queue: int, offsets: list[int], cursor: int) -> None:
        pop_id = self._groups.next_pop_id()
        body = PopBody(pop_id, queue, 0, self._now_ms, offsets, cursor, [])
        plan.add(RecordKind.POP_HIDE, body)

    def _read(self, state: GroupState, queue: int, offset: int) -> QueuedRecord | None:
        try:
            found = self._groups.queues.read(state.topic_id, queue, offset, 1, 1)
        except (OffsetOutOfRange, CorruptLog):
            return None
        return found[0] if found and found[0].offset == offset else None
