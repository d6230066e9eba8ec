"""A server for RocketMQ's Python client that keeps nothing: that client's ceiling.

    PYTHON rocketmq_stub.py PORT        prints "ready", and runs until it is killed

It runs in the client's own environment, whose generated code it takes, and imports
nothing of ours.
"""

import asyncio
import importlib
import sys
from collections.abc import AsyncIterator
from typing import Any

grpc: Any = importlib.import_module("grpc")
definition: Any = importlib.import_module("rocketmq.grpc_protocol.definition_pb2")
service: Any = importlib.import_module("rocketmq.grpc_protocol.service_pb2")
wiring: Any = importlib.import_module("rocketmq.grpc_protocol.service_pb2_grpc")

HOST = "127.0.0.1"
BODY_SIZE_MAX = 4 * 1024 * 1024 - 4096
ATTEMPTS_MAX = 3
OK = definition.Status(code=definition.Code.OK, message="OK")


class Stub(wiring.MessagingServiceServicer):  # type: ignore[misc]
    """As little as a producer needs to be content."""

    def __init__(self, port: int) -> None:
        self._endpoints = definition.Endpoints(
            scheme=definition.AddressScheme.IPv4,
            addresses=[definition.Address(host=HOST, port=port)],
        )
        self._offset = 0

    async def QueryRoute(self, request: Any, _: Any) -> Any:
        queue = definition.MessageQueue(
            topic=request.topic,
            id=0,
            permission=definition.Permission.READ_WRITE,
            broker=definition.Broker(name="stub", id=0, endpoints=self._endpoints),
            accept_message_types=[definition.MessageType.NORMAL],
        )
        return service.QueryRouteResponse(status=OK, message_queues=[queue])

    async def Heartbeat(self, request: Any, _: Any) -> Any:
        return service.HeartbeatResponse(status=OK)

    async def SendMessage(self, request: Any, _: Any) -> Any:
        entries: list[Any] = []
        for message in request.messages:
            self._offset += 1
            message_id = message.system_properties.message_id
            entries.append(
                service.SendResultEntry(
                    status=OK,
                    message_id=message_id,
                    transaction_id=message_id,
                    offset=self._offset,
                )
            )
        return service.SendMessageResponse(status=OK, entries=entries)

    async def NotifyClientTermination(self, request: Any, _: Any) -> Any:
        return service.NotifyClientTerminationResponse(status=OK)

    async def Telemetry(self, requests: AsyncIterator[Any], _: Any) -> Any:
        async for command in requests:
            if not command.HasField("settings"):
                continue
            settings = command.settings
            settings.publishing.max_body_size = BODY_SIZE_MAX
            settings.backoff_policy.max_attempts = ATTEMPTS_MAX
            settings.backoff_policy.exponential_backoff.multiplier = 2.0
            yield service.TelemetryCommand(status=OK, settings=settings)


async def main(port: int) -> None:
    server = grpc.aio.server()
    wiring.add_MessagingServiceServicer_to_server(Stub(port), server)
    server.add_insecure_port(f"{HOST}:{port}")
    await server.start()
    print("ready", flush=True)
    await server.wait_for_termination()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
