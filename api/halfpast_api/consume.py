"""Consuming through a group: pop messages, then ack, nack or extend them."""

from collections.abc import Sequence
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from halfpast_api.answer import Answer
from halfpast_api.call import Call
from halfpast_api.long_poll import LongPolls
from halfpast_api.message_view import (
    MessagesView,
    parse_receipt,
    render_receipt,
    view_messages,
)
from halfpast_api.names import check_group
from halfpast_api.problems import KINDS, Problem, Refusal, problem_of
from halfpast_api.reading import Reader
from halfpast_api.topic_directory import Settings, TopicDirectory
from halfpast_api.wanted_messages import FilterType, parse_wanted
from halfpast_core_store.broker import (
    Broker,
    GroupPolicy,
    Pop,
    Popped,
    Settle,
    SettleAction,
    SettleResult,
)

WAIT_MS_MAX: Final = 30_000
_INVISIBLE_MS_MIN: Final = 1000
_INVISIBLE_MS_MAX: Final = 43_200_000
_COUNT_MAX: Final = 1000
_RECEIPTS_MAX: Final = 10_000
_REASON_MAX: Final = 500
_DEPTH_MAX: Final = 16

Count = Annotated[int, Meta(ge=1, le=_COUNT_MAX)]
WaitMs = Annotated[int, Meta(ge=0, le=WAIT_MS_MAX)]
InvisibleMs = Annotated[int, Meta(ge=_INVISIBLE_MS_MIN, le=_INVISIBLE_MS_MAX)]
DelayMs = Annotated[int, Meta(ge=0, le=_INVISIBLE_MS_MAX)]
Reason = Annotated[str, Meta(max_length=_REASON_MAX)]
Receipts = Annotated[list[str], Meta(min_length=1, max_length=_RECEIPTS_MAX)]


class PopBody(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """What to take. `invisible_ms`: None means what the group's settings say."""

    topic: str
    max: Count = 32
    wait_ms: WaitMs = 0
    invisible_ms: InvisibleMs | None = None
    filter: str | None = None
    filter_type: FilterType = "tag"


class AckBody(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Messages that are done."""

    receipts: Receipts


class NackBody(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Messages that failed. `delay_ms`: None means the group's back-off. `reason` stays
    with the dead letter that one of them may become."""

    receipts: Receipts
    delay_ms: DelayMs | None = None
    reason: Reason = ""


class ExtendBody(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Messages that need more time, counted from now."""

    receipts: Receipts
    invisible_ms: InvisibleMs | None = None


class SettledItemView(msgspec.Struct, omit_defaults=True, gc=False):
    """What became of one receipt; `receipt` replaces it after an extend."""

    index: int
    status: int
    receipt: str = ""
    problem: Problem | None = None


class SettledView(msgspec.Struct):
    """One result per receipt, in their order."""

    results: list[SettledItemView]


class ConsumeHandlers:
    """Handlers for consumer groups at work."""

    def __init__(
        self,
        broker: Broker,
        directory: TopicDirectory,
        settings: Settings,
        polls: LongPolls,
    ) -> None:
        self._broker = broker
        self._directory = directory
        self._settings = settings
        self._polls = polls
        self._pop_reader = Reader(PopBody, _DEPTH_MAX)
        self._ack_reader = Reader(AckBody, _DEPTH_MAX)
        self._nack_reader = Reader(NackBody, _DEPTH_MAX)
        self._extend_reader = Reader(ExtendBody, _DEPTH_MAX)

    async def pop(self, call: Call) -> Answer:
        """POST /v1/groups/{group}:pop"""
        group = self._group(call)
        body = call.read(self._pop_reader)
        wanted = parse_wanted(body.filter, body.filter_type)
        call.check_topic(body.topic)
        await self._directory.to_read(body.topic)
        settings = self._settings.group_settings(group)
        invisible_ms = body.invisible_ms
        request = Pop(
            group=group,
            topic=body.topic,
            count=body.max,
            wait_ms=0 if self._polls.stopping else body.wait_ms,
            invisible_ms=settings.invisible_ms
            if invisible_ms is None
            else invisible_ms,
            tags=wanted.tags,
            policy=self._policy(group),
            filter=wanted.expression,
        )
        work = self._broker.pop(request)
        if request.wait_ms:
            popped = await self._polls.wait(call.connection, work) or Popped([])
        else:
            popped = await work
        form = call.answer_form
        return call.answer(
            200,
            MessagesView(
                view_messages(popped.messages, body.topic, form, call.access.namespace)
            ),
        )

    async def ack(self, call: Call) -> Answer:
        """POST /v1/groups/{group}:ack"""
        body = call.read(self._ack_reader)
        return await self._settle(call, SettleAction.ACK, body.receipts, None)

    async def nack(self, call: Call) -> Answer:
        """POST /v1/groups/{group}:nack"""
        body = call.read(self._nack_reader)
        return await self._settle(
            call, SettleAction.NACK, body.receipts, body.delay_ms, body.reason
        )

    async def extend(self, call: Call) -> Answer:
        """POST /v1/groups/{group}:extend"""
        body = call.read(self._extend_reader)
        more_ms = body.invisible_ms
        if more_ms is None:
            more_ms = self._settings.group_settings(self._group(call)).invisible_ms
        return await self._settle(call, SettleAction.EXTEND, body.receipts, more_ms)

    async def _settle(
        self,
        call: Call,
        action: SettleAction,
        texts: Sequence[str],
        delay_ms: int | None,
        reason: str = "",
    ) -> Answer:
        group = self._group(call)
        parsed = [parse_receipt(text) for text in texts]
        receipts = [receipt for receipt in parsed if receipt is not None]
        results: list[SettleResult] = []
        if receipts:
            request = Settle(
                group=group,
                action=action,
                receipts=receipts,
                delay_ms=delay_ms,
                policy=self._policy(group),
                reason=reason,
            )
            results = (await self._broker.settle(request)).results
        settled = iter(results)
        views = [
            _view(index, _MALFORMED if receipt is None else next(settled))
            for index, receipt in enumerate(parsed)
        ]
        return call.answer(200, SettledView(views))

    def _group(self, call: Call) -> str:
        group = call.parameters[0]
        check_group(group)
        return group

    def _policy(self, group: str) -> GroupPolicy:
        settings = self._settings.group_settings(group)
        return GroupPolicy(
            attempts_max=settings.max_attempts,
            backoff_initial_ms=settings.backoff_initial_ms,
            backoff_max_ms=settings.backoff_max_ms,
            ordered=settings.ordered,
        )


_MALFORMED: Final = SettleResult("malformed_receipt")
_DETAILS: Final = {
    "malformed_receipt": "this is no receipt; give back what a pop has answered",
    "receipt_of_another_group": "another group popped this message; settle it there",
    "receipt_expired": "the message was settled already, or its time ran out and it is "
    "offered again; drop this one",
}


def _view(index: int, result: SettleResult) -> SettledItemView:
    if not result.code:
        receipt = render_receipt(result.receipt) if result.receipt else ""
        return SettledItemView(index, 200, receipt)
    code = result.code if result.code in KINDS else "internal"
    detail = _DETAILS.get(code, f"the message could not be settled: {result.code}")
    problem = problem_of(Refusal(code, detail))
    return SettledItemView(index, problem.status, problem=problem)
