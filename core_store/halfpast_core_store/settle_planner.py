"""What a consumer's word changes: acknowledge, refuse, or ask for more time."""

from collections.abc import Sequence

from .broker import Settle, SettleAction, SettleResult
from .check_point import CheckPoint
from .dead_letter import REASONS
from .group_plan import Plan
from .group_state import AckBody, PopBody, Stretch
from .groups import Groups, backoff_ms, contiguous
from .receipt import Receipt
from .record import RecordKind

REASON_CHARS_MAX = 500


class SettlePlanner:
    """Plans one settlement for one topic of the group."""

    def __init__(
        self, groups: Groups, plan: Plan, request: Settle, topic: str, now_ms: int
    ) -> None:
        self._groups = groups
        self._plan = plan
        self._request = request
        self._topic = topic
        self._now_ms = now_ms

    def settle(self, receipts: Sequence[Receipt]) -> None:
        """Fill the plan: one result per receipt, in order."""
        valid: dict[int, list[int]] = {}
        slots: dict[tuple[int, int], int] = {}
        for slot, receipt in enumerate(receipts):
            key = (receipt.pop_id, receipt.place)
            usable = key not in slots and self._usable(receipt)
            self._plan.results.append(SettleResult("" if usable else "receipt_expired"))
            if usable:
                valid.setdefault(receipt.pop_id, []).append(receipt.place)
                slots[key] = slot
        if self._request.action == SettleAction.ACK:
            if valid:
                settled = self._settled(valid)
                body = AckBody(list(valid.items()), settled)
                self._plan.add(RecordKind.POP_ACK, body)
            return
        for pop_id, places in valid.items():
            point = self._plan.state.check_points[pop_id]
            if self._request.action == SettleAction.NACK:
                self._nack(point, places)
                continue
            if self._request.action == SettleAction.RELEASE:
                visible_ms = self._now_ms + (self._request.delay_ms or 0)
                kind = RecordKind.POP_HIDE
                self._hide(point, places, visible_ms, kind, point.attempt - 1)
                continue
            for place, fresh in zip(places, self._extend(point, places), strict=True):
                self._plan.results[slots[pop_id, place]].receipt = fresh

    def _settled(self, valid: dict[int, list[int]]) -> list[Stretch]:
        stretches: list[Stretch] = []
        for pop_id, places in valid.items():
            point = self._plan.state.check_points[pop_id]
            offsets = sorted(point.offsets[i] for i in places)
            stretches += [(point.queue, *run) for run in contiguous(offsets)]
        return stretches

    def _usable(self, receipt: Receipt) -> bool:
        point = self._plan.state.check_points.get(receipt.pop_id)
        return point is not None and not point.hidden and point.is_open(receipt.place)

    def _extend(self, point: CheckPoint, places: list[int]) -> list[bytes]:
        assert self._request.delay_ms is not None
        visible_ms = self._now_ms + self._request.delay_ms
        pop_id = self._hide(point, places, visible_ms, RecordKind.POP)
        state = self._plan.state
        return [
            self._groups.encode_receipt(
                Receipt(state.group_id, state.topic_id, pop_id, i)
            )
            for i in range(len(places))
        ]

    def _nack(self, point: CheckPoint, places: list[int]) -> None:
        request = self._request
        if point.attempt < request.policy.attempts_max:
            delay_ms = request.delay_ms
            if delay_ms is None:
                delay_ms = backoff_ms(request.policy, point.attempt)
            self._hide(point, places, self._now_ms + delay_ms, RecordKind.POP_HIDE)
            return
        # What is too much for one frame is buried by the next pop instead.
        plan, groups = self._plan, self._groups
        room = groups.dead_size_max if plan.buries and not plan.dead else 0
        kept, lost = groups.still_kept(plan.state, point, places, room)
        reason = request.reason[:REASON_CHARS_MAX] or REASONS["nack"]
        groups.bury(plan, point, kept, request.group, self._topic, reason)
        if lost:
            plan.add(RecordKind.POP_ACK, AckBody([(point.pop_id, lost)]))
        told = {place for place, _ in kept}.union(lost)
        rest = [place for place in places if place not in told]
        if rest:
            self._hide(point, rest, self._now_ms, RecordKind.POP_HIDE)

    def _hide(
        self,
        point: CheckPoint,
        places: list[int],
        visible_ms: int,
        kind: RecordKind,
        attempt: int | None = None,
    ) -> int:
        """A new check point for some of the messages; gives its id."""
        pop_id = self._groups.next_pop_id()
        offsets = [point.offsets[i] for i in places]
        self._plan.add(
            kind,
            PopBody(
                pop_id,
                point.queue,
                point.attempt if attempt is None else attempt,
                visible_ms,
                offsets,
                -1,
                [(point.pop_id, places)],
                [point.lines[i] for i in places] if point.lines else [],
            ),
        )
        return pop_id
