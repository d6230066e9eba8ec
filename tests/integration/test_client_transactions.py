"""Transactions over HTTP: the same against the fake server and the real one."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
import pytest_asyncio
from aiohttp.test_utils import TestServer
from tests.integration.cli_process import Suite
from tests.integration.client_fake_server import Fault, Refused
from tests.integration.client_fake_transactions import FakeTransactionServer

import halfpast

State = halfpast.TransactionState
HASTY = halfpast.RetryPolicy(
    total_s=1.0, attempt_s=0.5, backoff_initial_s=0.001, backoff_max_s=0.01
)
pytestmark = pytest.mark.asyncio


@pytest.fixture(scope="module")
def real_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with Suite("dev", tmp_path_factory.mktemp("data"), "--port", "0") as suite:
        yield suite.address


@pytest_asyncio.fixture
async def fake() -> FakeTransactionServer:
    return FakeTransactionServer()


@pytest_asyncio.fixture
async def fake_url(fake: FakeTransactionServer) -> AsyncIterator[str]:
    async with TestServer(fake.app()) as server:
        yield str(server.make_url("/"))


@pytest.fixture(params=["fake", "real"])
def url(request: pytest.FixtureRequest) -> str:
    address: str = request.getfixturevalue(f"{request.param}_url")
    return address


@pytest_asyncio.fixture(params=["single", "gathered"])
async def client(
    request: pytest.FixtureRequest, url: str
) -> AsyncIterator[halfpast.Client]:
    """A client of either server, with and without gathering: all give the same."""
    gather = request.param == "gathered"
    async with halfpast.Client(url, gather=gather) as client:
        yield client


@pytest_asyncio.fixture(params=["single", "gathered"])
async def lossy(
    request: pytest.FixtureRequest, fake_url: str
) -> AsyncIterator[halfpast.Client]:
    """A client of the fake server, whose `faults` a test may set."""
    gather = request.param == "gathered"
    async with halfpast.Client(fake_url, retry=HASTY, gather=gather) as client:
        yield client


@pytest.fixture
def topic() -> str:
    """A topic of its own for each test."""
    return f"t{uuid4().hex}"


async def popped(client: halfpast.Client, topic: str) -> dict[str, object]:
    messages = await client.pop("g", topic, max_messages=100)
    return {message.id: message.data for message in messages}


async def produce(
    tx: halfpast.Transaction, topic: str, work: Callable[[], object]
) -> None:
    async with tx:
        await tx.send(topic, 1)
        work()


async def test_messages_come_with_the_commit_and_not_before(
    client: halfpast.Client, topic: str
) -> None:
    async with client.transaction("orders") as tx:
        first = await tx.send(topic, {"a": 1}, key="k", tag="g")
        second, third = await tx.send_all(
            [
                halfpast.NewEvent(topic=topic, data=b"\x00\xff"),
                halfpast.NewEvent(topic=topic, data=3),
            ]
        )
        assert await popped(client, topic) == {}
    assert tx.state is State.COMMITTED
    messages = await client.pop("g", topic, wait=timedelta(seconds=5))
    while len(messages) < 3:
        messages += await client.pop("g", topic, wait=timedelta(seconds=5))
    found = {message.id: message.data for message in messages}
    assert found == {first: {"a": 1}, second: b"\x00\xff", third: 3}
    assert [m.key for m in messages if m.id == first] == ["k"]


async def test_a_delay_begins_with_the_commit(
    client: halfpast.Client, topic: str
) -> None:
    delay = timedelta(milliseconds=120)
    async with client.transaction("orders") as tx:
        name = await tx.send(topic, "late", delay=delay)
    [message] = await client.pop("g", topic, wait=timedelta(seconds=5))
    assert message.id == name
    assert message.lateness is not None
    assert message.lateness >= timedelta(0)


async def test_an_error_rolls_back(client: halfpast.Client, topic: str) -> None:
    tx = client.transaction("orders")
    with pytest.raises(ZeroDivisionError):
        await produce(tx, topic, lambda: 1 // 0)
    assert tx.state is State.ROLLED_BACK
    assert await popped(client, topic) == {}
    await tx.rollback()
    with pytest.raises(halfpast.TransactionConflict) as caught:
        await tx.commit()
    assert caught.value.state == "rolled_back"


async def test_what_the_server_refuses_is_told(
    client: halfpast.Client, topic: str
) -> None:
    async with client.transaction("orders") as tx:
        with pytest.raises(halfpast.InvalidRequest) as caught:
            await tx.send("a/b", 1)
        assert caught.value.code == "invalid_topic"
        with pytest.raises(ValueError, match="not both"):
            await tx.send(topic, 1, delay=timedelta(1), deliver_at=datetime.now(UTC))
    assert tx.state is State.EMPTY
    unknown = client.transaction(f"g{topic}", check_required=True)
    with pytest.raises(halfpast.InvalidRequest) as caught:
        await unknown.send(topic, 1)
    assert caught.value.code == "producer_group_required"


async def test_gathered_transactions_travel_together(
    fake_url: str, fake: FakeTransactionServer
) -> None:
    async def one(number: int) -> str:
        async with gathering.transaction("orders") as tx:
            await tx.send("t", number)
        return tx.id

    async with halfpast.Client(fake_url, gather=True, retry=HASTY) as gathering:
        ids = await asyncio.gather(*(one(number) for number in range(50)))
    assert set(ids) == set(fake.transactions)
    assert fake.states == ["committed"] * 50
    assert len(fake.requests) < 10


async def test_a_refused_transaction_fails_alone(
    fake_url: str, fake: FakeTransactionServer
) -> None:
    async with halfpast.Client(fake_url, gather=True, retry=HASTY) as client:
        results = await asyncio.gather(
            client.transaction("g").send("t", 1),
            client.transaction("g").send("a/b", 1),
            return_exceptions=True,
        )
    assert isinstance(results[0], str)
    assert isinstance(results[1], halfpast.InvalidRequest)
    assert len(fake.requests) == 1


async def test_a_gathered_end_that_meets_overload_is_tried_again(
    fake_url: str, fake: FakeTransactionServer
) -> None:
    overload = Refused(503, "overloaded")
    async with halfpast.Client(fake_url, gather=True, retry=HASTY) as client:
        tx = client.transaction("g")
        await produce(tx, "t", lambda: fake.refusals.append(overload))
    assert fake.states == ["committed"]


@pytest.mark.parametrize("fault", [Fault.LOST_ANSWER, Fault.LOST_REQUEST])
async def test_a_lost_answer_begins_and_commits_once(
    lossy: halfpast.Client, fake: FakeTransactionServer, fault: Fault
) -> None:
    fake.faults = [fault]
    async with lossy.transaction("orders") as tx:
        await tx.send("t", 1)
        fake.faults = [fault]
        await tx.send("t", 2)
        fake.faults = [fault]
    assert tx.state is State.COMMITTED
    [begun] = fake.transactions.values()
    assert [message["data"] for message in begun.messages] == [1, 2]
    assert len(fake.events) == 2


async def test_a_commit_whose_outcome_is_unknown_says_so(
    lossy: halfpast.Client, fake: FakeTransactionServer
) -> None:
    tx = lossy.transaction("orders")
    with pytest.raises(halfpast.TransactionInDoubt):
        await produce(tx, "t", lambda: fake.faults.extend([Fault.LOST_ANSWER] * 9999))
    fake.faults = []
    assert fake.states == ["committed"]
    await tx.commit()
    assert tx.state is State.COMMITTED


async def test_a_commit_outlives_its_caller(
    lossy: halfpast.Client, fake: FakeTransactionServer
) -> None:
    leaving = asyncio.Event()

    def work() -> None:
        fake.faults = [Fault.OVERLOADED] * 3
        leaving.set()

    task = asyncio.create_task(produce(lossy.transaction("orders"), "t", work))
    await leaving.wait()
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await lossy.close()
    assert fake.states == ["committed"]


async def test_a_begin_that_nobody_waits_for_is_rolled_back(
    lossy: halfpast.Client, fake: FakeTransactionServer
) -> None:
    fake.faults = [Fault.OVERLOADED] * 3
    task = asyncio.create_task(lossy.transaction("orders").send("t", 1))
    while not fake.requests:  # noqa: ASYNC110
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await lossy.close()
    assert fake.states == ["rolled_back"]


async def test_cancelled_within_the_block_it_rolls_back(
    lossy: halfpast.Client, fake: FakeTransactionServer
) -> None:
    working = asyncio.Event()

    async def work_for_ever() -> None:
        async with lossy.transaction("orders") as tx:
            await tx.send("t", 1)
            working.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(work_for_ever())
    await working.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert fake.states == ["rolled_back"]


async def test_options_reach_the_server(
    fake_url: str, fake: FakeTransactionServer
) -> None:
    async with halfpast.Client(fake_url) as client:
        await client.transaction(
            "orders",
            check_after=timedelta(seconds=2),
            check_interval=timedelta(milliseconds=1500),
            check_max=3,
            reference="order 7",
        ).send("t", 1)
        await client.transaction("orders").send("t", 1)
    first, second = (begun.body for begun in fake.transactions.values())
    del first["messages"], second["messages"]
    assert first == {
        "producer_group": "orders",
        "check_after_ms": 2000,
        "check_interval_ms": 1500,
        "check_max": 3,
        "reference": "order 7",
    }
    assert second == {"producer_group": "orders"}
