"""Messages that RocketMQ clients send and receive: of every kind, and HTTP beside."""

import gzip
import hashlib
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from urllib.parse import quote

import pytest
import pytest_asyncio
from tests.integration.api_server import Api
from tests.integration.rocketmq_rig import Stub, message, rocketmq_api

from halfpast_api.rocketmq import protocol as wire
from halfpast_api.times import parse_instant

pytestmark = pytest.mark.asyncio(loop_scope="module")

DAY_MS = 86_400_000


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


def now_ms() -> int:
    return time.time_ns() // 1_000_000


async def test_a_message_arrives_as_it_was_sent(client: Stub) -> None:
    sent = message(
        "plain", b"hello", keys=["one", "two"], tag="greeting", region="eu", empty=""
    )
    sent.system_properties.trace_context = "00-abc"
    answer = await client.send(sent)
    assert answer.status.code == wire.Code.OK
    (entry,) = answer.entries
    message_id = sent.system_properties.message_id
    assert entry.status.code == wire.Code.OK
    assert entry.message_id == entry.transaction_id == message_id
    assert entry.offset >= 0
    assert entry.recall_handle == ""
    received = await client.receive("g-plain", "plain", wait_s=5)
    assert received.code == wire.Code.OK
    assert received.times == 1
    (got,) = received.messages
    system = got.system_properties
    assert got.topic.name == "plain"
    assert got.body == b"hello"
    assert dict(got.user_properties) == {"region": "eu", "empty": ""}
    assert list(system.keys) == ["one", "two"]
    assert system.tag == "greeting"
    assert system.message_id == message_id
    assert system.message_type == wire.MessageType.NORMAL
    assert system.born_host == "a-test"
    assert system.trace_context == "00-abc"
    assert system.delivery_attempt == 1
    assert system.receipt_handle
    assert system.body_encoding == wire.Encoding.IDENTITY
    assert system.born_timestamp.seconds > 0
    assert system.store_timestamp.seconds > 0
    assert not system.HasField("message_group")
    assert not system.HasField("delivery_timestamp")


async def test_the_digest_is_one_that_all_clients_read_alike(client: Stub) -> None:
    """MD5 or SHA-1 in capitals: Node throws without one, and of CRC-32 the clients have
    two forms."""
    await client.send(message("digests", b"\x00binary\xff"))
    (got,) = (await client.receive("g", "digests", wait_s=5)).messages
    digest = got.system_properties.body_digest
    assert digest.type == wire.DigestType.SHA1
    assert digest.checksum == hashlib.sha1(b"\x00binary\xff").hexdigest().upper()


async def test_an_empty_receive_is_told_with_a_status(client: Stub) -> None:
    received = await client.receive("g", "nothing-here")
    assert received.code == wire.Code.MESSAGE_NOT_FOUND
    assert received.messages == []


async def test_http_sees_what_was_sent(api: Api, client: Stub) -> None:
    await client.send(
        message("to-http", b'{"order": 17}', keys=["17"], tag="paid", region="eu"),
        message("to-http", b"\xffraw", group="customer-1"),
    )
    got = await api.pop("h", "to-http", wait_ms=5000)
    by_key = {one["key"]: one for one in got}
    ordered = by_key["17"]
    assert ordered["data"] == {"order": 17}
    assert ordered["tag"] == "paid"
    assert ordered["properties"]["region"] == "eu"
    assert by_key["customer-1"]["data_base64"] == "/3Jhdw=="
    assert by_key["customer-1"]["properties"]["__SHARDINGKEY"] == "customer-1"


async def test_what_http_publishes_is_received(api: Api, client: Stub) -> None:
    published = await api.publish(
        "from-http", data={"a": [1, 2]}, key="k", tag="t", properties={"p": "q"}
    )
    (got,) = (await client.receive("g", "from-http", wait_s=5)).messages
    assert got.body == b'{"a":[1,2]}'
    assert got.system_properties.message_id == published["id"]
    assert list(got.system_properties.keys) == ["k"]
    assert got.system_properties.tag == "t"
    assert dict(got.user_properties) == {"p": "q"}
    assert (await client.ack("g", got)).status.code == wire.Code.OK


async def test_a_message_that_gRPC_took_is_settled_over_http(
    api: Api, client: Stub
) -> None:
    """A receipt handle is a receipt."""
    await client.send(message("both-ways", b"x"))
    (got,) = (await client.receive("g", "both-ways", wait_s=5)).messages
    receipts = [got.system_properties.receipt_handle]
    reply = await api.post("/v1/groups/g:ack", {"receipts": receipts})
    assert reply.body["results"][0]["status"] == 200
    assert (await client.ack("g", got)).status.code == wire.Code.INVALID_RECEIPT_HANDLE


async def test_a_delayed_message_is_due_to_the_millisecond(
    api: Api, client: Stub
) -> None:
    due_ms = now_ms() + 1_234
    answer = await client.send(message("later", b"x", due_ms=due_ms))
    assert answer.entries[0].recall_handle
    received = await client.receive("g", "later", wait_s=8)
    assert now_ms() >= due_ms
    (got,) = received.messages
    at = got.system_properties.delivery_timestamp
    assert at.seconds * 1000 + at.nanos // 1_000_000 == due_ms
    assert got.system_properties.message_type == wire.MessageType.DELAY


async def test_a_delay_may_be_years(api: Api, client: Stub) -> None:
    due_ms = now_ms() + 400 * DAY_MS + 7
    answer = await client.send(message("years", b"x", due_ms=due_ms, keys=["far"]))
    assert answer.status.code == wire.Code.OK
    listed = (await api.get("/v1/events?topic=years&key=far")).body["events"]
    assert len(listed) == 1


async def test_milliseconds_in_place_of_seconds_are_understood(
    api: Api, client: Stub
) -> None:
    """The Python client puts what its callers give, as its manual says in milliseconds,
    into the seconds of a Timestamp."""
    sent = message("python-times", b"x", kind=wire.MessageType.DELAY)
    due_ms = now_ms() + DAY_MS
    sent.system_properties.delivery_timestamp.seconds = due_ms
    assert (await client.send(sent)).status.code == wire.Code.OK
    (event,) = (await api.get("/v1/events?topic=python-times")).body["events"]
    assert parse_instant(event["deliver_at"]) == due_ms


async def test_recall_tells_the_truth(api: Api, client: Stub) -> None:
    sent = message("recalled", b"x", due_ms=now_ms() + DAY_MS)
    (entry,) = (await client.send(sent)).entries
    recalled = await client.recall("recalled", entry.recall_handle)
    assert recalled.status.code == wire.Code.OK
    assert recalled.message_id == sent.system_properties.message_id
    again = await client.recall("recalled", entry.recall_handle)
    assert again.status.code == wire.Code.OK  # it is taken back, as before
    soon = message("recalled", b"soon", due_ms=now_ms() + 1)
    (entry,) = (await client.send(soon)).entries
    assert (await client.receive("g", "recalled", wait_s=5)).bodies == [b"soon"]
    late = await client.recall("recalled", entry.recall_handle)
    # MESSAGE_NOT_FOUND would be a success to the client of Python.
    assert late.status.code == wire.Code.BAD_REQUEST
    assert "too late" in late.status.message


async def test_a_handle_counts_for_its_own_topic(client: Stub) -> None:
    sent = message("mine", b"x", due_ms=now_ms() + DAY_MS)
    (entry,) = (await client.send(sent)).entries
    await client.send(message("yours", b"x"))
    other = await client.recall("yours", entry.recall_handle)
    assert other.status.code == wire.Code.NOT_FOUND
    handle = entry.recall_handle
    wrong = handle[:5] + ("A" if handle[5] != "A" else "B") + handle[6:]
    malformed = await client.recall("mine", wrong)
    assert malformed.status.code == wire.Code.BAD_REQUEST
    assert (await client.recall("mine", handle)).status.code == wire.Code.OK


async def test_a_batch_is_stored_whole(client: Stub) -> None:
    sent = [message(f"batch-{n % 2}", str(n).encode()) for n in range(20)]
    answer = await client.send(*sent)
    assert [it.message_id for it in answer.entries] == [
        it.system_properties.message_id for it in sent
    ]
    for n in range(2):
        received = await client.receive("g", f"batch-{n}", 32, wait_s=5)
        expected = {str(m).encode() for m in range(n, 20, 2)}
        assert set(received.bodies) == expected


async def test_nothing_of_a_batch_is_stored_if_one_cannot_be(client: Stub) -> None:
    bad = message("half-bad", b"x", UNIQ_KEY="mine")
    answer = await client.send(message("half-bad", b"good"), bad)
    assert answer.status.code == wire.Code.ILLEGAL_MESSAGE_PROPERTY_KEY
    received = await client.receive("g", "half-bad")
    assert received.code == wire.Code.MESSAGE_NOT_FOUND


async def test_a_message_sent_again_is_stored_once(client: Stub) -> None:
    sent = message("again", b"x")
    first, second = await client.send(sent), await client.send(sent)
    assert second.status.code == wire.Code.OK
    assert second.entries[0].message_id == first.entries[0].message_id
    received = await client.receive("g", "again", wait_s=5)
    assert received.bodies == [b"x"]
    other = message("again", b"other", message_id=sent.system_properties.message_id)
    refused = await client.send(other)
    assert refused.status.code == wire.Code.ILLEGAL_MESSAGE_ID


async def test_a_compressed_body_is_stored_as_it_is_meant(
    api: Api, client: Stub
) -> None:
    sent = message("packed", gzip.compress(b'{"n": 1}'))
    sent.system_properties.body_encoding = wire.Encoding.GZIP
    await client.send(sent)
    (got,) = (await client.receive("g", "packed", wait_s=5)).messages
    assert got.body == b'{"n": 1}'
    assert got.system_properties.body_encoding == wire.Encoding.IDENTITY
    (popped,) = await api.pop("h", "packed", wait_ms=5000)
    assert popped["data"] == {"n": 1}


async def test_tags_and_expressions_filter(client: Stub) -> None:
    await client.send(
        message("filtered", b"1", tag="a", amount="5"),
        message("filtered", b"2", tag="b", amount="50"),
        message("filtered", b"3", tag="c", amount="500"),
    )
    tagged = await client.receive("tags", "filtered", tags="a || c", wait_s=5)
    assert set(tagged.bodies) == {b"1", b"3"}
    sql = "amount > 10 AND TAGS IN ('a', 'b')"
    chosen = await client.receive("sql", "filtered", sql=sql, wait_s=5)
    assert chosen.bodies == [b"2"]
    wrong = await client.receive("sql", "filtered", sql="amount >")
    assert wrong.code == wire.Code.ILLEGAL_FILTER_EXPRESSION
    bars = await client.receive("tags", "filtered", tags="a || || b")
    assert bars.code == wire.Code.ILLEGAL_FILTER_EXPRESSION


async def test_a_group_that_wants_order_gets_one_of_a_message_group(
    api: Api, client: Stub
) -> None:
    reply = await api.put("/v1/groups/in-order", {"ordered": True})
    assert reply.status in (200, 201), reply
    for n in range(3):
        await client.send(message("fifo", b"a%d" % n, group="a"))
    await client.send(message("fifo", b"b0", group="b"))
    first = await client.receive("in-order", "fifo", wait_s=5)
    assert sorted(first.bodies) == [b"a0", b"b0"]
    (a0,) = [it for it in first.messages if it.body == b"a0"]
    assert a0.system_properties.message_group == "a"
    assert a0.user_properties["__SHARDINGKEY"] == "a"
    assert a0.system_properties.message_type == wire.MessageType.FIFO
    held = await client.receive("in-order", "fifo")
    assert held.code == wire.Code.MESSAGE_NOT_FOUND
    await client.ack("in-order", a0)
    assert (await client.receive("in-order", "fifo", wait_s=5)).bodies == [b"a1"]


async def test_a_group_that_does_not_want_order_is_not_held_up(client: Stub) -> None:
    """RocketMQ's own tests receive without acknowledging and expect the next one."""
    for n in range(2):
        await client.send(message("free", b"%d" % n, group="same"))
    first = await client.receive("free-group", "free", 1, wait_s=5)
    second = await client.receive("free-group", "free", 1, wait_s=5)
    assert [*first.bodies, *second.bodies] == [b"0", b"1"]


async def test_dead_letters_can_be_received(api: Api, client: Stub) -> None:
    await api.put("/v1/groups/strict", {"max_attempts": 1})
    sent = message("poison", b"x")
    await client.send(sent)
    (got,) = (await client.receive("strict", "poison", wait_s=5)).messages
    request = wire.ForwardMessageToDeadLetterQueueRequest(
        group=wire.Resource(name="strict"),
        topic=got.topic,
        receipt_handle=got.system_properties.receipt_handle,
        message_id=got.system_properties.message_id,
        delivery_attempt=3,
    )
    answer = await client.call("ForwardMessageToDeadLetterQueue", request)
    assert answer.status.code == wire.Code.OK
    (dead,) = (await client.receive("undertaker", "%DLQ%strict", wait_s=5)).messages
    assert dead.body == b"x"
    origin = dead.system_properties.dead_letter_queue
    assert origin.topic == "poison"
    assert origin.message_id == sent.system_properties.message_id
    group = quote("strict")
    letters = (await api.get(f"/v1/dead-letters?source=group&group={group}")).body
    assert "after 3 attempts" in letters["dead_letters"][0]["reason"]
