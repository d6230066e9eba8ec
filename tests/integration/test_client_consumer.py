"""The consumer over real HTTP, against the fake server."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from uuid import uuid4

import pytest
import pytest_asyncio
from aiohttp.test_utils import TestServer
from tests.integration.cli_process import Suite
from tests.integration.client_fake_server import FakeServer

import halfpast

POLL = timedelta(milliseconds=100)
pytestmark = pytest.mark.asyncio


@pytest.fixture(scope="module")
def real_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with Suite("dev", tmp_path_factory.mktemp("data"), "--port", "0") as suite:
        yield suite.address


@pytest_asyncio.fixture
async def fake_url() -> AsyncIterator[str]:
    async with TestServer(FakeServer().app()) as server:
        yield str(server.make_url("/"))


@pytest.fixture(params=["fake", "real"])
def url(request: pytest.FixtureRequest) -> str:
    address: str = request.getfixturevalue(f"{request.param}_url")
    return address


@pytest_asyncio.fixture
async def client(url: str) -> AsyncIterator[halfpast.Client]:
    async with halfpast.Client(url) as client:
        yield client


@pytest.fixture
def topic() -> str:
    """A topic of its own for each test."""
    return f"t{uuid4().hex}"


class Seen:
    """Notes what a handler gets, and lets a test wait for it."""

    def __init__(self, count: int) -> None:
        self.messages: list[halfpast.Message] = []
        self.all = asyncio.Event()
        self._count = count

    async def __call__(self, message: halfpast.Message) -> None:
        self.note(message)

    def note(self, message: halfpast.Message) -> None:
        self.messages.append(message)
        if len(self.messages) >= self._count:
            self.all.set()


async def test_every_message_is_handled_and_acked(
    client: halfpast.Client, topic: str
) -> None:
    seen = Seen(40)

    async def handle(message: halfpast.Message) -> None:
        seen.note(message)

    for number in range(40):
        await client.publish(topic, number)
    async with halfpast.Consumer(client, "g", topic, handle, poll=POLL) as consumer:
        await seen.all.wait()
    assert sorted(m.data for m in seen.messages) == list(range(40))
    assert (consumer.handled, consumer.failed, consumer.lost) == (40, 0, 0)
    assert await client.pop("g", topic) == []


async def test_a_failed_message_comes_again(
    client: halfpast.Client, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    done = asyncio.Event()
    attempts: list[int] = []

    async def handle(message: halfpast.Message) -> None:
        attempts.append(message.attempt)
        if message.attempt == 1:
            raise RuntimeError("first time unlucky")
        if message.attempt == 2:
            raise halfpast.RetryLater(timedelta(milliseconds=30))
        done.set()

    await client.publish(topic, 1)
    async with halfpast.Consumer(client, "g", topic, handle, poll=POLL) as consumer:
        await done.wait()
    assert attempts == [1, 2, 3]
    assert (consumer.handled, consumer.failed) == (1, 2)
    assert "first time unlucky" in caplog.text


async def test_a_slow_handler_keeps_its_message(fake_url: str, topic: str) -> None:
    invisible = timedelta(milliseconds=200)  # the real server asks for a second
    seen = Seen(1)

    async def handle(message: halfpast.Message) -> None:
        await asyncio.sleep(0.7)
        seen.note(message)

    async with halfpast.Client(fake_url) as client:
        await client.publish(topic, 1)
        async with halfpast.Consumer(
            client, "g", topic, handle, poll=POLL, invisible=invisible
        ) as consumer:
            await seen.all.wait()
        assert len(seen.messages) == 1
        assert (consumer.handled, consumer.lost) == (1, 0)
        assert await client.pop("g", topic) == []


async def test_the_real_server_lets_a_handler_be_slow(
    real_url: str, topic: str
) -> None:
    seen = Seen(1)

    async def handle(message: halfpast.Message) -> None:
        await asyncio.sleep(1.6)
        seen.note(message)

    async with halfpast.Client(real_url) as client:
        await client.publish(topic, 1)
        async with halfpast.Consumer(
            client, "g", topic, handle, poll=POLL, invisible=timedelta(seconds=1)
        ) as consumer:
            await seen.all.wait()
        assert len(seen.messages) == 1
        assert (consumer.handled, consumer.lost) == (1, 0)


async def test_stop_lets_handlers_finish_and_gives_the_rest_back(
    client: halfpast.Client,
    topic: str,
) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()
    finished: list[int] = []

    async def handle(message: halfpast.Message) -> None:
        begun.set()
        await go_on.wait()
        finished.append(message.data)

    for number in range(5):
        await client.publish(topic, number)
    consumer = halfpast.Consumer(client, "g", topic, handle, concurrency=2, poll=POLL)
    running = asyncio.create_task(consumer.run())
    await begun.wait()
    consumer.stop()
    go_on.set()
    await running
    assert len(finished) == 2
    rest = await client.pop("g", topic)
    assert sorted([*finished, *(m.data for m in rest)]) == [0, 1, 2, 3, 4]


async def test_a_handler_past_the_grace_is_cancelled_and_its_message_given_back(
    client: halfpast.Client,
    topic: str,
) -> None:
    begun = asyncio.Event()

    async def handle(message: halfpast.Message) -> None:
        begun.set()
        await asyncio.Event().wait()

    await client.publish(topic, 1)
    async with halfpast.Consumer(
        client, "g", topic, handle, poll=POLL, grace=timedelta(milliseconds=10)
    ):
        await begun.wait()
    [again] = await client.pop("g", topic)
    assert again.attempt == 2


async def test_a_plain_function_runs_in_threads(
    client: halfpast.Client, topic: str
) -> None:
    numbers: list[int] = []
    loop, all_done = asyncio.get_running_loop(), asyncio.Event()

    def handle(message: halfpast.Message) -> None:
        time.sleep(0.05)
        numbers.append(message.data)
        if len(numbers) == 8:
            loop.call_soon_threadsafe(all_done.set)

    for number in range(8):
        await client.publish(topic, number)
    start_s = time.monotonic()
    async with halfpast.Consumer(
        client, "g", topic, handle, concurrency=8, poll=POLL
    ) as consumer:
        await all_done.wait()
        assert time.monotonic() - start_s < 0.05 * 8
    assert sorted(numbers) == list(range(8))
    assert consumer.handled == 8


async def test_an_object_can_be_a_handler(client: halfpast.Client, topic: str) -> None:
    seen = Seen(1)
    await client.publish(topic, 1)
    async with halfpast.Consumer(client, "g", topic, seen, poll=POLL):
        await seen.all.wait()


async def test_the_sync_client_does_the_same(url: str, topic: str) -> None:
    def program() -> None:
        handled: list[object] = []
        with halfpast.SyncClient(url) as client:
            waiting = client.schedule(topic, 0, delay=timedelta(hours=1))
            assert client.cancel(waiting.id) is halfpast.Outcome.CANCELLED
            ids = [client.schedule(topic, n, delay=POLL).id for n in range(5)]
            assert [e.id for e in client.events(topic=topic, page_size=2)] == ids
            next(client.events(topic=topic))  # left half-way
            options = halfpast.ConsumerOptions(poll=POLL, concurrency=3)
            with client.consume(
                "g", topic, lambda m: handled.append(m.data), **options
            ):
                while len(handled) < 5:
                    time.sleep(0.005)
            with pytest.raises(halfpast.NotFound):
                client.get("00000000-0000-7000-8000-0000000000ff")
        with pytest.raises(halfpast.ClientClosed):
            client.get(waiting.id)
        assert sorted(handled, key=str) == list(range(5))

    await asyncio.to_thread(program)
