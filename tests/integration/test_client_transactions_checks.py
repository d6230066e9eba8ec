"""The transactional producer: check-backs over HTTP, fake server and real one."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import timedelta
from urllib.request import Request, urlopen
from uuid import uuid4

import pytest
import pytest_asyncio
from aiohttp.test_utils import TestServer
from tests.integration.cli_process import Suite
from tests.integration.client_fake_server import Fault
from tests.integration.client_fake_transactions import FakeTransactionServer

import halfpast

HEADERS = {"Content-Type": "application/json"}
POLL = timedelta(milliseconds=100)
HASTY = halfpast.RetryPolicy(
    total_s=0.3, attempt_s=0.2, backoff_initial_s=0.001, backoff_max_s=0.01
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
async def client(fake: FakeTransactionServer) -> AsyncIterator[halfpast.Client]:
    async with (
        TestServer(fake.app()) as server,
        halfpast.Client(str(server.make_url("/")), retry=HASTY) as client,
    ):
        yield client


class Asked:
    """A check function that notes its questions."""

    def __init__(self, answer: object = "committed") -> None:
        self.questions: list[halfpast.TransactionCheck] = []
        self.answer = answer

    async def __call__(self, check: halfpast.TransactionCheck) -> str:
        return self.note(check)

    def note(self, check: halfpast.TransactionCheck) -> str:
        self.questions.append(check)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer  # type: ignore[return-value]


async def begun(client: halfpast.Client, count: int = 1) -> list[str]:
    """Transactions that nobody ends."""
    ids: list[str] = []
    for number in range(count):
        tx = client.transaction("orders", reference=f"order {number}")
        await tx.send("t", number, key="k")
        ids.append(tx.id)
    return ids


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.001)


async def answered(fake: FakeTransactionServer, count: int) -> list[str]:
    """All answers, as soon as there are so many."""
    while True:
        given = [a for begun in fake.transactions.values() for a in begun.answers]
        if len(given) >= count:
            return given
        fake.answered.clear()
        await fake.answered.wait()


@pytest.mark.parametrize(
    ("answer", "state"),
    [
        ("committed", "committed"),
        (halfpast.CheckAnswer.COMMITTED, "committed"),
        ("rolled_back", "rolled_back"),
        (halfpast.CheckAnswer.UNKNOWN, "prepared"),
        ("perhaps", "prepared"),
        (True, "prepared"),
        (None, "prepared"),
        (ZeroDivisionError("oops"), "prepared"),
    ],
)
@pytest.mark.parametrize("in_thread", [False, True])
async def test_only_a_plain_answer_decides(
    client: halfpast.Client,
    fake: FakeTransactionServer,
    answer: object,
    state: str,
    in_thread: bool,
) -> None:
    asked = Asked(answer)
    check = asked.note if in_thread else asked
    async with halfpast.TransactionalProducer(client, "orders", check, poll=POLL):
        [name] = await begun(client)
        fake.ask(name)
        await answered(fake, 1)
    assert fake.states == [state]
    [question] = asked.questions
    assert (question.id, question.check) == (name, 1)
    assert (question.reference, question.message_count) == ("order 0", 1)
    [message] = question.messages
    assert (message.topic, message.key, message.tag) == ("t", "k", None)


async def test_what_keeps_failing_is_logged_once(
    client: halfpast.Client,
    fake: FakeTransactionServer,
    caplog: pytest.LogCaptureFixture,
) -> None:
    asked = Asked(ZeroDivisionError("oops"))
    async with halfpast.TransactionalProducer(
        client, "orders", asked, poll=POLL
    ) as producer:
        for name in await begun(client, 50):
            fake.ask(name)
        assert await answered(fake, 50) == ["unknown"] * 50
    assert (producer.answered, producer.failed, producer.lost) == (0, 50, 0)
    assert caplog.text.count("oops (0 more") == 1
    assert len(caplog.records) == 1


async def test_a_check_that_takes_too_long_is_unknown(
    client: halfpast.Client, fake: FakeTransactionServer
) -> None:
    async def check(question: halfpast.TransactionCheck) -> str:
        await asyncio.Event().wait()
        return "committed"

    limit = timedelta(milliseconds=10)
    async with halfpast.TransactionalProducer(
        client, "orders", check, poll=POLL, check_timeout=limit
    ):
        [name] = await begun(client)
        fake.ask(name)
        assert await answered(fake, 1) == ["unknown"]


async def test_checks_run_side_by_side_and_answers_travel_together(
    client: halfpast.Client, fake: FakeTransactionServer
) -> None:
    together = asyncio.Event()
    running = 0

    async def check(question: halfpast.TransactionCheck) -> str:
        nonlocal running
        running += 1
        if running == 8:
            together.set()
        await together.wait()
        return "committed"

    async with halfpast.TransactionalProducer(
        client, "orders", check, poll=POLL, concurrency=8
    ):
        for name in await begun(client, 16):
            fake.ask(name)
        await answered(fake, 16)
    assert fake.states == ["committed"] * 16
    answers = [path for path in fake.requests if path.endswith(":answer")]
    assert len(answers) < 8


async def test_stop_finishes_running_checks_and_sends_their_answers(
    client: halfpast.Client, fake: FakeTransactionServer
) -> None:
    begun_checking, go_on = asyncio.Event(), asyncio.Event()

    async def check(question: halfpast.TransactionCheck) -> str:
        begun_checking.set()
        await go_on.wait()
        return "rolled_back"

    producer = halfpast.TransactionalProducer(client, "orders", check, poll=POLL)
    running = asyncio.create_task(producer.run())
    [name] = await begun(client)
    fake.ask(name)
    await begun_checking.wait()
    producer.stop()
    go_on.set()
    await running
    assert fake.states == ["rolled_back"]


async def test_a_server_in_trouble_is_waited_for(
    client: halfpast.Client,
    fake: FakeTransactionServer,
    caplog: pytest.LogCaptureFixture,
) -> None:
    [name] = await begun(client)
    fake.faults = [Fault.NONSENSE, Fault.BAD_GATEWAY, Fault.NONSENSE]
    async with halfpast.TransactionalProducer(client, "orders", Asked(), poll=POLL):
        await until(lambda: not fake.faults)
        fake.ask(name)
        await answered(fake, 1)
    assert fake.states == ["committed"]
    warnings = [r for r in caplog.records if r.levelno >= logging.WARNING]
    assert len(warnings) == 1


async def test_an_answer_that_is_lost_is_asked_for_again(
    client: halfpast.Client, fake: FakeTransactionServer
) -> None:
    asked = Asked()
    async with halfpast.TransactionalProducer(
        client, "orders", asked, poll=POLL, concurrency=1
    ) as producer:
        [name] = await begun(client)
        fake.ask(name)
        await until(lambda: bool(asked.questions))
        fake.faults = [Fault.LOST_REQUEST] * 10_000
        await until(lambda: producer.lost + len(fake.transactions[name].answers) > 0)
        fake.faults = []
        fake.ask(name)
        await answered(fake, 1)
    assert fake.states == ["committed"]


async def test_a_closed_client_ends_it(client: halfpast.Client) -> None:
    producer = halfpast.TransactionalProducer(client, "orders", Asked(), poll=POLL)
    await client.close()
    with pytest.raises(halfpast.ClientClosed):
        await producer.run()


async def test_the_producer_gives_its_settings_to_its_transactions(
    client: halfpast.Client, fake: FakeTransactionServer
) -> None:
    producer = halfpast.TransactionalProducer(
        client, "orders", Asked(), check_after=timedelta(seconds=1), check_max=2
    )
    async with producer.transaction(reference="mine") as tx:
        await tx.send("t", 1)
    body = fake.transactions[tx.id].body
    assert (body["check_after_ms"], body["check_max"]) == (1000, 2)
    assert (body["producer_group"], body["reference"]) == ("orders", "mine")


async def test_the_real_server_asks_and_believes(real_url: str) -> None:
    topic, group = f"t{uuid4().hex}", f"g{uuid4().hex}"
    all_asked = asyncio.Event()
    answers = {"keep": "committed", "drop": "rolled_back"}

    async def check(question: halfpast.TransactionCheck) -> str:
        seen[question.reference] = question
        if len(seen) == 2:
            all_asked.set()
        return answers[question.reference]

    seen: dict[str, halfpast.TransactionCheck] = {}
    async with (
        halfpast.Client(real_url) as client,
        halfpast.TransactionalProducer(
            client, group, check, poll=POLL, check_after=timedelta(milliseconds=50)
        ) as producer,
    ):
        for reference in ("keep", "drop"):
            await producer.transaction(reference=reference).send(topic, reference)
        await all_asked.wait()
        [message] = await client.pop("c", topic, wait=timedelta(seconds=10))
        assert message.data == "keep"
        assert await client.pop("c", topic) == []
    assert {c.message_count for c in seen.values()} == {1}
    assert {c.messages[0].topic for c in seen.values()} == {topic}
    assert all(c.begun_at is not None for c in seen.values())


async def test_the_real_server_may_be_restarted(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    data = tmp_path_factory.mktemp("restarted")
    asked = Asked()
    suite = Suite("dev", data, "--port", "0").wait_ready()
    url = suite.address
    port = url.rpartition(":")[2]
    # A question may get lost with a call that this hasty client gives up.
    settings = b'{"check_interval_ms": 500}'
    group = f"{url}/v1/producer-groups/orders"
    await asyncio.to_thread(urlopen, Request(group, settings, HEADERS, method="PUT"))
    try:
        async with halfpast.Client(url, retry=HASTY) as client:
            tx = client.transaction("orders", check_after=timedelta(seconds=1))
            await tx.send("t", 1)
            async with halfpast.TransactionalProducer(
                client, "orders", asked, poll=POLL
            ):
                await asyncio.to_thread(suite.stop)
                suite = await asyncio.to_thread(
                    lambda: Suite("dev", data, "--port", port).wait_ready()
                )
                waiting = timedelta(seconds=20)
                [message] = await client.pop("c", "t", wait=waiting)
        assert message.data == 1
    finally:
        suite.stop()
    assert {question.id for question in asked.questions} == {tx.id}
