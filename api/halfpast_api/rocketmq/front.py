"""The calls of RocketMQ's clients, by name.

Whatever goes wrong becomes a status in the answer; a call that ends with an error of
gRPC itself is one that never got so far.
"""

import asyncio
import time
from collections.abc import AsyncIterable, Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

import structlog

from halfpast_api.load.shedder import Shedder
from halfpast_api.load.urgency import Urgency
from halfpast_api.problems import as_refusal
from halfpast_api.rocketmq import protocol as wire
from halfpast_api.rocketmq.caller import Caller, Callers, Metadata, first_values
from halfpast_api.rocketmq.clients import Clients
from halfpast_api.rocketmq.counts import Counts
from halfpast_api.rocketmq.ending import Ending
from halfpast_api.rocketmq.recalling import Recalling
from halfpast_api.rocketmq.receiving import Receiving
from halfpast_api.rocketmq.renewals import Renewals
from halfpast_api.rocketmq.routes_reply import RoutesReply
from halfpast_api.rocketmq.sending import Sending
from halfpast_api.rocketmq.settling import Settling
from halfpast_api.rocketmq.statuses import OK, CallRefused, known_status, status_of
from halfpast_api.rocketmq.telemetry import Telemetry

if TYPE_CHECKING:  # brings OpenTelemetry, which need not be there
    from halfpast_api.rocketmq.traced import TracedCalls

_LINGER_S: Final = 2.0
_NOT_SERVED: Final = wire.Status(
    code=wire.Code.UNSUPPORTED,
    message="queues are not read by offset here: receive messages, or read a queue "
    "over HTTP with GET /v1/topics/{topic}/queues/{queue}/messages",
)


class Context(Protocol):
    """What is asked of a `grpc.aio.ServicerContext`."""

    def invocation_metadata(self) -> Metadata | None: ...

    def time_remaining(self) -> float | None: ...

    async def write(self, message: Any) -> None: ...


Handle = Callable[[Caller, Any], Awaitable[Any]]
Behaviour = Callable[[Any, Any], Awaitable[Any]]
"""A request, or those of a stream, and a context."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What answers the calls."""

    callers: Callers
    clients: Clients
    routes: RoutesReply
    sending: Sending
    receiving: Receiving
    settling: Settling
    recalling: Recalling
    ending: Ending
    telemetry: Telemetry
    renewals: Renewals
    counts: Counts
    shedder: Shedder
    traced: "TracedCalls | None" = None


class Front:
    """Answers calls."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._callers = parts.callers
        self._counts = parts.counts
        self._log = structlog.get_logger("halfpast.grpc")

    def behaviours(self) -> Mapping[str, Behaviour]:
        """What is called for each method of the service."""
        parts = self._parts
        settling, entry = parts.settling, Urgency.ENTRY
        plain, ends, free = Urgency.ORDINARY, Urgency.SETTLING, Urgency.FREE
        make = self._unary
        found = {
            "QueryRoute": make(plain, parts.routes.route, wire.QueryRouteResponse),
            "QueryAssignment": make(
                plain, parts.routes.assignment, wire.QueryAssignmentResponse
            ),
            "SendMessage": make(entry, self._send, wire.SendMessageResponse),
            "AckMessage": make(ends, settling.ack, wire.AckMessageResponse),
            "ChangeInvisibleDuration": make(
                ends, settling.change, wire.ChangeInvisibleDurationResponse
            ),
            "ForwardMessageToDeadLetterQueue": make(
                ends, self._forward, wire.ForwardMessageToDeadLetterQueueResponse
            ),
            "EndTransaction": make(ends, self._end, wire.EndTransactionResponse),
            "RecallMessage": make(
                ends, parts.recalling.recall, wire.RecallMessageResponse
            ),
            "Heartbeat": make(free, self._heartbeat, wire.HeartbeatResponse),
            "NotifyClientTermination": make(
                free, self._terminate, wire.NotifyClientTerminationResponse
            ),
            "UpdateOffset": make(plain, _refuse, wire.UpdateOffsetResponse),
            "GetOffset": make(plain, _refuse, wire.GetOffsetResponse),
            "QueryOffset": make(plain, _refuse, wire.QueryOffsetResponse),
        }
        found["ReceiveMessage"] = self._receive
        found["PullMessage"] = self._pull
        found["Telemetry"] = self._stream
        return found

    def _unary(
        self, urgency: Urgency, handle: Handle, answer_type: type[Any]
    ) -> Behaviour:
        counts, traced = self._counts, self._parts.traced
        name = answer_type.DESCRIPTOR.name.removesuffix("Response")

        async def behave(request: Any, context: Context) -> Any:
            started_s = time.perf_counter()
            metadata = first_values(context.invocation_metadata())
            caller: Caller | None = None
            try:
                check_readable(request)
                caller = self._callers.of(metadata, urgency, request.ByteSize())
                work = partial(handle, caller, request)
                if traced is None:
                    answer = await work()
                else:
                    answer = await traced(name, metadata, request, work)
            except Exception as error:
                status = self._refused(name, metadata, error)
                _as_known_outside(status, caller, request)
                answer = answer_type(status=status)
            seconds = time.perf_counter() - started_s
            counts.observe(name, answer.status.code, seconds)
            return answer

        return behave

    async def _send(
        self, caller: Caller, request: wire.SendMessageRequest
    ) -> wire.SendMessageResponse:
        """What counts as work under way."""
        window = self._parts.shedder.window
        units = window.enter(request.ByteSize())
        began_s = time.perf_counter()
        try:
            return await self._parts.sending.send(caller, request)
        finally:
            window.leave(units, time.perf_counter() - began_s)

    async def _forward(
        self, caller: Caller, request: wire.ForwardMessageToDeadLetterQueueRequest
    ) -> wire.ForwardMessageToDeadLetterQueueResponse:
        status = await self._parts.settling.forward(caller, request)
        return wire.ForwardMessageToDeadLetterQueueResponse(status=status)

    async def _end(
        self, caller: Caller, request: wire.EndTransactionRequest
    ) -> wire.EndTransactionResponse:
        await self._parts.ending.end(caller, request)
        return wire.EndTransactionResponse(status=OK)

    async def _heartbeat(
        self, caller: Caller, request: wire.HeartbeatRequest
    ) -> wire.HeartbeatResponse:
        within = self._callers.within(caller, request.group)
        self._parts.telemetry.heartbeat(within, request)
        return wire.HeartbeatResponse(status=OK)

    async def _terminate(
        self, caller: Caller, request: wire.NotifyClientTerminationRequest
    ) -> wire.NotifyClientTerminationResponse:
        """The client ends: what it has not settled goes to others."""
        within = self._callers.within(caller, request.group)
        self._parts.clients.leave(within.key)
        try:
            await self._parts.renewals.leave(within.key)
        except Exception as error:  # offered again a little later, then
            if as_refusal(error) is None:
                raise
        return wire.NotifyClientTerminationResponse(status=OK)

    async def _receive(
        self, request: wire.ReceiveMessageRequest, context: Context
    ) -> None:
        name = "ReceiveMessage"
        metadata = first_values(context.invocation_metadata())
        code = int(wire.Code.OK)
        caller: Caller | None = None
        try:
            check_readable(request)
            caller = self._callers.of(metadata, Urgency.ORDINARY, request.ByteSize())
            left_s = context.time_remaining()
            receiving = self._parts.receiving
            await receiving.receive(caller, request, left_s, context.write)
        except Exception as error:
            status = self._refused(name, metadata, error)
            _as_known_outside(status, caller, request)
            code = status.code
            # A stream without any status looks like a mistake of ours to clients.
            with suppress(Exception):  # unless nobody is there any more
                await context.write(wire.ReceiveMessageResponse(status=status))
        self._counts.observe(name, code, 0.0)

    async def _pull(self, request: wire.PullMessageRequest, context: Context) -> None:
        await context.write(wire.PullMessageResponse(status=_NOT_SERVED))
        self._counts.observe("PullMessage", wire.Code.UNSUPPORTED, 0.0)

    async def _stream(
        self, sent: AsyncIterable[wire.TelemetryCommand | None], context: Context
    ) -> None:
        """It ends without an error of gRPC, which would end some clients' process."""
        metadata = first_values(context.invocation_metadata())
        code = int(wire.Code.OK)
        try:
            caller = self._callers.of(metadata, Urgency.FREE, 0)
            await self._parts.telemetry.serve(caller, sent, context.write)
        except Exception as error:
            status = self._refused("Telemetry", metadata, error)
            code = status.code
            with suppress(Exception):  # nobody may be there any more
                await context.write(wire.TelemetryCommand(status=status))
                # A client speaks first. One that cannot, since its stream is over
                # already, does not look at what it was told.
                async with asyncio.timeout(_LINGER_S):
                    await anext(aiter(sent), None)
        self._counts.observe("Telemetry", code, 0.0)

    def _refused(
        self, method: str, metadata: Mapping[str, str], error: Exception
    ) -> wire.Status:
        status = known_status(error)
        if status is not None:
            return status
        request_id = metadata.get("x-mq-request-id", "")[:255]
        self._log.error(
            "call_failed",
            method=method,
            request_id=request_id,
            client_id=metadata.get("x-mq-client-id", "")[:255],
            exc_info=error,
        )
        return status_of(error, request_id)


def check_readable(request: Any) -> None:
    """Raise CallRefused for bytes that are no message."""
    if request is None:
        raise CallRefused(
            wire.Code.BAD_REQUEST,
            "these bytes are no message of RocketMQ's protocol (apache.rocketmq.v2)",
        )


def _as_known_outside(status: wire.Status, caller: Caller | None, request: Any) -> None:
    """With the names that the caller knows: services tell those of the store, which
    begin with the namespace."""
    named = {caller.access.namespace} if caller is not None else set[str]()
    for field, value in request.ListFields() if request is not None else ():
        if field.message_type is wire.Resource.DESCRIPTOR:
            named.add(value.resource_namespace)
    for namespace in named:
        if namespace:
            status.message = status.message.replace(f"{namespace}%", "")


async def _refuse(caller: Caller, request: Any) -> Any:
    raise CallRefused(_NOT_SERVED.code, _NOT_SERVED.message)
