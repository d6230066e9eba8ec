"""Consumers at work: acknowledging, failing, asking for time, dying, coming back."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import pytest
import pytest_asyncio
from tests.integration.api_server import Api
from tests.integration.rocketmq_rig import Stub, message, rocketmq_api, until

from halfpast_api.rocketmq import protocol as wire
from halfpast_api.rocketmq.config import GrpcConfig

pytestmark = pytest.mark.asyncio(loop_scope="module")

LIVENESS_MS = 1500


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def api(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Api]:
    folder: Path = tmp_path_factory.mktemp("rocketmq")
    front = GrpcConfig(address="127.0.0.1:0", liveness_ms=LIVENESS_MS)
    async with rocketmq_api(folder, front=front) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def client(api: Api) -> AsyncGenerator[Stub]:
    stub = Stub(api.grpc_address)
    yield stub
    await stub.close()


@asynccontextmanager
async def beating(stub: Stub) -> AsyncGenerator[None]:
    """A push consumer that lives."""

    async def beat() -> None:
        while True:
            await stub.heartbeat(wire.ClientType.PUSH_CONSUMER, "any")
            await asyncio.sleep(LIVENESS_MS / 5000)

    task = asyncio.create_task(beat())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_what_is_acknowledged_is_done(client: Stub) -> None:
    await client.send(message("acked", b"x"))
    (got,) = (await client.receive("g", "acked", wait_s=5)).messages
    answer = await client.ack("g", got)
    assert answer.status.code == wire.Code.OK
    assert answer.entries[0].status.code == wire.Code.OK


async def test_a_receipt_that_ran_out_is_told_at_the_top(client: Stub) -> None:
    """Clients look no further than the status of the whole."""
    await client.send(message("acked-twice", b"x"))
    (got,) = (await client.receive("g", "acked-twice", wait_s=5)).messages
    await client.ack("g", got)
    again = await client.ack("g", got)
    assert again.status.code == wire.Code.INVALID_RECEIPT_HANDLE
    assert again.entries[0].status.code == wire.Code.INVALID_RECEIPT_HANDLE


async def test_a_mixed_answer_says_that_it_is_one(client: Stub) -> None:
    await client.send(message("mixed", b"1"), message("mixed", b"2"))
    one, two = (await client.receive("g", "mixed", wait_s=5)).messages
    await client.ack("g", one)
    answer = await client.ack("g", one, two)
    assert answer.status.code == wire.Code.MULTIPLE_RESULTS
    assert [it.status.code for it in answer.entries] == [
        wire.Code.INVALID_RECEIPT_HANDLE,
        wire.Code.OK,
    ]


@pytest.mark.parametrize("handle", ["", "not a receipt", "A" * 600, "AAAA", "\u00e9"])
async def test_a_malformed_handle_is_refused(client: Stub, handle: str) -> None:
    request = wire.AckMessageRequest(
        group=wire.Resource(name="g"),
        topic=wire.Resource(name="acked"),
        entries=[wire.AckMessageEntry(message_id="m", receipt_handle=handle)],
    )
    answer = await client.call("AckMessage", request)
    assert answer.status.code == wire.Code.INVALID_RECEIPT_HANDLE


async def test_a_receipt_of_another_group_is_refused(client: Stub) -> None:
    await client.send(message("foreign", b"x"))
    (got,) = (await client.receive("g", "foreign", wait_s=5)).messages
    await client.receive("h", "foreign", wait_s=5)
    answer = await client.ack("h", got)
    assert answer.status.code == wire.Code.INVALID_RECEIPT_HANDLE
    assert "another group" in answer.status.message
    assert (await client.ack("g", got)).status.code == wire.Code.OK


async def test_a_simple_consumer_gets_more_time_and_a_new_handle(client: Stub) -> None:
    await client.send(message("extended", b"x"))
    first = await client.receive("g", "extended", wait_s=5, invisible_s=1)
    (got,) = first.messages
    changed = await client.change("g", got, 30)
    assert changed.status.code == wire.Code.OK
    assert changed.receipt_handle not in ("", got.system_properties.receipt_handle)
    hidden = await client.receive("g", "extended", wait_s=1.5)
    assert hidden.code == wire.Code.MESSAGE_NOT_FOUND
    assert (await client.ack("g", got)).status.code != wire.Code.OK
    got.system_properties.receipt_handle = changed.receipt_handle
    assert (await client.ack("g", got)).status.code == wire.Code.OK


async def test_a_simple_consumer_gives_a_message_back(client: Stub) -> None:
    await client.send(message("returned", b"x"))
    (got,) = (await client.receive("g", "returned", wait_s=5)).messages
    assert (await client.change("g", got, 0)).status.code == wire.Code.OK
    (again,) = (await client.receive("g", "returned", wait_s=5)).messages
    assert again.system_properties.delivery_attempt == 2


@pytest.mark.parametrize("seconds", [-1, 43_201])
async def test_a_time_that_cannot_be_is_refused(client: Stub, seconds: int) -> None:
    await client.send(message("never", b"x"))
    (got,) = (await client.receive("g", "never", wait_s=5)).messages
    changed = await client.change("g", got, seconds)
    assert changed.status.code == wire.Code.ILLEGAL_INVISIBLE_TIME
    assert (await client.ack("g", got)).status.code == wire.Code.OK


async def test_a_push_consumer_that_fails_waits_for_the_groups_back_off(
    api: Api, client: Stub
) -> None:
    """The client of Node asks for a thousandth of what it means."""
    settings = {"backoff_initial_ms": 60_000, "backoff_max_ms": 60_000}
    await api.put("/v1/groups/slow", settings)
    await client.send(message("failing", b"x"))
    got = await client.receive(
        "slow", "failing", wait_s=5, invisible_s=None, auto_renew=True
    )
    changed = await client.change("slow", got.messages[0], 0.001)
    assert changed.status.code == wire.Code.OK
    again = await client.receive("slow", "failing", wait_s=0.5)
    assert again.code == wire.Code.MESSAGE_NOT_FOUND


async def test_after_its_last_attempt_a_message_is_a_dead_letter(
    api: Api, client: Stub
) -> None:
    settings = {"max_attempts": 2, "backoff_initial_ms": 0, "backoff_max_ms": 0}
    await api.put("/v1/groups/twice", settings)
    await client.send(message("hopeless", b"x"))
    for attempt in (1, 2):
        got = await client.receive(
            "twice", "hopeless", wait_s=5, invisible_s=None, auto_renew=True
        )
        assert got.messages[0].system_properties.delivery_attempt == attempt
        await client.change("twice", got.messages[0], 0)
    dead = await client.receive("undertaker", "%DLQ%twice", wait_s=5)
    assert dead.bodies == [b"x"]


async def test_messages_of_a_live_push_consumer_stay_hidden(
    api: Api, client: Stub
) -> None:
    await api.put("/v1/groups/brief", {"invisible_ms": 1000})
    other = Stub(api.grpc_address)
    async with beating(client):
        await client.send(message("renewed", b"x"))
        got = await client.receive(
            "brief", "renewed", wait_s=5, invisible_s=None, auto_renew=True
        )
        meanwhile = await other.receive("brief", "renewed", wait_s=3)
        assert meanwhile.code == wire.Code.MESSAGE_NOT_FOUND
        # The handle is the first one, whatever receipt it stands for by now.
        answer = await client.ack("brief", *got.messages)
        assert answer.status.code == wire.Code.OK
    after = await other.receive("brief", "renewed", wait_s=1.5)
    assert after.code == wire.Code.MESSAGE_NOT_FOUND
    await other.close()


async def test_messages_of_a_dead_push_consumer_go_to_others(
    api: Api, client: Stub
) -> None:
    """It beats no more; nothing is renewed for it, and nothing is kept of it."""
    await api.put("/v1/groups/mortal", {"invisible_ms": 1000})
    dying = Stub(api.grpc_address)
    await client.send(message("inherited", b"x"))
    await dying.heartbeat(wire.ClientType.PUSH_CONSUMER, "mortal")
    await dying.receive(
        "mortal", "inherited", wait_s=5, invisible_s=None, auto_renew=True
    )
    await dying.close()
    (got,) = (await client.receive("mortal", "inherited", wait_s=8)).messages
    assert got.system_properties.delivery_attempt == 2
    await client.ack("mortal", got)


async def test_messages_of_a_push_consumer_that_ends_go_to_others_at_once(
    api: Api, client: Stub
) -> None:
    other = Stub(api.grpc_address)
    await client.send(message("left", b"x"))
    await client.receive("g", "left", wait_s=5, invisible_s=None, auto_renew=True)
    request = wire.NotifyClientTerminationRequest(group=wire.Resource(name="g"))
    answer = await client.call("NotifyClientTermination", request)
    assert answer.status.code == wire.Code.OK
    (got,) = (await other.receive("g", "left", wait_s=5)).messages
    assert got.system_properties.delivery_attempt == 1
    await other.close()


async def test_a_receive_repeated_under_its_id_gets_the_same_messages(
    api: Api, client: Stub
) -> None:
    await api.put("/v1/groups/careful", {"ordered": True})
    await client.send(message("repeated", b"1", group="a"))
    await client.send(message("repeated", b"2", group="a"))
    first = await client.receive("careful", "repeated", wait_s=5, attempt_id="one")
    again = await client.receive("careful", "repeated", wait_s=5, attempt_id="one")
    assert first.bodies == again.bodies == [b"1"]
    assert again.messages[0].system_properties.delivery_attempt == 1
    later = await client.receive("careful", "repeated", attempt_id="two")
    assert later.code == wire.Code.MESSAGE_NOT_FOUND


async def test_a_receive_ends_before_its_client_gives_up(client: Stub) -> None:
    received = await client.receive("g", "quiet", wait_s=30, timeout_s=1.5)
    assert received.code == wire.Code.MESSAGE_NOT_FOUND


async def test_a_consumer_that_hangs_up_takes_nothing(api: Api, client: Stub) -> None:
    leaving = Stub(api.grpc_address)
    request = wire.ReceiveMessageRequest(
        group=wire.Resource(name="g"),
        message_queue=wire.MessageQueue(topic=wire.Resource(name="hung-up")),
        batch_size=1,
    )
    request.long_polling_timeout.seconds = 30
    call = leaving.stream("ReceiveMessage", request)
    waiting = asyncio.create_task(call.read())
    await until(api, "grpc_polls", 1)
    call.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await leaving.close()
    await until(api, "grpc_polls", 0)
    await client.send(message("hung-up", b"x"))
    assert (await client.receive("g", "hung-up", wait_s=5)).bodies == [b"x"]


async def test_the_server_stops_with_a_receive_that_waits(tmp_path: Path) -> None:
    """It is answered, with nothing."""
    async with rocketmq_api(tmp_path) as api:
        stub = Stub(api.grpc_address)
        waiting = asyncio.create_task(stub.receive("g", "t", wait_s=30, timeout_s=40))
        await until(api, "grpc_polls", 1)
    received = await waiting
    assert received.code == wire.Code.MESSAGE_NOT_FOUND
    with pytest.raises(grpc.aio.AioRpcError):
        await stub.send(message("t", b"x"))
    await stub.close()
