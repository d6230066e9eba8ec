"""Streams, settings, heartbeats and routes: what clients need before anything else."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import grpc
import pytest
import pytest_asyncio
from tests.integration.api_server import Api
from tests.integration.rocketmq_rig import Stub, read_until, rocketmq_api

from halfpast_api.rocketmq import protocol as wire

pytestmark = pytest.mark.asyncio(loop_scope="module")

PRODUCER = wire.ClientType.PRODUCER
PUSH = wire.ClientType.PUSH_CONSUMER
IPV4, DOMAIN = wire.AddressScheme.IPv4, wire.AddressScheme.DOMAIN_NAME


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def api(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Api]:
    folder: Path = tmp_path_factory.mktemp("rocketmq")
    async with rocketmq_api(folder) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def client(api: Api) -> AsyncGenerator[Stub]:
    stub = Stub(api.grpc_address)
    yield stub
    await stub.close()


def producer_settings(*topics: str) -> wire.Settings:
    settings = wire.Settings(client_type=PRODUCER)
    settings.publishing.topics.extend(wire.Resource(name=it) for it in topics)
    return settings


def consumer_settings(group: str, language: wire.Language) -> wire.Settings:
    settings = wire.Settings(client_type=PUSH, user_agent=wire.UA(language=language))
    settings.subscription.group.name = group
    return settings


async def told(client: Stub, settings: wire.Settings) -> Any:
    """The answer to settings."""
    stream = client.telemetry()
    await stream.write(wire.TelemetryCommand(settings=settings))
    command = await stream.read()
    await stream.done_writing()
    return command


async def test_a_producer_is_told_all_that_it_needs(client: Stub) -> None:
    sent = producer_settings("t")
    sent.request_timeout.seconds = 3
    sent.metric.on = True
    command = await told(client, sent)
    # Without a status the client of Python takes no notice.
    assert command.status.code == wire.Code.OK
    settings = command.settings
    assert settings.client_type == PRODUCER
    assert settings.request_timeout.seconds == 3
    # Without it those of Python and Node refuse every message; of exactly 4 MiB Node
    # could send a message that it could not receive.
    assert 0 < settings.publishing.max_body_size < 4 * 1024 * 1024
    assert [it.name for it in settings.publishing.topics] == ["t"]
    # Of another kind, or without one, that of Node does not start.
    assert settings.backoff_policy.WhichOneof("strategy") == "exponential_backoff"
    assert settings.backoff_policy.max_attempts == 3
    assert settings.HasField("metric")
    assert settings.metric.on is False


async def test_settings_are_told_again_after_a_second(client: Stub) -> None:
    """Node loses those that come while it asks for routes, and would wait for five
    minutes."""
    stream = client.telemetry()
    await stream.write(wire.TelemetryCommand(settings=producer_settings("t")))
    first = await read_until(stream, "settings")
    second = await read_until(stream, "settings")
    assert first == second
    await stream.done_writing()


@pytest.mark.parametrize(
    ("language", "strategy"),
    [
        (wire.Language.PYTHON, "customized_backoff"),
        (wire.Language.JAVA, "customized_backoff"),
        (wire.Language.NODE_JS, "exponential_backoff"),
    ],
)
async def test_a_consumer_is_told_of_its_group(
    api: Api, client: Stub, language: wire.Language, strategy: str
) -> None:
    """Python knows one kind of back-off, Node the other."""
    settings = {
        "max_attempts": 5,
        "backoff_initial_ms": 1000,
        "backoff_max_ms": 3000,
        "ordered": True,
    }
    await api.put("/v1/groups/told", settings)
    command = await told(client, consumer_settings("told", language))
    assert command.status.code == wire.Code.OK
    told_settings = command.settings
    subscription = told_settings.subscription
    assert subscription.fifo is True
    # Without these Node asks for no messages, and Python at once again.
    assert subscription.receive_batch_size > 0
    assert subscription.long_polling_timeout.seconds > 0
    policy = told_settings.backoff_policy
    assert policy.max_attempts == 5
    assert policy.WhichOneof("strategy") == strategy
    if strategy == "customized_backoff":
        steps = [it.seconds for it in policy.customized_backoff.next]
        assert steps == [1, 2, 3]
    else:
        assert policy.exponential_backoff.initial.seconds == 1
        assert policy.exponential_backoff.max.seconds == 3


async def test_an_ordinary_group_is_not_in_order(client: Stub) -> None:
    command = await told(client, consumer_settings("plain", wire.Language.JAVA))
    assert command.settings.subscription.fifo is False


@pytest.mark.parametrize("group", ["", "SYS_GROUP", "with space", "x" * 200])
async def test_a_group_that_cannot_be_is_told_in_the_stream(
    client: Stub, group: str
) -> None:
    command = await told(client, consumer_settings(group, wire.Language.JAVA))
    assert command.status.code == wire.Code.ILLEGAL_CONSUMER_GROUP
    assert command.WhichOneof("command") is None


async def test_a_type_that_nobody_knows_is_told(client: Stub) -> None:
    lite = wire.Settings(client_type=wire.ClientType.LITE_PUSH_CONSUMER)
    command = await told(client, lite)
    assert command.status.code == wire.Code.UNRECOGNIZED_CLIENT_TYPE
    beat = await client.heartbeat(wire.ClientType.CLIENT_TYPE_UNSPECIFIED)
    assert beat.status.code == wire.Code.UNRECOGNIZED_CLIENT_TYPE


async def test_a_stream_that_its_client_ends_ends_well(client: Stub) -> None:
    """With an error, a Node process that shuts down would end."""
    stream = client.telemetry()
    await stream.write(wire.TelemetryCommand(settings=producer_settings("t")))
    await read_until(stream, "settings")
    await stream.done_writing()
    while await stream.read() is not grpc.aio.EOF:
        pass
    assert await stream.code() == grpc.StatusCode.OK


async def test_a_stream_that_the_server_ends_ends_well(tmp_path: Path) -> None:
    async with rocketmq_api(tmp_path) as api:
        stub = Stub(api.grpc_address)
        stream = stub.telemetry()
        await stream.write(wire.TelemetryCommand(settings=producer_settings("t")))
        await read_until(stream, "settings")
    while await stream.read() is not grpc.aio.EOF:
        pass
    assert await stream.code() == grpc.StatusCode.OK
    await stub.close()


async def test_a_second_stream_of_a_client_takes_over(api: Api, client: Stub) -> None:
    first = client.telemetry()
    await first.write(wire.TelemetryCommand(settings=producer_settings("t")))
    await read_until(first, "settings")
    second = client.telemetry()
    await second.write(wire.TelemetryCommand(settings=producer_settings("t")))
    await read_until(second, "settings")
    async with asyncio.timeout(10):
        while await first.read() is not grpc.aio.EOF:
            pass
    assert await first.code() == grpc.StatusCode.OK
    await second.done_writing()


async def test_what_has_no_client_id_is_told_so(api: Api) -> None:
    stub = Stub(api.grpc_address)
    stub.metadata.clear()
    beat = await stub.heartbeat(PRODUCER)
    assert beat.status.code == wire.Code.CLIENT_ID_REQUIRED
    command = await told(stub, producer_settings("t"))
    assert command.status.code == wire.Code.CLIENT_ID_REQUIRED
    await stub.close()


def route_request(topic: str, *addresses: str, scheme: Any = IPV4) -> Any:
    request = wire.QueryRouteRequest(topic=wire.Resource(name=topic))
    request.endpoints.scheme = scheme
    for address in addresses:
        host, port = address.split(":")
        request.endpoints.addresses.add(host=host, port=int(port))
    return request


async def test_a_route_has_one_queue_and_takes_everything(client: Stub) -> None:
    """Node uses no other queue than number 0."""
    route = await client.call("QueryRoute", route_request("any", "10.0.0.1:9000"))
    (queue,) = route.message_queues
    assert queue.id == 0
    assert queue.broker.id == 0  # the one that takes messages
    assert queue.permission == wire.Permission.READ_WRITE
    assert set(queue.accept_message_types) == {1, 2, 3, 4}
    request = wire.QueryAssignmentRequest(
        topic=wire.Resource(name="any"), group=wire.Resource(name="g")
    )
    request.endpoints.CopyFrom(route.message_queues[0].broker.endpoints)
    assigned = await client.call("QueryAssignment", request)
    assert [it.message_queue for it in assigned.assignments] == [queue]


async def test_a_client_is_told_to_go_where_it_has_come(api: Api, client: Stub) -> None:
    there = await client.call("QueryRoute", route_request("any", "10.0.0.1:9000"))
    endpoints = there.message_queues[0].broker.endpoints
    assert endpoints.scheme == IPV4
    assert [(it.host, it.port) for it in endpoints.addresses] == [("10.0.0.1", 9000)]
    named = route_request("any", "mq.example.org:80", scheme=DOMAIN)
    endpoints = (await client.call("QueryRoute", named)).message_queues[0].broker
    assert endpoints.endpoints.scheme == DOMAIN


@pytest.mark.parametrize(
    "request_",
    [
        route_request("any"),
        route_request("any", "a:1", "b:2", scheme=DOMAIN),  # Python refuses it
        route_request("any", "10.0.0.1:9000", scheme=0),
        route_request("any", "10.0.0.1:70000"),
    ],
)
async def test_what_clients_could_not_use_is_not_told(
    api: Api, client: Stub, request_: Any
) -> None:
    route = await client.call("QueryRoute", request_)
    (address,) = route.message_queues[0].broker.endpoints.addresses
    assert f"{address.host}:{address.port}" == api.grpc_address
