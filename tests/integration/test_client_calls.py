"""The SDK over real HTTP, against the fake server."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
import pytest_asyncio
from aiohttp.test_utils import TestServer
from tests.integration.cli_process import Suite
from tests.integration.client_fake_server import FakeServer, Fault

import halfpast

HASTY = halfpast.RetryPolicy(
    total_s=1.0, attempt_s=0.5, backoff_initial_s=0.001, backoff_max_s=0.01
)
SOON = timedelta(milliseconds=20)
LATER = timedelta(hours=1)
NOBODY = "00000000-0000-7000-8000-0000000000ff"
pytestmark = pytest.mark.asyncio


@pytest.fixture(scope="module")
def real_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with Suite("dev", tmp_path_factory.mktemp("data"), "--port", "0") as suite:
        yield suite.address


@pytest_asyncio.fixture
async def fake() -> FakeServer:
    return FakeServer()


@pytest_asyncio.fixture
async def fake_url(fake: FakeServer) -> AsyncIterator[str]:
    async with TestServer(fake.app()) as server:
        yield str(server.make_url("/"))


@pytest_asyncio.fixture
async def lossy(fake_url: str) -> AsyncIterator[halfpast.Client]:
    """A client of the fake server, whose `faults` a test may set."""
    async with halfpast.Client(fake_url, retry=HASTY) as client:
        yield client


@pytest.fixture(params=["fake", "real"])
def url(request: pytest.FixtureRequest) -> str:
    address: str = request.getfixturevalue(f"{request.param}_url")
    return address


@pytest_asyncio.fixture
async def client(url: str) -> AsyncIterator[halfpast.Client]:
    """A client of either server: both must give the same answers."""
    async with halfpast.Client(url) as client:
        yield client


@pytest.fixture
def topic() -> str:
    """A topic of its own for each test."""
    return f"t{uuid4().hex}"


async def test_publish_stores_and_schedule_waits(
    client: halfpast.Client, topic: str
) -> None:
    now = await client.publish(topic, {"id": 7}, key="k", tag="paid")
    assert now.state is halfpast.EventState.STORED
    assert now.deliver_at is None
    later = await client.schedule(topic, {"id": 8}, delay=LATER)
    assert later.state is halfpast.EventState.SCHEDULED
    assert later.deliver_at is not None
    assert later.deliver_at.utcoffset() == timedelta(0)
    assert later.due_in is not None
    assert timedelta(minutes=59) < later.due_in <= LATER


@pytest.mark.parametrize("data", [{"a": [1, None, "ü"]}, "text", None, b"\x00\xff", 0])
async def test_data_comes_back_as_it_went(
    client: halfpast.Client, topic: str, data: object
) -> None:
    single = await client.publish(topic, data, properties={"p": "q"})
    [batched] = await client.batch([halfpast.NewEvent(topic=topic, data=data)])
    assert isinstance(batched, halfpast.Published)
    messages = await client.pop("g", topic, max_messages=10)
    found = {message.id: message for message in messages}
    assert found[single.id].data == data
    assert found[single.id].properties == {"p": "q"}
    assert found[batched.id].data == data


async def test_a_naive_time_is_refused_before_it_is_sent(
    lossy: halfpast.Client, fake: FakeServer
) -> None:
    naive = datetime(2030, 1, 1)
    with pytest.raises(ValueError, match="no time zone"):
        await lossy.publish("t", 1, deliver_at=naive)
    with pytest.raises(ValueError, match="not both"):
        await lossy.publish("t", 1, deliver_at=datetime.now(UTC), delay=SOON)
    with pytest.raises(ValueError, match="needs"):
        await lossy.schedule("t", 1)
    assert fake.requests == []


@pytest.mark.parametrize(
    "fault", [fault for fault in Fault if fault is not Fault.NONSENSE]
)
async def test_a_publish_survives_a_fault_and_makes_one_event(
    lossy: halfpast.Client, fake: FakeServer, fault: Fault
) -> None:
    fake.faults = [fault, fault]
    published = await lossy.publish("t", 1)
    assert list(fake.events) == [published.id]
    assert published.replayed is (fault is Fault.LOST_ANSWER)
    assert len(set(fake.keys)) == 1


async def test_one_idempotency_key_is_one_event(
    client: halfpast.Client, topic: str
) -> None:
    first = await client.publish(topic, 1, idempotency_key="abc")
    again = await client.publish(topic, 1, idempotency_key="abc")
    assert (again.id, first.replayed, again.replayed) == (first.id, False, True)
    with pytest.raises(halfpast.InvalidRequest) as caught:
        await client.publish(topic, 2, idempotency_key="abc")
    assert caught.value.code == "idempotency_key_reused"


async def test_what_stays_unknown_is_reported_as_unknown(
    lossy: halfpast.Client, fake: FakeServer
) -> None:
    fake.faults = [Fault.LOST_ANSWER] * 10_000
    with pytest.raises(halfpast.OutcomeUnknown) as caught:
        await lossy.publish("t", 1)
    assert caught.value.idempotency_key in fake.keys
    assert caught.value.attempts > 2
    fake.faults = []
    again = await lossy.publish("t", 1, idempotency_key=caught.value.idempotency_key)
    assert again.replayed
    assert len(fake.events) == 1


async def test_a_quota_that_stays_used_up_is_a_plain_refusal(
    lossy: halfpast.Client, fake: FakeServer
) -> None:
    fake.faults = [Fault.QUOTA] * 10_000
    with pytest.raises(halfpast.QuotaExceeded):
        await lossy.publish("t", 1)


async def test_a_server_that_is_not_there_is_unreachable() -> None:
    hasty = halfpast.RetryPolicy(total_s=0.05, backoff_initial_s=0.001)
    async with halfpast.Client("http://127.0.0.1:9", retry=hasty) as client:
        with pytest.raises(halfpast.ServerUnreachable, match="cannot reach"):
            await client.publish("t", 1)


async def test_unreachable_is_told_sooner_if_wanted() -> None:
    policy = halfpast.RetryPolicy(unreachable_s=0.0)
    async with halfpast.Client("http://127.0.0.1:9", retry=policy) as client:
        with pytest.raises(halfpast.ServerUnreachable, match="Connection refused"):
            await client.publish("t", 1)


@pytest.mark.parametrize(
    "url", ["", "localhost:7080", "ftp://x", "http://", "http://[x"]
)
async def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="not the address"):
        halfpast.Client(url)


async def test_another_service_is_recognised(
    lossy: halfpast.Client, fake: FakeServer
) -> None:
    fake.faults = [Fault.NONSENSE]
    with pytest.raises(halfpast.UnexpectedAnswer):
        await lossy.publish("t", 1)


async def test_a_closed_client_says_so() -> None:
    with pytest.raises(halfpast.ClientClosed):
        await halfpast.Client().publish("t", 1)


async def test_cancel_tells_the_truth(client: halfpast.Client, topic: str) -> None:
    waiting = await client.schedule(topic, 1, delay=LATER)
    assert await client.cancel(waiting.id) is halfpast.Outcome.CANCELLED
    assert await client.cancel(waiting.id) is halfpast.Outcome.CANCELLED
    gone = await client.publish(topic, 1)
    assert await client.cancel(gone.id) is halfpast.Outcome.TOO_LATE
    assert await client.cancel(NOBODY) is halfpast.Outcome.NOT_FOUND


async def test_a_lost_answer_to_a_cancel_is_asked_again(
    lossy: halfpast.Client, fake: FakeServer
) -> None:
    waiting = await lossy.schedule("t", 1, delay=LATER)
    fake.faults = [Fault.LOST_ANSWER]
    assert await lossy.cancel(waiting.id) is halfpast.Outcome.CANCELLED


async def test_reschedule_checks_the_version(
    client: halfpast.Client, topic: str
) -> None:
    waiting = await client.schedule(topic, 1, delay=LATER)
    moved = await client.reschedule(waiting.id, delay=2 * LATER, version=1)
    assert moved.version == 2
    with pytest.raises(halfpast.StaleVersion):
        await client.reschedule(waiting.id, delay=LATER, version=1)
    await client.deliver_now(waiting.id)
    [message] = await client.pop("g", topic, wait=timedelta(seconds=5))
    assert message.id == waiting.id
    with pytest.raises(halfpast.Conflict) as caught:
        await client.reschedule(waiting.id, delay=LATER)
    assert caught.value.code == "already_delivered"
    with pytest.raises(ValueError, match="needs"):
        await client.reschedule(waiting.id)


async def test_a_conflict_after_a_lost_answer_is_unknown(
    lossy: halfpast.Client, fake: FakeServer
) -> None:
    waiting = await lossy.schedule("t", 1, delay=LATER)
    fake.faults = [Fault.LOST_ANSWER]
    with pytest.raises(halfpast.OutcomeUnknown):
        await lossy.reschedule(waiting.id, delay=2 * LATER, version=1)
    assert (await lossy.get(waiting.id)).version == 2


async def test_put_replaces_what_waits_under_the_key(
    client: halfpast.Client, topic: str
) -> None:
    first = await client.put(topic, "a/b c%2F", 1, delay=LATER)
    again = await client.put(topic, "a/b c%2F", 2, delay=LATER)
    assert (first.created, again.created) == (True, False)
    assert (again.id, again.version) == (first.id, 2)
    assert (await client.get(first.id)).key == "a/b c%2F"
    with pytest.raises(halfpast.StaleVersion):
        await client.put(topic, "a/b c%2F", 3, create_only=True)
    with pytest.raises(halfpast.StaleVersion):
        await client.put(topic, "a/b c%2F", 3, version=1)


async def test_get_knows_everything_or_says_not_found(
    client: halfpast.Client, topic: str
) -> None:
    waiting = await client.schedule(
        topic, {"a": 1}, delay=LATER, key="k", tag="g", properties={"p": "q"}
    )
    event = await client.get(waiting.id)
    assert (event.data, event.key, event.tag) == ({"a": 1}, "k", "g")
    assert event.properties == {"p": "q"}
    assert event.deliver_at == waiting.deliver_at
    assert [entry.what for entry in event.timeline] == ["scheduled"]
    with pytest.raises(halfpast.NotFound) as caught:
        await client.get(NOBODY)
    assert caught.value.code == "unknown_event"


async def test_events_reads_page_after_page(
    client: halfpast.Client, topic: str
) -> None:
    ids = [
        (await client.schedule(topic, n, delay=LATER + n * SOON)).id for n in range(7)
    ]
    await client.schedule("other", 1, delay=LATER)
    found = [event.id async for event in client.events(topic=topic, page_size=3)]
    assert found == ids


async def test_a_batch_answers_for_each_event(
    client: halfpast.Client, topic: str
) -> None:
    good, bad = halfpast.NewEvent, "a/b"
    results = await client.batch(
        [
            good(topic=topic, data=1),
            good(topic=bad, data=1),
            good(topic=topic, data=b"x"),
        ]
    )
    assert [isinstance(r, halfpast.Published) for r in results] == [True, False, True]
    assert isinstance(results[1], halfpast.ApiProblem)
    assert (results[1].status, results[1].code) == (422, "invalid_topic")
    assert await client.batch([]) == []


async def test_a_repeated_batch_stores_once(
    lossy: halfpast.Client, fake: FakeServer
) -> None:
    fake.faults = [Fault.LOST_ANSWER]
    await lossy.batch([halfpast.NewEvent(topic="t", data=n) for n in range(5)])
    assert len(fake.events) == 5


async def test_pop_ack_nack_extend(client: halfpast.Client, topic: str) -> None:
    for number in range(3):
        await client.publish(topic, number)
    taken = await client.pop("g", topic)
    assert sorted(message.data for message in taken) == [0, 1, 2]
    assert await client.pop("g", topic) == []
    one, two, three = taken
    assert [s.ok for s in await client.ack("g", [one])] == [True]
    assert [s.ok for s in await client.nack("g", [two], delay=timedelta(0))] == [True]
    [extended] = await client.extend("g", [three], timedelta(minutes=5))
    assert extended.ok
    assert extended.receipt != three.receipt
    [stale] = await client.ack("g", [three])
    assert (stale.ok, stale.code) == (False, "receipt_expired")
    assert (await client.ack("g", [extended.receipt]))[0].ok
    [again] = await client.pop("g", topic)
    assert (again.id, again.attempt) == (two.id, 2)
    assert await client.ack("g", []) == []


async def test_pop_waits_for_what_is_due(client: halfpast.Client, topic: str) -> None:
    await client.schedule(topic, "late", delay=timedelta(milliseconds=60))
    [message] = await client.pop("g", topic, wait=timedelta(seconds=5))
    assert message.lateness is not None
    assert message.lateness >= timedelta(0)


async def test_pull_reads_a_queue_by_offset(
    client: halfpast.Client, topic: str
) -> None:
    with pytest.raises(halfpast.NotFound):
        await client.topic(topic)
    for number in range(8):
        await client.publish(topic, number, key="one and the same queue")
    described = await client.topic(topic)
    found: list[halfpast.Message] = []
    for queue in described.queues:
        offset = queue.min_offset
        while offset < queue.max_offset:
            page = await client.pull(topic, queue.queue, offset, max_messages=3)
            assert (page.min_offset, page.max_offset) == (0, queue.max_offset)
            assert page.next_offset == offset + len(page.messages)
            found += page.messages
            offset = page.next_offset
    assert sorted(message.data for message in found) == list(range(8))
    assert {message.receipt for message in found} == {""}
    with pytest.raises(halfpast.InvalidRequest) as caught:
        await client.pull(topic, 0, 99)
    assert caught.value.code == "offset_out_of_range"


async def test_gathered_publishes_travel_together(
    fake_url: str, fake: FakeServer
) -> None:
    async with halfpast.Client(fake_url, gather=True, retry=HASTY) as client:
        published = await asyncio.gather(*(client.publish("t", n) for n in range(50)))
        assert len(fake.requests) == 1
        by_id = {p.id: n for n, p in enumerate(published)}
        messages = await client.pop("g", "t", max_messages=100)
        assert {m.id: m.data for m in messages} == by_id
        results = await asyncio.gather(
            client.publish("t", 1), client.publish("a/b", 1), return_exceptions=True
        )
        assert isinstance(results[0], halfpast.Published)
        assert isinstance(results[1], halfpast.InvalidRequest)
        keyed = await client.publish("t", 1, idempotency_key="mine")
        assert (await client.publish("t", 1, idempotency_key="mine")).id == keyed.id


async def test_a_lost_gathered_batch_is_stored_once(
    fake_url: str, fake: FakeServer
) -> None:
    fake.faults = [Fault.LOST_ANSWER, Fault.OVERLOADED]
    async with halfpast.Client(fake_url, gather=True, retry=HASTY) as client:
        await asyncio.gather(*(client.publish("t", n) for n in range(20)))
    assert len(fake.events) == 20
