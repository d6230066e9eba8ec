"""A RocketMQ client without any cleverness, for the tests: stubs, made of our protocol.

It sends what a test says and shows what comes back. What official clients make of that
is for the acceptance tests.
"""

import asyncio
import itertools
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
from tests.integration.api_server import Api, running_api

from halfpast_api.config import ApiConfig
from halfpast_api.rocketmq import protocol as wire
from halfpast_api.rocketmq.config import GrpcConfig

_numbers = itertools.count(1)


class Stub:
    """One client: a channel, and the metadata that it sends with each call."""

    def __init__(self, address: str, client_id: str = "", **metadata: str) -> None:
        self.address = address
        self.client_id = client_id or f"client-{next(_numbers)}"
        self.channel: Any = grpc.aio.insecure_channel(
            address, options=[("grpc.max_receive_message_length", -1)]
        )
        self.metadata = [
            ("x-mq-client-id", self.client_id),
            *((name.replace("_", "-"), value) for name, value in metadata.items()),
        ]

    async def close(self) -> None:
        await self.channel.close()

    async def call(self, method: str, request: Any, timeout_s: float = 10.0) -> Any:
        """One answer to one request."""
        return await self._multi(method, "unary_unary")(
            request, metadata=self.metadata, timeout=timeout_s
        )

    def stream(self, method: str, request: Any, timeout_s: float = 10.0) -> Any:
        """Many answers to one request."""
        return self._multi(method, "unary_stream")(
            request, metadata=self.metadata, timeout=timeout_s
        )

    def telemetry(self) -> Any:
        """The stream in both directions; `write`, `read`, `done_writing`, `code`."""
        return self._multi("Telemetry", "stream_stream")(metadata=self.metadata)

    async def send(self, *messages: wire.Message) -> wire.SendMessageResponse:
        answer = await self.call(
            "SendMessage", wire.SendMessageRequest(messages=messages)
        )
        assert isinstance(answer, wire.SendMessageResponse)
        return answer

    async def receive(
        self,
        group: str,
        topic: str,
        count: int = 16,
        *,
        wait_s: float = 0.0,
        invisible_s: float | None = 60.0,
        sql: str = "",
        tags: str = "*",
        auto_renew: bool = False,
        attempt_id: str = "",
        timeout_s: float = 10.0,
    ) -> "Received":
        """What one receive brings, as long as its client waits."""
        request = wire.ReceiveMessageRequest(
            group=wire.Resource(name=group),
            message_queue=wire.MessageQueue(topic=wire.Resource(name=topic), id=0),
            filter_expression=wire.FilterExpression(
                type=wire.FilterType.SQL if sql else wire.FilterType.TAG,
                expression=sql or tags,
            ),
            batch_size=count,
            auto_renew=auto_renew,
        )
        set_duration(request.long_polling_timeout, wait_s)
        if invisible_s is not None:
            set_duration(request.invisible_duration, invisible_s)
        if attempt_id:
            request.attempt_id = attempt_id
        return await self.receive_as(request, timeout_s)

    async def receive_as(
        self, request: wire.ReceiveMessageRequest, timeout_s: float = 10.0
    ) -> "Received":
        statuses: list[wire.Status] = []
        messages: list[wire.Message] = []
        times = 0
        async for response in self.stream("ReceiveMessage", request, timeout_s):
            content = response.WhichOneof("content")
            if content == "status":
                statuses.append(response.status)
            elif content == "message":
                messages.append(response.message)
            else:
                assert content == "delivery_timestamp"
                times += 1
        (status,) = statuses
        return Received(status, messages, times)

    async def ack(self, group: str, *messages: wire.Message) -> wire.AckMessageResponse:
        answer = await self.call(
            "AckMessage",
            wire.AckMessageRequest(
                group=wire.Resource(name=group),
                topic=messages[0].topic,
                entries=[
                    wire.AckMessageEntry(
                        message_id=it.system_properties.message_id,
                        receipt_handle=it.system_properties.receipt_handle,
                    )
                    for it in messages
                ],
            ),
        )
        assert isinstance(answer, wire.AckMessageResponse)
        return answer

    async def change(
        self, group: str, message: wire.Message, seconds: float
    ) -> wire.ChangeInvisibleDurationResponse:
        request = wire.ChangeInvisibleDurationRequest(
            group=wire.Resource(name=group),
            topic=message.topic,
            receipt_handle=message.system_properties.receipt_handle,
            message_id=message.system_properties.message_id,
        )
        set_duration(request.invisible_duration, seconds)
        answer = await self.call("ChangeInvisibleDuration", request)
        assert isinstance(answer, wire.ChangeInvisibleDurationResponse)
        return answer

    async def end(
        self,
        topic: str,
        transaction_id: str,
        resolution: wire.TransactionResolution,
        source: wire.TransactionSource = wire.TransactionSource.SOURCE_CLIENT,
    ) -> wire.Status:
        request = wire.EndTransactionRequest(
            topic=wire.Resource(name=topic),
            message_id="any",
            transaction_id=transaction_id,
            resolution=resolution,
            source=source,
        )
        answer = await self.call("EndTransaction", request)
        assert isinstance(answer, wire.EndTransactionResponse)
        return answer.status

    async def recall(self, topic: str, handle: str) -> wire.RecallMessageResponse:
        request = wire.RecallMessageRequest(
            topic=wire.Resource(name=topic), recall_handle=handle
        )
        answer = await self.call("RecallMessage", request)
        assert isinstance(answer, wire.RecallMessageResponse)
        return answer

    async def heartbeat(
        self, kind: wire.ClientType, group: str = ""
    ) -> wire.HeartbeatResponse:
        request = wire.HeartbeatRequest(client_type=kind)
        if group:
            request.group.name = group
        answer = await self.call("Heartbeat", request)
        assert isinstance(answer, wire.HeartbeatResponse)
        return answer

    def _multi(self, method: str, kind: str) -> Any:
        service = wire.DESCRIPTOR.services_by_name["MessagingService"]
        described = service.methods_by_name[method]
        answer_type = getattr(wire, described.output_type.name)
        return getattr(self.channel, kind)(
            f"/{service.full_name}/{method}",
            request_serializer=_as_bytes,
            response_deserializer=answer_type.FromString,
        )


def _as_bytes(request: Any) -> bytes:
    """A message; or bytes that are none, as they are."""
    if isinstance(request, bytes):
        return request
    data: bytes = request.SerializeToString()
    return data


class Received:
    """What a receive has brought; `times` counts delivery timestamps."""

    def __init__(
        self, status: wire.Status, messages: Sequence[wire.Message], times: int
    ) -> None:
        self.status = status
        self.messages = messages
        self.times = times

    @property
    def code(self) -> wire.Code:
        return self.status.code

    @property
    def bodies(self) -> list[bytes]:
        return [message.body for message in self.messages]


def message(
    topic: str,
    body: bytes = b"hello",
    *,
    message_id: str = "",
    kind: wire.MessageType | None = None,
    keys: Sequence[str] = (),
    tag: str = "",
    group: str = "",
    due_ms: int = 0,
    **properties: str,
) -> wire.Message:
    """A message as a client would send it."""
    if kind is None:
        kind = wire.MessageType.NORMAL
        if group:
            kind = wire.MessageType.FIFO
        elif due_ms:
            kind = wire.MessageType.DELAY
    system = wire.SystemProperties(
        message_id=message_id or f"01{next(_numbers):032X}",
        message_type=kind,
        keys=keys,
        body_encoding=wire.Encoding.IDENTITY,
        born_host="a-test",
    )
    if tag:
        system.tag = tag
    if group:
        system.message_group = group
    if due_ms:
        system.delivery_timestamp.seconds = due_ms // 1000
        system.delivery_timestamp.nanos = due_ms % 1000 * 1_000_000
    return wire.Message(
        topic=wire.Resource(name=topic),
        user_properties=properties,
        system_properties=system,
        body=body,
    )


def set_duration(field: Any, seconds: float) -> None:
    field.seconds = int(seconds)
    field.nanos = round((seconds - int(seconds)) * 1_000_000_000)


async def read_until(stream: Any, field: str, timeout_s: float = 10.0) -> Any:
    """The next command of a telemetry stream that is of this kind."""
    async with asyncio.timeout(timeout_s):
        while True:
            command = await stream.read()
            assert command is not grpc.aio.EOF, "the stream is over"
            if command.WhichOneof("command") == field:
                return command


async def gauge(api: Api, name: str) -> int:
    """A number that the server tells of itself."""
    text = (await api.get("/metrics")).content.decode()
    line = next(it for it in text.splitlines() if it.startswith(f"halfpast_{name} "))
    return int(float(line.split()[1]))


async def until(api: Api, name: str, value: int) -> None:
    """Wait until a number has this value."""
    async with asyncio.timeout(20):
        while True:
            if await gauge(api, name) == value:
                return
            await asyncio.sleep(0.01)


@asynccontextmanager
async def rocketmq_api(
    folder: Path, config: ApiConfig | None = None, front: GrpcConfig | None = None
) -> AsyncGenerator[Api]:
    """The API with a front for RocketMQ clients, in this process."""
    grpc_config = front or GrpcConfig(address="127.0.0.1:0")
    if config is None:
        config = ApiConfig(port=0, grpc=grpc_config)
    async with running_api(folder, config) as api:
        yield api
