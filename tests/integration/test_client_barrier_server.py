"""The whole way: real server, real check-backs, real databases.

The local transaction pauses until the server has asked and has been answered. Who
commits late must abort; who committed, but could not say so, is believed.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from uuid import uuid4

import pytest
import pytest_asyncio
from tests.integration.cli_process import Suite
from tests.integration.client_barrier_places import (
    Database,
    Local,
    in_async_session,
    in_session,
    opened,
)

import halfpast

pytest_plugins = ["tests.integration.postgres_server"]
pytestmark = pytest.mark.asyncio
POLL = timedelta(milliseconds=100)
SOON = timedelta(milliseconds=50)


@pytest.fixture(scope="module")
def real_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with Suite("dev", tmp_path_factory.mktemp("data"), "--port", "0") as suite:
        yield suite.address


@pytest_asyncio.fixture
async def db(database_url: str) -> AsyncIterator[Database]:
    async with opened(database_url) as database:
        yield database


@pytest_asyncio.fixture
async def client(real_url: str) -> AsyncIterator[halfpast.Client]:
    async with halfpast.Client(real_url) as client:
        yield client


async def nothing() -> None:
    """The local transaction itself does not pause."""


@pytest.mark.parametrize("local", [in_session, in_async_session])
async def test_a_local_commit_after_the_check_back_aborts(
    client: halfpast.Client, db: Database, local: Local
) -> None:
    topic, group = f"t{uuid4().hex}", f"g{uuid4().hex}"
    answered = asyncio.Event()

    async def check(question: halfpast.TransactionCheck) -> halfpast.CheckAnswer:
        answer = await db.check_async(question)
        answered.set()
        return answer

    async def produce() -> None:
        async with producer.transaction() as tx:
            await tx.send(topic, 1)
            await answered.wait()
            await local(db, tx, nothing)

    async with halfpast.TransactionalProducer(
        client, group, check, poll=POLL, check_after=SOON
    ) as producer:
        with pytest.raises(halfpast.BarrierClosed):
            await produce()
    assert db.orders() == 0
    assert await client.pop("c", topic, wait=timedelta(milliseconds=200)) == []


@pytest.mark.parametrize("local", [in_session, in_async_session])
async def test_a_local_commit_that_could_not_be_told_is_believed(
    client: halfpast.Client, db: Database, local: Local
) -> None:
    topic, group = f"t{uuid4().hex}", f"g{uuid4().hex}"

    async with halfpast.TransactionalProducer(
        client, group, db.check_async, poll=POLL, check_after=timedelta(seconds=1)
    ) as producer:
        tx = producer.transaction()
        await tx.send(topic, 1)
        await local(db, tx, nothing)  # and then the producer is gone
        [message] = await client.pop("c", topic, wait=timedelta(seconds=20))
    assert message.data == 1
    assert db.orders() == 1
    with pytest.raises(halfpast.TransactionMisuse):
        await tx.rollback()
