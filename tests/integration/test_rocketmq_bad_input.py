"""What clients should not do: each is told what is wrong, and nothing is kept of it."""

import gzip
import hashlib
from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest
import pytest_asyncio
from tests.integration.api_server import Api
from tests.integration.rocketmq_rig import (
    Stub,
    gauge,
    message,
    read_until,
    rocketmq_api,
    until,
)

from halfpast_api.config import ApiConfig
from halfpast_api.rocketmq import protocol as wire
from halfpast_api.rocketmq.config import GrpcConfig

pytestmark = pytest.mark.asyncio(loop_scope="module")

MIB = 1024 * 1024
FRONT = GrpcConfig(
    address="127.0.0.1:0", request_max=6 * MIB, batch_max=8, streams_max=1100
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def api(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Api]:
    folder: Path = tmp_path_factory.mktemp("rocketmq")
    config = ApiConfig(port=0, auto_create_topics=False, grpc=FRONT)
    async with rocketmq_api(folder, config) as running:
        assert (await running.put("/v1/topics/known", {})).status in (200, 201)
        small = {"max_body_bytes": 100, "max_pending": 1}
        assert (await running.put("/v1/topics/small", small)).status in (200, 201)
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def client(api: Api) -> AsyncGenerator[Stub]:
    stub = Stub(api.grpc_address)
    yield stub
    await stub.close()


async def route(client: Stub, topic: str) -> Any:
    request = wire.QueryRouteRequest(topic=wire.Resource(name=topic))
    return await client.call("QueryRoute", request)


async def test_an_unknown_topic_is_told_everywhere(client: Stub) -> None:
    """As a status: an error of gRPC itself would be retried."""
    code = wire.Code.TOPIC_NOT_FOUND
    assert (await route(client, "nowhere")).status.code == code
    assert (await client.send(message("nowhere"))).status.code == code
    assert (await client.receive("g", "nowhere")).code == code
    request = wire.QueryAssignmentRequest(
        topic=wire.Resource(name="nowhere"), group=wire.Resource(name="g")
    )
    assert (await client.call("QueryAssignment", request)).status.code == code


@pytest.mark.parametrize("topic", ["", "with space", "x" * 200, "SYS_SCHEDULE", "é"])
async def test_a_topic_that_cannot_be_is_told(client: Stub, topic: str) -> None:
    code = wire.Code.ILLEGAL_TOPIC
    assert (await route(client, topic)).status.code == code
    assert (await client.send(message(topic))).status.code == code
    assert (await client.receive("g", topic)).code == code


@pytest.mark.parametrize("group", ["", "with space", "x" * 200, "SYS_GROUP", "%x"])
async def test_a_group_that_cannot_be_is_told(client: Stub, group: str) -> None:
    code = wire.Code.ILLEGAL_CONSUMER_GROUP
    assert (await client.receive(group, "known")).code == code
    assert (await client.ack(group, message("known"))).status.code == code


async def test_empty_requests_are_answered(client: Stub) -> None:
    for method in (
        *("QueryRoute", "QueryAssignment", "SendMessage", "AckMessage"),
        *("ChangeInvisibleDuration", "ForwardMessageToDeadLetterQueue"),
        *("EndTransaction", "RecallMessage", "Heartbeat"),
    ):
        request = getattr(wire, f"{method}Request")()
        answer = await client.call(method, request)
        assert 40_000 <= answer.status.code < 50_000, method
        assert answer.status.message, method
    received = await client.receive_as(wire.ReceiveMessageRequest())
    assert received.code == wire.Code.ILLEGAL_CONSUMER_GROUP


async def test_what_is_not_served_is_told(client: Stub) -> None:
    for method in ("UpdateOffset", "GetOffset", "QueryOffset"):
        answer = await client.call(method, getattr(wire, f"{method}Request")())
        assert answer.status.code == wire.Code.UNSUPPORTED, method
    pull = client.stream("PullMessage", wire.PullMessageRequest())
    assert (await pull.read()).status.code == wire.Code.UNSUPPORTED


async def test_a_body_larger_than_its_topic_takes_is_told(
    api: Api, client: Stub
) -> None:
    answer = await client.send(message("small", bytes(101)))
    assert answer.status.code == wire.Code.MESSAGE_BODY_TOO_LARGE
    large = await client.send(message("known", bytes(4 * MIB + 1)))
    assert large.status.code == wire.Code.MESSAGE_BODY_TOO_LARGE
    assert (await client.receive("g", "small")).messages == []


async def test_the_largest_body_goes_through(client: Stub) -> None:
    body = bytes(4 * MIB)
    assert (await client.send(message("known", body))).status.code == wire.Code.OK
    (got,) = (await client.receive("largest", "known", wait_s=5)).messages
    # Packed, since clients in Node receive less than 4 MiB at a time.
    assert got.system_properties.body_encoding == wire.Encoding.GZIP
    assert gzip.decompress(got.body) == body
    digest = hashlib.sha1(got.body).hexdigest().upper()
    assert got.system_properties.body_digest.checksum == digest
    await client.ack("largest", got)


async def test_a_request_larger_than_we_read_is_cut_off(client: Stub) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await client.send(message("known", bytes(7 * MIB)))
    assert raised.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_bytes_that_are_no_message_are_refused(client: Stub) -> None:
    answer = await client.call("SendMessage", b"\xff\xff\xff")
    assert answer.status.code == wire.Code.BAD_REQUEST
    received = await client.stream("ReceiveMessage", b"\xff\xff\xff").read()
    assert received.status.code == wire.Code.BAD_REQUEST
    unknown = client.channel.unary_unary("/apache.rocketmq.v2.MessagingService/No")
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await unknown(b"", metadata=client.metadata, timeout=5)
    assert raised.value.code() == grpc.StatusCode.UNIMPLEMENTED


async def test_too_many_messages_at_once_are_told(client: Stub) -> None:
    answer = await client.send(*[message("known")] * 9)
    assert answer.status.code == wire.Code.PAYLOAD_TOO_LARGE
    assert (
        await client.call("SendMessage", wire.SendMessageRequest())
    ).status.code == (wire.Code.BAD_REQUEST)


async def test_a_full_topic_is_told_as_too_much(client: Stub) -> None:
    due_ms = 2_000_000_000_000  # far, and within what a topic takes
    first = await client.send(message("small", b"1", due_ms=due_ms))
    assert first.status.code == wire.Code.OK
    second = await client.send(message("small", b"2", due_ms=due_ms))
    assert second.status.code == wire.Code.TOO_MANY_REQUESTS
    recalled = await client.recall("small", first.entries[0].recall_handle)
    assert recalled.status.code == wire.Code.OK


async def test_a_clock_that_is_off_changes_nothing(client: Stub) -> None:
    """A born time is the server's; a client's own tells nothing."""
    for off_s in (-3600, 3600, 2**40):
        sent = message("known", b"%d" % off_s)
        sent.system_properties.born_timestamp.seconds = max(0, 1_795_000_000 + off_s)
        assert (await client.send(sent)).status.code == wire.Code.OK
    received = await client.receive("clocks", "known", 16, wait_s=5)
    born = {it.system_properties.born_timestamp.seconds for it in received.messages}
    assert max(born) - min(born) < 600


async def test_a_client_id_may_not_be_anything(api: Api) -> None:
    stub = Stub(api.grpc_address, "x" * 300)
    answer = await stub.heartbeat(wire.ClientType.PRODUCER)
    assert answer.status.code == wire.Code.BAD_REQUEST
    await stub.close()


async def test_a_thousand_idle_streams_hold_up_nobody(api: Api, client: Stub) -> None:
    many = Stub(api.grpc_address)
    before = await gauge(api, "grpc_streams")
    streams: list[Any] = []
    for number in range(1000):
        many.metadata[0] = ("x-mq-client-id", f"idle-{number}")
        stream = many.telemetry()
        settings = wire.Settings(client_type=wire.ClientType.PRODUCER)
        settings.publishing.topics.add(name="known")
        await stream.write(wire.TelemetryCommand(settings=settings))
        streams.append(stream)
    for stream in streams:
        await read_until(stream, "settings")
    assert await gauge(api, "grpc_streams") == before + 1000
    assert await gauge(api, "grpc_check_topics") == 1
    assert (await client.send(message("known", b"x"))).status.code == wire.Code.OK
    await many.close()  # without a word
    await until(api, "grpc_streams", before)
    assert await gauge(api, "grpc_check_topics") == 0


async def test_streams_are_bounded(tmp_path: Path) -> None:
    front = GrpcConfig(address="127.0.0.1:0", streams_max=1)
    async with rocketmq_api(tmp_path, front=front) as api:
        one, two = Stub(api.grpc_address), Stub(api.grpc_address)
        settings = wire.Settings(client_type=wire.ClientType.PRODUCER)
        settings.publishing.topics.add(name="t")
        first = one.telemetry()
        await first.write(wire.TelemetryCommand(settings=settings))
        await read_until(first, "settings")
        second = two.telemetry()
        command = await second.read()
        assert command.status.code == wire.Code.TOO_MANY_REQUESTS
        # Nothing needs a stream.
        assert (await two.send(message("t", b"x"))).status.code == wire.Code.OK
        for stub in (one, two):
            await stub.close()


async def test_a_client_that_never_acknowledges_holds_a_bounded_lot(
    tmp_path: Path,
) -> None:
    """What is beyond the bound is not renewed: it is offered again."""
    front = GrpcConfig(address="127.0.0.1:0", renewals_max=3)
    async with rocketmq_api(tmp_path, front=front) as api:
        await api.put("/v1/groups/brief", {"invisible_ms": 1000})
        stub, other = Stub(api.grpc_address), Stub(api.grpc_address)
        await stub.send(*[message("t", b"%d" % n) for n in range(5)])
        await stub.receive("brief", "t", wait_s=5, invisible_s=None, auto_renew=True)
        assert await gauge(api, "grpc_renewals") == 3
        found: list[bytes] = []
        while len(found) < 2:
            found += (await other.receive("brief", "t", wait_s=5)).bodies
        assert len(set(found)) == 2
        for it in (stub, other):
            await it.close()


async def test_one_namespace_cannot_reach_another(tmp_path: Path) -> None:
    async with rocketmq_api(tmp_path) as api:
        for name in ("acme", "other"):
            assert (await api.put(f"/v1/namespaces/{name}", {})).status in (200, 201)
        acme = Stub(api.grpc_address, x_mq_namespace="acme")
        other = Stub(api.grpc_address, x_mq_namespace="other")
        await acme.send(message("orders", b"secret"))
        assert (await other.receive("g", "orders")).messages == []
        (got,) = (await acme.receive("g", "orders", wait_s=5)).messages
        assert got.topic == wire.Resource(resource_namespace="acme", name="orders")
        got.topic.resource_namespace = ""
        foreign = await other.ack("g", got)
        assert foreign.status.code == wire.Code.INVALID_RECEIPT_HANDLE
        nobody = Stub(api.grpc_address, x_mq_namespace="nobody")
        assert (await route(nobody, "orders")).status.code == wire.Code.NOT_FOUND
        # Some clients say it in the resource alone.
        plain = Stub(api.grpc_address)
        there = message("orders", b"by resource")
        there.topic.resource_namespace = "acme"
        assert (await plain.send(there)).status.code == wire.Code.OK
        assert (await acme.receive("g", "orders", wait_s=5)).bodies == [b"by resource"]
        for stub in (acme, other, nobody, plain):
            await stub.close()


async def test_limits_are_told_as_too_many_requests(tmp_path: Path) -> None:
    async with rocketmq_api(tmp_path) as api:
        reply = await api.put(
            "/v1/limits/subjects/default-namespace",
            {"requests_per_s": 0.001, "request_burst": 1},
        )
        assert reply.status in (200, 201), reply
        stub = Stub(api.grpc_address)
        codes: set[int] = set()
        for _ in range(3):
            codes.add((await stub.send(message("t", b"x"))).status.code)
        assert wire.Code.TOO_MANY_REQUESTS in codes
        assert codes <= {wire.Code.OK, wire.Code.TOO_MANY_REQUESTS}
        await stub.close()


async def test_a_port_that_is_taken_is_told(api: Api, tmp_path: Path) -> None:
    """Unless the front is there by default alone: then HTTP goes without."""
    taken = GrpcConfig(address=api.grpc_address)
    with pytest.raises(OSError, match=api.grpc_address):
        async with rocketmq_api(tmp_path / "one", front=taken):
            pass
    optional = replace(taken, optional=True)
    async with rocketmq_api(tmp_path / "two", front=optional) as other:
        assert other.grpc_address == ""
        assert (await other.get("/healthz")).status == 200
