"""Transactions of RocketMQ clients: outcomes, questions about them, and HTTP beside."""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from tests.integration.api_server import Api
from tests.integration.rocketmq_rig import (
    Stub,
    gauge,
    message,
    read_until,
    rocketmq_api,
    set_duration,
)

from halfpast_api.rocketmq import protocol as wire

pytestmark = pytest.mark.asyncio(loop_scope="module")

COMMIT, ROLLBACK = (
    wire.TransactionResolution.COMMIT,
    wire.TransactionResolution.ROLLBACK,
)
UNKNOWN = wire.TransactionResolution.TRANSACTION_RESOLUTION_UNSPECIFIED
CHECKED = wire.TransactionSource.SOURCE_SERVER_CHECK
QUESTION = "recover_orphaned_transaction_command"


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


def half(topic: str, body: bytes = b"half", **options: Any) -> wire.Message:
    return message(topic, body, kind=wire.MessageType.TRANSACTION, **options)


def soon(sent: wire.Message, seconds: float = 0.05) -> wire.Message:
    """The message, about which its producer is asked soon."""
    field = sent.system_properties.orphaned_transaction_recovery_duration
    set_duration(field, seconds)
    return sent


async def begin(client: Stub, sent: wire.Message) -> str:
    (entry,) = (await client.send(sent)).entries
    assert entry.status.code == wire.Code.OK
    assert entry.transaction_id != entry.message_id
    return entry.transaction_id


@asynccontextmanager
async def producing(client: Stub, *topics: str) -> AsyncGenerator[Any]:
    """A telemetry stream of a producer that has told its topics."""
    stream = client.telemetry()
    settings = wire.Settings(client_type=wire.ClientType.PRODUCER)
    settings.publishing.topics.extend(wire.Resource(name=it) for it in topics)
    await stream.write(wire.TelemetryCommand(settings=settings))
    await read_until(stream, "settings")
    try:
        yield stream
    finally:
        await stream.done_writing()


async def test_a_commit_brings_the_message(api: Api, client: Stub) -> None:
    transaction = await begin(client, half("committed", keys=["17"]))
    before = await client.receive("g", "committed")
    assert before.code == wire.Code.MESSAGE_NOT_FOUND
    assert (await client.end("committed", transaction, COMMIT)).code == wire.Code.OK
    (got,) = (await client.receive("g", "committed", wait_s=5)).messages
    assert got.body == b"half"
    assert got.user_properties["__transactionId__"] == transaction
    assert got.system_properties.message_type == wire.MessageType.TRANSACTION
    shown = (await api.get(f"/v1/transactions/{transaction}")).body
    assert shown["state"] == "committed"
    assert shown["source"] == "producer"
    assert shown["reference"] == got.system_properties.message_id


async def test_a_rollback_brings_nothing_and_cannot_be_contradicted(
    client: Stub,
) -> None:
    transaction = await begin(client, half("rolled-back"))
    ended = [await client.end("rolled-back", transaction, ROLLBACK) for _ in range(2)]
    assert [it.code for it in ended] == [wire.Code.OK, wire.Code.OK]
    contradicted = await client.end("rolled-back", transaction, COMMIT)
    assert contradicted.code == wire.Code.BAD_REQUEST
    received = await client.receive("g", "rolled-back")
    assert received.code == wire.Code.MESSAGE_NOT_FOUND


async def test_a_transaction_may_have_a_delivery_time(client: Stub) -> None:
    """RocketMQ forgets the time."""
    due_ms = time.time_ns() // 1_000_000 + 1500
    transaction = await begin(client, half("tx-later", due_ms=due_ms))
    assert (await client.end("tx-later", transaction, COMMIT)).code == wire.Code.OK
    received = await client.receive("g", "tx-later", wait_s=8)
    assert time.time_ns() // 1_000_000 >= due_ms
    assert received.bodies == [b"half"]


async def test_a_half_message_sent_again_begins_one_transaction(
    api: Api, client: Stub
) -> None:
    sent = half("tx-once")
    first, second = await begin(client, sent), await begin(client, sent)
    assert first == second
    listed = await api.get("/v1/transactions?producer_group=tx-once")
    assert len(listed.body["transactions"]) == 1
    await client.end("tx-once", first, ROLLBACK)


@pytest.mark.parametrize(
    "transaction",
    ["", "nonsense", "01936f1e-8c00-7abc-8def-012345670000", "x" * 5000],
)
async def test_an_unknown_transaction_is_told(client: Stub, transaction: str) -> None:
    ended = await client.end("any", transaction, COMMIT)
    assert ended.code == wire.Code.INVALID_TRANSACTION_ID


async def test_a_producer_must_name_an_outcome(client: Stub) -> None:
    transaction = await begin(client, half("undecided"))
    ended = await client.end("undecided", transaction, UNKNOWN)
    assert ended.code == wire.Code.BAD_REQUEST
    assert (await client.end("undecided", transaction, ROLLBACK)).code == wire.Code.OK


async def test_transactional_and_other_messages_do_not_mix(client: Stub) -> None:
    answer = await client.send(half("mix"), message("mix"))
    assert answer.status.code == wire.Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE


async def test_the_producer_is_asked_about_what_it_left_open(
    api: Api, client: Stub
) -> None:
    async with producing(client, "left-open") as stream:
        sent = soon(half("left-open", b"which one", keys=["17"], region="eu"))
        transaction = await begin(client, sent)
        command = await read_until(stream, QUESTION)
        question = command.recover_orphaned_transaction_command
        assert question.transaction_id == transaction
        asked = question.message
        assert asked.body == b"which one"
        assert asked.topic.name == "left-open"
        assert asked.user_properties["region"] == "eu"
        system = asked.system_properties
        assert system.message_id == sent.system_properties.message_id
        assert system.message_type == wire.MessageType.TRANSACTION
        assert system.body_digest.checksum
        ended = await client.end("left-open", transaction, COMMIT, CHECKED)
        assert ended.code == wire.Code.OK
    assert (await client.receive("g", "left-open", wait_s=5)).bodies == [b"which one"]
    shown = (await api.get(f"/v1/transactions/{transaction}")).body
    assert shown["source"] == "check"
    assert shown["checks"] == 1


async def test_another_producer_is_asked_when_the_first_is_gone(
    api: Api, client: Stub
) -> None:
    gone = Stub(api.grpc_address)
    async with producing(gone, "orphans"):
        transaction = await begin(gone, soon(half("orphans"), 0.5))
    await gone.close()
    async with producing(client, "orphans") as stream:
        command = await read_until(stream, QUESTION)
        question = command.recover_orphaned_transaction_command
        assert question.transaction_id == transaction
        await client.end("orphans", transaction, ROLLBACK, CHECKED)
    shown = (await api.get(f"/v1/transactions/{transaction}")).body
    assert shown["state"] == "rolled_back"


async def test_an_answer_may_leave_it_open(api: Api, client: Stub) -> None:
    await api.put("/v1/producer-groups/patient", {"check_interval_ms": 100})
    async with producing(client, "patient") as stream:
        transaction = await begin(client, soon(half("patient")))
        await read_until(stream, QUESTION)
        ended = await client.end("patient", transaction, UNKNOWN, CHECKED)
        assert ended.code == wire.Code.OK
        again = await read_until(stream, QUESTION)
        question = again.recover_orphaned_transaction_command
        assert question.transaction_id == transaction
        await client.end("patient", transaction, COMMIT, CHECKED)
    shown = (await api.get(f"/v1/transactions/{transaction}")).body
    assert shown["state"] == "committed"


async def test_the_one_that_began_it_is_asked_first(api: Api, client: Stub) -> None:
    others = [Stub(api.grpc_address) for _ in range(3)]
    async with producing(client, "first") as stream:
        streams = [other.telemetry() for other in others]
        for it in streams:
            settings = wire.Settings(client_type=wire.ClientType.PRODUCER)
            settings.publishing.topics.add(name="first")
            await it.write(wire.TelemetryCommand(settings=settings))
            await read_until(it, "settings")
        for _ in range(3):
            transaction = await begin(client, soon(half("first")))
            command = await read_until(stream, QUESTION)
            question = command.recover_orphaned_transaction_command
            assert question.transaction_id == transaction
            await client.end("first", transaction, ROLLBACK, CHECKED)
    for other in others:
        await other.close()


async def test_a_stream_without_settings_is_good_for_questions(
    api: Api, client: Stub
) -> None:
    """That of Python opens one, minutes after a restart, and says nothing. What it has
    sent tells the topics that it knows about."""
    stream = client.telemetry()
    opening = asyncio.create_task(read_until(stream, QUESTION))
    transaction = await begin(client, soon(half("wordless"), 0.2))
    command = await opening
    question = command.recover_orphaned_transaction_command
    assert question.transaction_id == transaction
    await client.end("wordless", transaction, ROLLBACK, CHECKED)
    await stream.done_writing()


async def test_a_producer_is_known_by_its_routes_too(api: Api, client: Stub) -> None:
    """After a restart of ours it beats, and asks for its routes, and that is all."""
    before = Stub(api.grpc_address)
    transaction = await begin(before, soon(half("by-route"), 0.2))
    await before.close()
    stream = client.telemetry()
    opening = asyncio.create_task(read_until(stream, QUESTION))
    await client.heartbeat(wire.ClientType.PRODUCER)
    route = wire.QueryRouteRequest(topic=wire.Resource(name="by-route"))
    await client.call("QueryRoute", route)
    command = await opening
    question = command.recover_orphaned_transaction_command
    assert question.transaction_id == transaction
    await client.end("by-route", transaction, ROLLBACK, CHECKED)
    await stream.done_writing()


async def test_http_ends_what_a_client_began(api: Api, client: Stub) -> None:
    transaction = await begin(client, half("ended-by-http"))
    listed = await api.get("/v1/transactions?producer_group=ended-by-http")
    assert [it["id"] for it in listed.body["transactions"]] == [transaction]
    reply = await api.post(f"/v1/transactions/{transaction}:commit")
    assert reply.status == 200
    assert (await client.receive("g", "ended-by-http", wait_s=5)).bodies == [b"half"]


async def test_http_is_asked_about_what_a_client_began(api: Api, client: Stub) -> None:
    transaction = await begin(client, soon(half("asked-by-http")))
    polled = await api.get("/v1/producer-groups/asked-by-http/checks?wait_ms=8000")
    (check,) = polled.body["checks"]
    assert check["id"] == transaction
    answers = {"answers": [{"id": transaction, "state": "committed"}]}
    reply = await api.post("/v1/producer-groups/asked-by-http/checks:answer", answers)
    assert reply.body["results"][0]["status"] == 200
    assert (await client.receive("g", "asked-by-http", wait_s=5)).bodies == [b"half"]


async def test_a_client_is_asked_about_what_http_began(api: Api, client: Stub) -> None:
    """The producer group has the name of a topic; the message may go to another."""
    async with producing(client, "shop") as stream:
        body = {
            "producer_group": "shop",
            "messages": [{"topic": "shipped", "data": {"n": 1}}],
            "check_after_ms": 50,
        }
        begun = (await api.post("/v1/transactions", body)).body
        command = await read_until(stream, QUESTION)
        question = command.recover_orphaned_transaction_command
        assert question.transaction_id == begun["id"]
        assert question.message.topic.name == "shipped"
        assert question.message.body == b'{"n":1}'
        ended = await client.end("shipped", begun["id"], COMMIT, CHECKED)
        assert ended.code == wire.Code.OK
    assert (await client.receive("g", "shipped", wait_s=5)).bodies == [b'{"n":1}']


async def test_a_group_with_an_endpoint_is_asked_there(api: Api, client: Stub) -> None:
    """Unless a producer here begins transactions: most know nothing of them."""
    reply = await api.put(
        "/v1/producer-groups/by-url", {"check_url": "https://example.com/check"}
    )
    assert reply.status in (200, 201), reply
    before = await gauge(api, "grpc_check_topics")
    async with producing(client, "by-url"):
        assert await gauge(api, "grpc_check_topics") == before
        transaction = await begin(client, half("by-url"))
        assert await gauge(api, "grpc_check_topics") == before + 1
        await client.end("by-url", transaction, ROLLBACK)
