"""What consumers say of messages: done, not yet, or given up."""

from collections.abc import Sequence
from typing import Final

from halfpast_api.access.verbs import Verb
from halfpast_api.message_view import render_receipt
from halfpast_api.metadata.settings import INVISIBLE_MS_MAX
from halfpast_api.rocketmq.caller import Caller, Callers
from halfpast_api.rocketmq.clients import Clients
from halfpast_api.rocketmq.protocol import (
    AckMessageRequest,
    AckMessageResponse,
    AckMessageResultEntry,
    ChangeInvisibleDurationRequest,
    ChangeInvisibleDurationResponse,
    ClientType,
    Code,
    ForwardMessageToDeadLetterQueueRequest,
    Resource,
    Status,
)
from halfpast_api.rocketmq.receiving import duration_ms
from halfpast_api.rocketmq.renewals import Renewals
from halfpast_api.rocketmq.resources import group_name, topic_name
from halfpast_api.rocketmq.statuses import OK, CallRefused
from halfpast_core_store.broker import (
    GroupPolicy,
    Settle,
    SettleAction,
    SettleResult,
)

_ENTRIES_MAX: Final = 10_000
_MALFORMED: Final = SettleResult("malformed_receipt")
_DETAILS: Final = {
    "malformed_receipt": "this is no receipt handle; give the one that came with the "
    "message",
    "receipt_of_another_group": "another group has received this message; settle it "
    "there",
    "receipt_expired": "the message was settled already, or its time ran out and it is "
    "offered again; drop this one",
}
_ALL_SORTS: Final = Status(
    code=Code.MULTIPLE_RESULTS, message="some of these were settled; look at each"
)


class Settling:
    """Settles messages."""

    def __init__(self, callers: Callers, clients: Clients, renewals: Renewals) -> None:
        self._callers = callers
        self._clients = clients
        self._renewals = renewals

    async def ack(
        self, caller: Caller, request: AckMessageRequest
    ) -> AckMessageResponse:
        """Each by itself. The status of the whole is what all have in common, since
        clients look no further. Raises CallRefused, Refusal."""
        caller, group = self._consumer(caller, request.group, request.topic)
        entries = request.entries
        if not 0 < len(entries) <= _ENTRIES_MAX:
            raise CallRefused(
                Code.BAD_REQUEST,
                f"these are {len(entries)} receipt handles; give 1 to {_ENTRIES_MAX}",
            )
        handles = [entry.receipt_handle for entry in entries]
        results = await self._settle(caller, group, handles, SettleAction.ACK)
        answer = AckMessageResponse()
        codes: set[int] = set()
        for entry, result in zip(entries, results, strict=True):
            status = _status(result)
            codes.add(status.code)
            answer.entries.append(
                AckMessageResultEntry(
                    message_id=entry.message_id,
                    receipt_handle=entry.receipt_handle,
                    status=status,
                )
            )
        first = answer.entries[0].status
        answer.status.CopyFrom(first if len(codes) == 1 else _ALL_SORTS)
        return answer

    async def change(
        self, caller: Caller, request: ChangeInvisibleDurationRequest
    ) -> ChangeInvisibleDurationResponse:
        """A simple consumer wants more time, or less; it may still acknowledge, with
        the new handle. A push consumer has failed, which counts as a refusal.

        Raises CallRefused, Refusal.
        """
        caller, group = self._consumer(caller, request.group, request.topic)
        wanted_ms = duration_ms(request.invisible_duration)
        if not 0 <= wanted_ms <= INVISIBLE_MS_MAX:
            raise CallRefused(
                Code.ILLEGAL_INVISIBLE_TIME,
                f"the message would be hidden for {wanted_ms} ms, and it must be 0 to "
                f"{INVISIBLE_MS_MAX}",
            )
        handle = request.receipt_handle
        if self._is_push(caller, handle):
            settings = caller.room.space.settings.group_settings(group)
            # The client of Node takes the seconds of its policy for milliseconds; less
            # than the group's own back-off is never meant.
            delay_ms = wanted_ms if wanted_ms >= settings.backoff_initial_ms else None
            (result,) = await self._settle(
                caller, group, [handle], SettleAction.NACK, delay_ms
            )
            return ChangeInvisibleDurationResponse(
                status=_status(result), receipt_handle=handle
            )
        (result,) = await self._settle(
            caller, group, [handle], SettleAction.EXTEND, wanted_ms
        )
        return ChangeInvisibleDurationResponse(
            status=_status(result),
            receipt_handle=render_receipt(result.receipt) if result.receipt else "",
        )

    async def forward(
        self, caller: Caller, request: ForwardMessageToDeadLetterQueueRequest
    ) -> Status:
        """The consumer gives the message up: it becomes a dead letter now. Raises
        CallRefused, Refusal."""
        caller, group = self._consumer(caller, request.group, request.topic)
        policy = caller.room.policy(group)
        last = GroupPolicy(
            attempts_max=1,
            backoff_initial_ms=policy.backoff_initial_ms,
            backoff_max_ms=policy.backoff_max_ms,
            ordered=policy.ordered,
        )
        attempts = request.delivery_attempt
        (result,) = await self._settle(
            caller,
            group,
            [request.receipt_handle],
            SettleAction.NACK,
            policy=last,
            reason=f"given up by its consumer after {attempts} attempts"
            if attempts > 0
            else "given up by its consumer",
        )
        return _status(result)

    def _consumer(
        self, caller: Caller, group: Resource, topic: Resource
    ) -> tuple[Caller, str]:
        caller = self._callers.within(caller, topic, group)
        name = group_name(group)
        caller.check(Verb.CONSUME, topic_name(topic))
        self._clients.seen(caller)
        return caller, name

    def _is_push(self, caller: Caller, handle: str) -> bool:
        if self._renewals.is_kept(caller.room.namespace, handle):
            return True
        client = self._clients.find(caller.key)
        return client is not None and client.kind == ClientType.PUSH_CONSUMER

    async def _settle(
        self,
        caller: Caller,
        group: str,
        handles: Sequence[str],
        action: SettleAction,
        delay_ms: int | None = None,
        policy: GroupPolicy | None = None,
        reason: str = "",
    ) -> list[SettleResult]:
        """One result for each handle, in their order."""
        namespace, renewals = caller.room.namespace, self._renewals
        known = [await renewals.receipt_of(namespace, it) for it in handles]
        receipts = [receipt for receipt in known if receipt is not None]
        done = False
        results: Sequence[SettleResult] = ()
        try:
            if receipts:
                request = Settle(
                    group=group,
                    action=action,
                    receipts=receipts,
                    delay_ms=delay_ms,
                    policy=policy or caller.room.policy(group),
                    reason=reason,
                )
                settled = await caller.room.space.broker.settle(request)
                results = settled.results
            done = True
        finally:
            for handle in handles:
                if done:
                    renewals.settled(namespace, handle)
                else:
                    renewals.unsettled(namespace, handle)
        answers = iter(results)
        return [_MALFORMED if it is None else next(answers) for it in known]


def _status(result: SettleResult) -> Status:
    if not result.code:
        return OK
    detail = _DETAILS.get(result.code)
    if detail is None:
        return Status(
            code=Code.INTERNAL_ERROR,
            message=f"the message could not be settled: {result.code}",
        )
    return Status(code=Code.INVALID_RECEIPT_HANDLE, message=detail)
