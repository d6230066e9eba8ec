"""The door for consumers: pop, settle, offsets. Synchronous, like the store.

Each call plans against the states in memory and submits what makes the plan
durable. `done` is called with the plan when it is, or with the error.
"""

from collections.abc import Callable, Sequence

from .broker import (
    Append,
    Appended,
    CommitOffsets,
    Lane,
    Pop,
    Run,
    Settle,
    SettleAction,
    SettleResult,
    TopicInfo,
)
from .errors import OffsetOutOfRange, StoreFull, UnknownQueue, UnknownTopic
from .group_plan import Plan
from .group_standing import DescribeGroup, GroupDescription, GroupQueue
from .group_state import AckBody, GroupState, OffsetsBody
from .message_filter import message_filter
from .ordered_planner import pop_planner
from .receipt import Receipt
from .record import RecordKind, decode_record
from .revival import Revive
from .revive_planner import GAP_MAX, NOT_DEAD, POINT_SIZE, RevivePlanner
from .settle_planner import SettlePlanner
from .store import Store
from .topics import SYS_GROUPS, dead_letter_topic

PLAN_SIZE_MAX = 10 * 1024 * 1024  # dead letters are most of it
PLAN_SIZE = 128 * 1024  # without them
PLAN_SIZE_EACH = 192  # and for every message or receipt

PlanDone = Callable[[Plan | Exception], None]
ReviveDone = Callable[[list[str] | Exception], None]
Wake = Callable[[int], None]


class Consumers:
    """Plans and submits for the groups of one store. `wake` is told the topics of
    which a group may now get something, although nothing has arrived."""

    def __init__(self, store: Store, wake: Wake | None = None) -> None:
        self._store = store
        self._wake = wake
        self._drafted: dict[str, int] = {}

    def topic(self, name: str) -> TopicInfo:
        """The topic. Raises UnknownTopic."""
        info = self._store.registry.topic(name)
        if info is None:
            raise UnknownTopic(name)
        return info

    def begin(
        self, group: str, topic: TopicInfo, now_ms: int, count: int, buries: bool
    ) -> Plan:
        """An empty plan for `count` messages, having made sure that it can be
        submitted. Where the disk is too full for dead letters the rest goes on.

        A group that is not known yet is created by the plan. Raises Overloaded
        and StoreFull, before anything has changed.
        """
        store = self._store
        store.groups.trim()
        quarter = store.log.frame_size_max // 4
        small = min(PLAN_SIZE + count * PLAN_SIZE_EACH, quarter)
        try:
            store.admit(Lane.CONSUME, min(PLAN_SIZE_MAX, quarter) if buries else small)
        except StoreFull:
            if not buries:
                raise
            buries = False
            store.admit(Lane.CONSUME, small)
        number = store.registry.group(group)
        records: list[bytes] = []
        if number is None:
            number, record = store.registry.draft_group(group, now_ms)
            records.append(record)
        plan = Plan(store.groups.state(number, topic.id), buries)
        plan.registry.extend(records)
        return plan

    def pop(self, request: Pop, now_ms: int, done: PlanDone) -> int | None:
        """Take messages. Gives None if some were taken (then `done` is called), or
        else when to ask again: when the next hidden one comes back, at once if there
        is more to look through, 2**63 if nothing is hidden. Raises InvalidFilter."""
        topic = self.topic(request.topic)
        matches = message_filter(request.tags, request.filter)
        plan = self.begin(request.group, topic, now_ms, request.count, True)
        planner = pop_planner(self._store.groups, plan, request, matches, now_ms)
        try:
            planner.take(topic.queue_count)
        except Exception:
            self._abandon(plan, request.group, now_ms)
            raise
        if plan.delivered:
            self._submit(plan, request.group, done, now_ms)
            return None
        if plan.runs(0):
            self._submit(plan, request.group, ignore, now_ms)
        if planner.cut:
            return now_ms
        next_ms = plan.state.next_offer_ms()
        return 2**63 if next_ms is None else next_ms

    def settle(self, request: Settle, now_ms: int, done: PlanDone) -> None:
        """Apply a consumer's word. The plan's results are in order of receipts."""
        receipts = [self._store.groups.decode_receipt(r) for r in request.receipts]
        number = self._store.registry.group(request.group)
        results: list[SettleResult] = []
        by_topic: dict[int, list[int]] = {}
        for slot, receipt in enumerate(receipts):
            if receipt is None:
                results.append(SettleResult("malformed_receipt"))
            elif receipt.group_id != number:
                results.append(SettleResult("receipt_of_another_group"))
            else:
                results.append(SettleResult("receipt_expired"))
                by_topic.setdefault(receipt.topic_id, []).append(slot)
        collector = SettleCollector(results, len(by_topic), done)
        if not by_topic:
            collector.finish()
        for topic_id, slots in by_topic.items():
            chosen = [r for r in (receipts[slot] for slot in slots) if r is not None]
            self._settle_topic(request, topic_id, chosen, slots, now_ms, collector)

    def _settle_topic(
        self,
        request: Settle,
        topic_id: int,
        receipts: Sequence[Receipt],
        slots: Sequence[int],
        now_ms: int,
        collector: "SettleCollector",
    ) -> None:
        topic = self._store.registry.topic_by_id(topic_id)
        if topic is None:
            collector.part([], [])
            return
        buries = request.action == SettleAction.NACK
        plan = self.begin(request.group, topic, now_ms, len(receipts), buries)
        planner = SettlePlanner(self._store.groups, plan, request, topic.name, now_ms)
        try:
            planner.settle(receipts)
        except Exception:
            self._abandon(plan, request.group, now_ms)
            raise

        def finished(answer: Plan | Exception) -> None:
            if isinstance(answer, Exception):
                collector.fail(answer)
                return
            self._store.groups.counts.settled(request.action, len(slots))
            collector.part(slots, answer.results)
            if self._wake is not None and (
                request.action != SettleAction.ACK or plan.state.may_go_on(now_ms)
            ):
                self._wake(topic_id)

        if plan.runs(0):
            self._submit(plan, request.group, finished, now_ms)
        else:
            finished(plan)

    def commit_offsets(
        self, request: CommitOffsets, now_ms: int, done: PlanDone
    ) -> None:
        """Set where a group goes on. Raises UnknownQueue, OffsetOutOfRange."""
        count = len(request.offsets)
        topic = self.topic(request.topic)
        for queue_id, offset in request.offsets.items():
            if not 0 <= queue_id < topic.queue_count:
                raise UnknownQueue(topic.name, queue_id, topic.queue_count)
            end = self._store.queues.end(topic.id, queue_id)
            if not 0 <= offset <= end:
                begin = self._store.queues.begin(topic.id, queue_id)
                raise OffsetOutOfRange(offset, begin, end)
        plan = self.begin(request.group, topic, now_ms, count, False)
        groups = self._store.groups
        before = {i: groups.cursor(plan.state, i) for i in request.offsets}
        plan.add(RecordKind.OFFSETS, OffsetsBody(request.offsets, before))
        if request.drops and plan.state.check_points:
            points = plan.state.check_points.values()
            claims = [(point.pop_id, point.open_indexes()) for point in points]
            plan.add(RecordKind.POP_ACK, AckBody(claims))
        self._submit(plan, request.group, done, now_ms)

    def describe(self, request: DescribeGroup) -> GroupDescription:
        """Where a group stands on a topic."""
        topic = self.topic(request.topic)
        queues = self._store.queues
        number = self._store.registry.group(request.group)
        state = (
            GroupState(0, topic.id)
            if number is None
            else self._store.groups.state(number, topic.id)
        )
        described = [
            GroupQueue(
                queue,
                self._store.groups.cursor(state, queue),
                queues.begin(topic.id, queue),
                queues.end(topic.id, queue),
            )
            for queue in range(topic.queue_count)
        ]
        messages = state.listed(request.after, request.limit) if request.limit else []
        book = self._store.groups.book(state) if request.ordered else None
        held_back = 0 if book is None else book.held_back_count
        return GroupDescription(
            described, state.in_flight, number is not None, messages, held_back
        )

    def revive(self, request: Revive, now_ms: int, done: ReviveDone) -> None:
        """Offer dead letters again. `done` gets the codes when that is durable."""
        name = dead_letter_topic(request.group)
        topic = self._store.registry.topic(name)
        if topic is None or self._store.registry.group(request.group) is None:
            done([NOT_DEAD] * len(request.offsets))
            return
        count = len(request.offsets) + GAP_MAX // POINT_SIZE * 4  # in receipts
        dead = self.begin(request.group, topic, now_ms, count, False)
        registry, groups = self._store.registry, self._store.groups
        planner = RevivePlanner(groups, dead, now_ms, registry.topic)
        codes = planner.settle(request.offsets, discard=request.discard)
        plans = [plan for plan in (dead, *planner.origins.values()) if plan.runs(0)]
        if not plans:
            done(codes)
            return

        def answered(answer: Appended | Exception) -> None:
            for plan in plans:
                plan.state.unapplied -= 1
            done(answer if isinstance(answer, Exception) else codes)
            if self._wake is not None:
                for plan in plans:
                    self._wake(plan.state.topic_id)

        for plan in plans:
            plan.state.unapplied += 1
        records = [record for plan in plans for record in plan.records]
        self._store.submit(
            Append([Run(SYS_GROUPS, 0, records)], Lane.CONSUME),
            answered,
            [change for plan in plans for change in plan.changes],
            admitted=True,
        )

    def _abandon(self, plan: Plan, group: str, now_ms: int) -> None:
        """Planning met an error. What was planned before it has changed the state
        in memory, so it must become durable, though nobody is told."""
        if plan.runs(0):
            self._submit(plan, group, ignore, now_ms)

    def _submit(self, plan: Plan, group: str, done: PlanDone, now_ms: int) -> None:
        dead_topic_id = self._dead_topic(plan, group, now_ms) if plan.dead else 0
        counts = self._store.groups.counts
        counts.delivered += len(plan.delivered)
        counts.dead += len(plan.dead)
        plan.state.unapplied += 1

        def answered(answer: Appended | Exception) -> None:
            plan.state.unapplied -= 1
            done(answer if isinstance(answer, Exception) else plan)

        self._store.submit(
            Append(plan.runs(dead_topic_id), Lane.CONSUME),
            answered,
            plan.changes,
            admitted=True,
        )

    def _dead_topic(self, plan: Plan, group: str, now_ms: int) -> int:
        """The id of the group's dead-letter topic; a missing one is created by the
        same frame, and remembered until that is durable."""
        name = dead_letter_topic(group)
        known = self._store.registry.topic(name)
        if known is not None:
            self._drafted.pop(name, None)
            return known.id
        if name not in self._drafted:
            record = self._store.registry.draft_topic(name, 1, now_ms)
            assert record is not None
            plan.registry.append(record)
            self._drafted[name] = decode_record(record).topic_id
        return self._drafted[name]


class SettleCollector:
    """Gathers the parts of one settlement, which may touch several topics."""

    def __init__(self, results: list[SettleResult], parts: int, done: PlanDone) -> None:
        self._results = results
        self._parts = parts
        self._done = done
        self._failed = False

    def part(self, slots: Sequence[int], results: Sequence[SettleResult]) -> None:
        """One topic's results are durable."""
        for slot, result in zip(slots, results, strict=True):
            self._results[slot] = result
        self._parts -= 1
        if self._parts == 0 and not self._failed:
            self.finish()

    def fail(self, error: Exception) -> None:
        if not self._failed:
            self._failed = True
            self._done(error)

    def finish(self) -> None:
        plan = Plan(GroupState(0, 0))
        plan.results = self._results
        self._done(plan)


def ignore(_: Plan | Exception) -> None:
    """For plans that nobody waits for."""
