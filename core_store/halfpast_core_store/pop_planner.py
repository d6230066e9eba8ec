"""What a pop takes: first messages that were offered before, then new ones."""

from collections.abc import Sequence

from .broker import Delivered, Pop
from .check_point import CheckPoint
from .dead_letter import REASONS
from .errors import CorruptLog, OffsetOutOfRange
from .group_plan import Plan
from .group_state import AckBody, Claim, PopBody
from .groups import Groups
from .message_filter import MessageFilter
from .queues import QueuedRecord
from .receipt import Receipt
from .record import RecordKind

SCAN_MAX = 2_000  # messages that one pop may pass over
SCAN_COUNT = 100
RECORDS_MAX = 200  # check points that one pop may change


class PopPlanner:
    """Plans one pop. `room` and `size` tell what may still be taken."""

    def __init__(
        self,
        groups: Groups,
        plan: Plan,
        request: Pop,
        matches: MessageFilter | None,
        now_ms: int,
    ) -> None:
        self._groups = groups
        self._plan = plan
        self._request = request
        self._matches = matches
        self._now_ms = now_ms
        self._room = request.count
        self._size = request.size_max
        self._scan = SCAN_MAX
        self._scan_count = 1 if matches is None else SCAN_COUNT
        self.cut = False
        """Whether there is more to look at, but not in this pop."""
        self._damage: CorruptLog | None = None

    def take(self, queue_count: int) -> None:
        """Fill the plan. Raises CorruptLog if all that is left is damaged."""
        state = self._plan.state
        self._take_offered()
        in_flight_max = self._request.policy.in_flight_max
        state.full = state.in_flight >= in_flight_max
        self._room = min(self._room, in_flight_max - state.in_flight)
        for i in range(queue_count):
            if not self._more():
                break
            self._take_new((state.rotation + i) % queue_count)
        state.rotation += 1
        if self._damage is not None and not self._plan.delivered:
            raise self._damage

    def _more(self) -> bool:
        return self._room > 0 and self._size > 0

    # --- what was offered before ------------------------------------------------

    def _take_offered(self) -> None:
        """Check points that ran out, the oldest first."""
        state = self._plan.state
        state.book = None
        while self._more() and not self._plan.dead:
            point = state.visible(self._now_ms)
            if point is None or (self._dying(point) and not self._plan.buries):
                break
            if len(self._plan.records) >= RECORDS_MAX:
                self.cut = True
                break
            self._take_again(point)

    def _take_again(self, point: CheckPoint) -> None:
        """Offer the messages of a check point that ran out again."""
        request, plan, groups = self._request, self._plan, self._groups
        dying = self._dying(point)
        size_max = self._groups.dead_size_max if dying else self._size
        places = point.open_indexes()
        if not dying:
            places = places[: self._room]
        kept, lost = groups.still_kept(plan.state, point, places, size_max)
        if lost:  # retention has taken them
            plan.add(RecordKind.POP_ACK, AckBody([(point.pop_id, lost)]))
        if dying:
            reason = REASONS["attempts"]
            groups.bury(plan, point, kept, request.group, request.topic, reason)
            return
        if kept:
            claims: list[Claim] = [(point.pop_id, [i for i, _ in kept])]
            taken = [queued for _, queued in kept]
            self._spend(taken)
            self._deliver(point.queue, point.attempt + 1, taken, -1, claims)

    def _dying(self, point: CheckPoint) -> bool:
        return point.attempt >= self._request.policy.attempts_max

    # --- new ones -----------------------------------------------------------------

    def _take_new(self, queue: int) -> None:
        """Take messages behind the cursor; those that the filter refuses are
        passed over for good."""
        state = self._plan.state
        begin = offset = self._groups.cursor(state, queue)
        size = self._size
        taken: list[QueuedRecord] = []
        while len(taken) < self._room and self._may_look_on(queue):
            if size <= 0 or self._scan <= 0:
                self.cut = True
                break
            count = max(self._room - len(taken), self._scan_count)
            try:
                found = self._groups.queues.read(
                    state.topic_id, queue, offset, count, size
                )
            except OffsetOutOfRange as error:
                if offset >= error.offset_min:
                    break  # set beyond the end
                offset = error.offset_min  # retention was faster than the group
                continue
            except CorruptLog as error:  # it holds up this queue, not the others
                self._damage = error
                break
            if not found:
                break
            for queued in found:
                if len(taken) == self._room or not self._may_look_on(queue):
                    break
                offset = queued.offset + 1
                size -= len(queued.record)
                if self._matches is not None and not self._matches(queued.record):
                    self._scan -= 1
                elif self._is_free(queue, queued):
                    taken.append(queued)
        if offset != begin:
            self._note_held_back(queue)
            self._spend(taken)
            self._deliver(queue, 1, taken, offset, [])

    def _may_look_on(self, queue: int) -> bool:
        """Whether the next message of this queue may be looked at."""
        return True

    def _is_free(self, queue: int, queued: QueuedRecord) -> bool:
        """Whether a new message may be given now."""
        return True

    def _note_held_back(self, queue: int) -> None:
        """Those of this queue that are not."""

    # --- delivery -----------------------------------------------------------------

    def _spend(self, taken: Sequence[QueuedRecord]) -> None:
        self._room -= len(taken)
        self._size -= sum(len(queued.record) for queued in taken)

    def _lines(self, taken: Sequence[QueuedRecord]) -> list[int]:
        """What the check point is to tell of the ordering keys."""
        return []

    def _deliver(
        self,
        queue: int,
        attempt: int,
        taken: Sequence[QueuedRecord],
        cursor: int,
        claims: list[Claim],
    ) -> None:
        """A new check point for these messages, and their delivery."""
        plan, state = self._plan, self._plan.state
        pop_id = self._groups.next_pop_id()
        visible_ms = self._now_ms + self._request.invisible_ms
        offsets = [queued.offset for queued in taken]
        lines = self._lines(taken)
        plan.add(
            RecordKind.POP,
            PopBody(pop_id, queue, attempt, visible_ms, offsets, cursor, claims, lines),
        )
        for i, queued in enumerate(taken):
            receipt = Receipt(state.group_id, state.topic_id, pop_id, i)
            plan.delivered.append(
                Delivered(
                    queued.record,
                    queue,
                    queued.offset,
                    queued.stored_ms,
                    attempt,
                    self._groups.encode_receipt(receipt),
                )
            )
