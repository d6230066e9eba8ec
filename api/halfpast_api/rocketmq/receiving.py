"""ReceiveMessage: a pop, with a long poll, told message by message."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final

import structlog

from halfpast_api.access.verbs import Verb
from halfpast_api.message_view import render_receipt
from halfpast_api.metadata.settings import INVISIBLE_MS_MAX, INVISIBLE_MS_MIN
from halfpast_api.problems import Refusal, as_refusal
from halfpast_api.rocketmq.caller import Caller, Callers, ClientKey
from halfpast_api.rocketmq.clients import Clients
from halfpast_api.rocketmq.config import GrpcConfig
from halfpast_api.rocketmq.message_out import received_message
from halfpast_api.rocketmq.protocol import (
    Code,
    FilterExpression,
    FilterType,
    ReceiveMessageRequest,
    ReceiveMessageResponse,
    Status,
)
from halfpast_api.rocketmq.renewals import Renewals
from halfpast_api.rocketmq.resources import group_name, topic_name
from halfpast_api.rocketmq.rooms import Room, policy_of
from halfpast_api.rocketmq.statuses import OK, CallRefused
from halfpast_api.rocketmq.waiting import Waiting
from halfpast_api.wanted_messages import Wanted, parse_wanted
from halfpast_core_store.broker import Delivered, Pop, Popped, Settle, SettleAction

if TYPE_CHECKING:
    from google.protobuf.duration_pb2 import Duration

_MARGIN_MS: Final = 500
_ATTEMPTS_MAX: Final = 2_000

Write = Callable[[ReceiveMessageResponse], Awaitable[None]]
Attempt = tuple[ClientKey, str, str]
"""Who has received for which group from which topic."""

NOTHING: Final = Status(
    code=Code.MESSAGE_NOT_FOUND, message="there is no message for this group now"
)


class Receiving:
    """Gives messages."""

    def __init__(
        self,
        callers: Callers,
        clients: Clients,
        renewals: Renewals,
        waiting: Waiting,
        config: GrpcConfig,
        now_ms: Callable[[], int],
    ) -> None:
        self._callers = callers
        self._clients = clients
        self._renewals = renewals
        self._waiting = waiting
        self._config = config
        self._now_ms = now_ms
        self._attempts: OrderedDict[Attempt, tuple[str, list[bytes]]] = OrderedDict()
        self._log = structlog.get_logger("halfpast.grpc")

    async def receive(
        self,
        caller: Caller,
        request: ReceiveMessageRequest,
        left_s: float | None,
        write: Write,
    ) -> None:
        """Answer one call, `left_s` before its client gives up. Raises CallRefused,
        Refusal, UnknownTopic, InvalidFilter, as long as nothing is written."""
        resource = request.message_queue.topic
        caller = self._callers.within(caller, resource, request.group)
        group, topic = group_name(request.group), topic_name(resource)
        caller.check(Verb.CONSUME, topic)
        room = caller.room
        await room.space.directory.to_read(topic)
        self._clients.seen(caller)
        attempt = (caller.key, group, topic)
        await self._give_back(room, group, attempt, request.attempt_id)
        pop = self._pop(room, group, topic, request, left_s)
        popped = await self._popped(room, pop)
        # Released if the client is told of none of them, or not of all.
        untold = [one.receipt for one in popped.messages]
        try:
            await self._tell(room, topic, pop, popped.messages, untold, write)
        except BaseException:
            self._waiting.later(self._release(room, group, untold))
            raise
        receipts = [one.receipt for one in popped.messages]
        if request.attempt_id and receipts:
            self._attempts[attempt] = request.attempt_id, receipts
            if len(self._attempts) > _ATTEMPTS_MAX:
                self._attempts.popitem(last=False)
        if request.auto_renew and caller.client_id:
            handles = [(render_receipt(it), it) for it in receipts]
            self._renewals.keep(
                caller.key, room.namespace, group, handles, pop.invisible_ms
            )

    async def _popped(self, room: Room, pop: Pop) -> Popped:
        """What there is by now or comes in time. What comes just when the client hangs
        up is given back."""
        work = asyncio.ensure_future(room.space.broker.pop(pop))

        def give_back(done: asyncio.Future[Popped]) -> None:
            if not done.cancelled() and done.exception() is None:
                receipts = [one.receipt for one in done.result().messages]
                self._waiting.later(self._release(room, pop.group, receipts))

        try:
            return await self._waiting.wait(work) or Popped([])
        except asyncio.CancelledError:
            work.add_done_callback(give_back)
            raise

    async def _tell(
        self,
        room: Room,
        topic: str,
        pop: Pop,
        messages: Sequence[Delivered],
        untold: list[bytes],
        write: Write,
    ) -> None:
        """A status comes with every answer; without one clients suspect a mistake."""
        status = OK if messages else NOTHING
        await write(ReceiveMessageResponse(status=status))
        for one in messages:
            message = received_message(one, room.namespace, topic, pop.invisible_ms)
            await write(ReceiveMessageResponse(message=message))
            untold.remove(one.receipt)
        now_ms = self._now_ms()
        response = ReceiveMessageResponse()
        response.delivery_timestamp.seconds = now_ms // 1000
        response.delivery_timestamp.nanos = now_ms % 1000 * 1_000_000
        await write(response)

    def _pop(
        self,
        room: Room,
        group: str,
        topic: str,
        request: ReceiveMessageRequest,
        left_s: float | None,
    ) -> Pop:
        settings = room.space.settings.group_settings(group)
        invisible_ms = settings.invisible_ms
        # A push consumer names none: its messages are kept hidden while it lives.
        if request.HasField("invisible_duration"):
            invisible_ms = duration_ms(request.invisible_duration)
            _check_invisible(invisible_ms)
        wanted = _wanted(request.filter_expression)
        asked, config = request.batch_size, self._config
        return Pop(
            group=group,
            topic=topic,
            count=min(asked if asked > 0 else config.receive_batch, config.receive_max),
            wait_ms=self._wait_ms(request, left_s),
            invisible_ms=invisible_ms,
            tags=wanted.tags,
            filter=wanted.expression,
            policy=policy_of(settings),
        )

    def _wait_ms(self, request: ReceiveMessageRequest, left_s: float | None) -> int:
        """Shorter than the client waits: an answer that comes too late brings messages
        that nobody has."""
        wait_ms = self._config.poll_ms
        if request.HasField("long_polling_timeout"):
            wait_ms = duration_ms(request.long_polling_timeout)
            if wait_ms < 0:
                raise CallRefused(
                    Code.ILLEGAL_POLLING_TIME,
                    "the time to wait for messages is negative; give 0 or more",
                )
        wait_ms = min(wait_ms, self._config.poll_ms_max)
        if left_s is not None:
            wait_ms = min(wait_ms, int(left_s * 1000) - _MARGIN_MS)
        return max(0, wait_ms)

    async def _give_back(
        self, room: Room, group: str, attempt: Attempt, attempt_id: str
    ) -> None:
        """A receive that is repeated under the same id has got nothing the first time:
        what was meant for it is offered again, now, before anything behind it."""
        known = self._attempts.pop(attempt, None)
        if known is None or not attempt_id or known[0] != attempt_id:
            return
        for receipt in known[1]:
            self._renewals.settled(room.namespace, render_receipt(receipt))
        await self._release(room, group, known[1])

    async def _release(self, room: Room, group: str, receipts: list[bytes]) -> None:
        """Nobody has seen these: offer them again at once. If that fails they are
        offered again when their time is over."""
        if not receipts:
            return
        request = Settle(group=group, action=SettleAction.RELEASE, receipts=receipts)
        try:
            await room.space.broker.settle(request)
        except Exception as error:
            if as_refusal(error) is None:
                self._log.error("messages_not_released", group=group, exc_info=error)


def duration_ms(duration: "Duration") -> int:
    """In whole milliseconds, rounded up."""
    return duration.seconds * 1000 - (-duration.nanos // 1_000_000)


def _check_invisible(invisible_ms: int) -> None:
    if not INVISIBLE_MS_MIN <= invisible_ms <= INVISIBLE_MS_MAX:
        raise CallRefused(
            Code.ILLEGAL_INVISIBLE_TIME,
            f"messages would be hidden for {invisible_ms} ms, and it must be "
            f"{INVISIBLE_MS_MIN} to {INVISIBLE_MS_MAX}",
        )


def _wanted(expression: FilterExpression) -> Wanted:
    """Tags, or an SQL92 expression. Raises CallRefused, InvalidFilter."""
    is_sql = expression.type == FilterType.SQL
    try:
        return parse_wanted(expression.expression, "sql92" if is_sql else "tag")
    except Refusal as refusal:
        raise CallRefused(Code.ILLEGAL_FILTER_EXPRESSION, refusal.detail) from None
