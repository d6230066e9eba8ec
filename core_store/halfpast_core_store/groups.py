"""All consumer groups of a store: their states, and what all plans need.

`pop_planner.py` and `settle_planner.py` plan the changes, `group_state.py` applies
them, `consumers.py` is the door through which consumers come.
"""

from collections.abc import Iterable, Sequence

from .broker import GroupPolicy
from .check_point import CheckPoint
from .consumer_counts import ConsumerCounts
from .dead_letter import dead_letter_record
from .errors import CorruptLog, OffsetOutOfRange
from .group_plan import Plan
from .group_state import AckBody, Change, Claim, GroupState
from .order_book import OrderBook, key_hash_of
from .ports import Index
from .queues import QueuedRecord, Queues
from .receipt import Receipt, decode_receipt
from .record import RecordKind, decode_record

STATES_MAX = 10_000
LEARN_MAX = 2_000  # messages that one pop may read only to know their keys
LEARN_SIZE = 1024 * 1024

Kept = list[tuple[int, QueuedRecord]]


class Groups:
    """All consumer groups of a store."""

    def __init__(
        self, index: Index, queues: Queues, salt: int, dead_size_max: int
    ) -> None:
        self._index = index
        self.queues = queues
        self._salt = salt
        self.dead_size_max = dead_size_max
        """Bytes of dead letters in one plan, give or take one message."""
        self.held_back_scan_max = max(8, dead_size_max // 64)
        """Messages that one plan may hold back, so that a frame has room for it."""
        self._states: dict[tuple[int, int], GroupState] = {}
        self._pop_ids = 0
        self._epoch = 0
        self.counts = ConsumerCounts()

    def begin_epoch(self, epoch: int) -> None:
        """Pop ids are unique for ever: epoch in the high half, counter in the low."""
        self._epoch = epoch
        self._pop_ids = 0

    def next_pop_id(self) -> int:
        """A number that no check point of this store ever had."""
        self._pop_ids += 1
        return self._epoch << 32 | self._pop_ids

    def state(self, group_id: int, topic_id: int) -> GroupState:
        """The state of a group on a topic, from memory or from the index."""
        found = self._states.get((group_id, topic_id))
        if found is None:
            found = GroupState.load(self._index, group_id, topic_id)
            self._states[group_id, topic_id] = found
        return found

    def loaded(self, group_id: int, topic_id: int) -> GroupState | None:
        """The same, if it is in memory."""
        return self._states.get((group_id, topic_id))

    def cursor_rows(self, start: bytes, limit: int) -> list[tuple[bytes, bytes]]:
        """Cursors of all groups, as the index has them, from the key `start` on."""
        return self._index.scan(start, b"D", limit)

    def trim(self) -> None:
        """Forget states, if there are many, of which the index knows everything."""
        if len(self._states) < STATES_MAX:
            return
        idle = [key for key, state in self._states.items() if not state.unapplied]
        for key in idle:
            del self._states[key]

    def cursor(self, state: GroupState, queue: int) -> int:
        """The first offset that the group has not taken yet."""
        cursor = state.cursors.get(queue)
        return self.queues.begin(state.topic_id, queue) if cursor is None else cursor

    def book(self, state: GroupState) -> OrderBook | None:
        """The lines of a group that is popped in order; None if there is more to read
        for them than can be done at once: ask again."""
        if state.book is None:
            state.book = OrderBook(state.check_points)
        left = LEARN_MAX
        while (point := state.book.next_unknown()) is not None:
            if left <= 0:
                return None
            places = point.open_indexes()
            state.book.learn(point, self._key_hashes(state, point, places))
            left -= len(places)
        return state.book

    def _key_hashes(
        self, state: GroupState, point: CheckPoint, places: Sequence[int]
    ) -> dict[int, int]:
        """By place; without those that retention has taken or that are damaged, which
        hold back nothing."""
        place_of = {point.offsets[i]: i for i in places}
        found: dict[int, int] = {}
        for first, count in contiguous(list(place_of)):
            offset, end = first, first + count
            while offset < end:
                try:
                    records = self.queues.read(
                        state.topic_id, point.queue, offset, end - offset, LEARN_SIZE
                    )
                except (OffsetOutOfRange, CorruptLog):
                    offset += 1
                    continue
                if not records:
                    break
                for queued in records:
                    found[place_of[queued.offset]] = key_hash_of(queued.record)
                offset = records[-1].offset + 1
        return found

    def encode_receipt(self, receipt: Receipt) -> bytes:
        return receipt.encode(self._salt)

    def decode_receipt(self, data: bytes) -> Receipt | None:
        return decode_receipt(data, self._salt)

    # --- messages of a check point ----------------------------------------------

    def still_kept(
        self,
        state: GroupState,
        point: CheckPoint,
        places: Sequence[int],
        size_max: int,
    ) -> tuple[Kept, list[int]]:
        """The messages at these places, and the places that retention has taken.

        Stops behind `size_max` bytes, so it may tell of the first places only; of
        one at least.
        """
        place_of = {point.offsets[i]: i for i in places}
        kept: Kept = []
        lost: list[int] = []
        for first, count in contiguous(list(place_of)):
            while count > 0:
                if size_max <= 0:
                    return kept, lost
                try:
                    found = self.queues.read(
                        state.topic_id, point.queue, first, count, size_max
                    )
                except OffsetOutOfRange as error:
                    found = []
                    gone = max(1, min(error.offset_min, first + count) - first)
                    lost.extend(place_of[first + i] for i in range(gone))
                    first += gone
                    count -= gone
                kept.extend((place_of[queued.offset], queued) for queued in found)
                size_max -= sum(len(queued.record) for queued in found)
                first += len(found)
                count -= len(found)
        return kept, lost

    def bury(
        self,
        plan: Plan,
        point: CheckPoint,
        messages: Sequence[tuple[int, QueuedRecord]],
        group: str,
        topic: str,
        reason: str,
    ) -> None:
        """Move messages to the dead letters, in the same frame as their end here."""
        if not messages:
            return
        plan.dead.extend(
            dead_letter_record(
                queued.record,
                group=group,
                topic=topic,
                queue=point.queue,
                offset=queued.offset,
                attempts=point.attempt,
                reason=reason,
            )
            for _, queued in messages
        )
        claims: list[Claim] = [(point.pop_id, [i for i, _ in messages])]
        plan.add(RecordKind.POP_ACK, AckBody(claims))

    # --- projection -----------------------------------------------------------

    def replay(self, records: Iterable[bytes]) -> list[Change]:
        """The index's changes by the durable records of SYS_GROUPS in one frame.
        The caller has written those of the frame before."""
        self.trim()
        changes: list[Change] = []
        for data in records:
            record = decode_record(data)
            state = self.state(record.group_id, record.topic_id)
            changes.extend(state.apply(record))
        return changes


def backoff_ms(policy: GroupPolicy, attempt: int) -> int:
    """How long the next attempt waits after failed attempt number `attempt`."""
    return min(policy.backoff_initial_ms << min(attempt - 1, 40), policy.backoff_max_ms)


def contiguous(offsets: Sequence[int]) -> list[tuple[int, int]]:
    """Ascending numbers as (first, count) of their unbroken stretches."""
    stretches: list[tuple[int, int]] = []
    for offset in offsets:
        if stretches and sum(stretches[-1]) == offset:
            first, count = stretches[-1]
            stretches[-1] = (first, count + 1)
        else:
            stretches.append((offset, 1))
    return stretches
