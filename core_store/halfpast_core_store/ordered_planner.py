"""What a pop of an ordered group takes: the first message of each line that is due, and
new ones whose line is free. New ones behind another of their line are held back."""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from .broker import Pop
from .check_point import CheckPoint
from .dead_letter import REASONS
from .errors import CorruptLog
from .group_plan import Plan
from .group_state import AckBody, PopBody
from .groups import Groups
from .message_filter import MessageFilter
from .order_book import HELD_BACK_MAX, NO_KEY, LineName, Place, key_hash_of
from .pop_planner import RECORDS_MAX, SCAN_COUNT, PopPlanner
from .queues import QueuedRecord
from .record import RecordKind

POINT_SIZE = 100
"""Messages of one check point that are held back: each that is let go rewrites it."""


class Due(NamedTuple):
    """A message of a check point, to be given now."""

    pop_id: int
    i: int
    queued: QueuedRecord


class OrderedPlanner(PopPlanner):
    """Plans one pop. A line gives one message at most."""

    def __init__(
        self,
        groups: Groups,
        plan: Plan,
        request: Pop,
        matches: MessageFilter | None,
        now_ms: int,
    ) -> None:
        super().__init__(groups, plan, request, matches, now_ms)
        self._scan = min(self._scan, groups.held_back_scan_max)
        self._scan_count = SCAN_COUNT
        self._book = groups.book(plan.state)
        self._begun: set[int] = set()
        """Lines of the queue in hand that new messages begin."""
        self._behind: list[tuple[int, int]] = []
        """New messages to be held back: offset, and hash of the key."""
        self._dead_size = groups.dead_size_max
        self._passed: list[LineName] = []

    def take(self, queue_count: int) -> None:
        """See PopPlanner. Takes nothing while it has to learn of older messages."""
        if self._book is None:
            self.cut = True
            return
        super().take(queue_count)

    # --- lines ------------------------------------------------------------------

    def _take_offered(self) -> None:
        """The first messages of the lines that are due."""
        assert self._book is not None
        points = self._plan.state.check_points
        due: dict[tuple[int, int], list[Due]] = defaultdict(list)
        while self._more():
            if len(self._plan.records) >= RECORDS_MAX:
                self.cut = True
                break
            found = self._book.take(self._now_ms)
            if found is None:
                break
            name, place = found
            point = points[place.pop_id]
            queued = self._read(name, place, point)
            if queued is None:
                continue
            if self._dying(point):
                self._bury(name, place, point, queued)
                continue
            self._spend([queued])
            due[point.queue, point.attempt].append(Due(place.pop_id, place.i, queued))
        for (queue, attempt), messages in due.items():
            self._deliver_again(queue, attempt + 1, messages)
        for name in self._passed:
            self._book.put_back(name)

    def _read(
        self, name: LineName, place: Place, point: CheckPoint
    ) -> QueuedRecord | None:
        """The message at this place; None if it is gone, or damaged."""
        state = self._plan.state
        try:
            kept, lost = self._groups.still_kept(state, point, [place.i], 1)
        except CorruptLog as error:  # it holds up this line, not the others
            self._damage = error
            self._passed.append(name)
            return None
        if lost:  # retention has taken it
            self._plan.add(RecordKind.POP_ACK, AckBody([(point.pop_id, lost)]))
        return kept[0][1] if kept else None

    def _bury(
        self, name: LineName, place: Place, point: CheckPoint, queued: QueuedRecord
    ) -> None:
        request, plan = self._request, self._plan
        if not plan.buries or self._dead_size <= 0:
            self.cut = self.cut or plan.buries
            self._passed.append(name)
            return
        self._dead_size -= len(queued.record)
        messages = [(place.i, queued)]
        reason = REASONS["attempts"]
        self._groups.bury(plan, point, messages, request.group, request.topic, reason)

    def _deliver_again(self, queue: int, attempt: int, messages: list[Due]) -> None:
        messages.sort(key=lambda it: it.queued.offset)
        claims: dict[int, list[int]] = defaultdict(list)
        for message in messages:
            claims[message.pop_id].append(message.i)
        taken = [message.queued for message in messages]
        self._deliver(queue, attempt, taken, -1, list(claims.items()))

    # --- new ones -----------------------------------------------------------------

    def _may_look_on(self, queue: int) -> bool:
        assert self._book is not None
        return self._book.held_back(queue) + len(self._behind) < HELD_BACK_MAX

    def _is_free(self, queue: int, queued: QueuedRecord) -> bool:
        assert self._book is not None
        key_hash = key_hash_of(queued.record)
        if key_hash == NO_KEY:
            return True
        if key_hash in self._begun or self._book.has_line(queue, key_hash):
            self._behind.append((queued.offset, key_hash))
            self._scan -= 1
            return False
        self._begun.add(key_hash)
        return True

    def _note_held_back(self, queue: int) -> None:
        for first in range(0, len(self._behind), POINT_SIZE):
            some = self._behind[first : first + POINT_SIZE]
            offsets = [offset for offset, _ in some]
            lines = [key_hash for _, key_hash in some]
            pop_id = self._groups.next_pop_id()
            body = PopBody(pop_id, queue, 0, self._now_ms, offsets, -1, [], lines)
            self._plan.add(RecordKind.POP_HIDE, body)
        self._behind.clear()
        self._begun.clear()

    def _lines(self, taken: Sequence[QueuedRecord]) -> list[int]:
        return [key_hash_of(queued.record) for queued in taken]


def pop_planner(
    groups: Groups,
    plan: Plan,
    request: Pop,
    matches: MessageFilter | None,
    now_ms: int,
) -> PopPlanner:
    """The planner that this pop needs."""
    kind = OrderedPlanner if request.policy.ordered else PopPlanner
    return kind(groups, plan, request, matches, now_ms)
