"""The barrier against real databases: local commit and check-back, in each order.

The local transaction pauses where a test says so; what happens meanwhile is called
from there. No clock and no luck.
"""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from sqlalchemy.orm import Session
from tests.integration.client_barrier_places import (
    PLACES,
    Database,
    Ledger,
    Local,
    Order,
    asked,
    opened,
)

import halfpast

pytest_plugins = ["tests.integration.postgres_server"]
pytestmark = pytest.mark.asyncio
Answer = halfpast.CheckAnswer


@pytest_asyncio.fixture
async def db(database_url: str) -> AsyncIterator[Database]:
    async with opened(database_url) as database:
        yield database


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()


@pytest.fixture(params=PLACES, ids=lambda place: place.__name__)
def local(request: pytest.FixtureRequest) -> Local:
    place: Local = request.param
    return place


@pytest.fixture(params=["sync", "async"])
def asks_async(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "async")


async def check(
    db: Database, ledger: Ledger, tx: halfpast.Transaction, asks_async: bool = False
) -> halfpast.CheckAnswer:
    """The server asks, and takes the answer for what it is."""
    question = asked(tx)
    answer = await db.check_async(question) if asks_async else db.check(question)
    ledger.answer(tx.id, answer)
    return answer


async def nothing() -> None:
    """The local transaction does not pause."""


async def test_local_work_and_messages_commit_together(
    db: Database, ledger: Ledger, local: Local, asks_async: bool
) -> None:
    async with await ledger.begun() as tx:
        await local(db, tx, nothing)
        assert ledger.states[tx.id] == "prepared"
    assert ledger.states[tx.id] == "committed"
    assert (db.orders(), db.row(tx.id)) == (1, "committed")
    assert await check(db, ledger, tx, asks_async) is Answer.COMMITTED


async def test_local_work_and_messages_roll_back_together(
    db: Database, ledger: Ledger, local: Local, asks_async: bool
) -> None:
    tx = await ledger.begun()

    async def fail() -> None:
        raise ZeroDivisionError

    async def produce() -> None:
        async with tx:
            await local(db, tx, fail)

    with pytest.raises(ZeroDivisionError):
        await produce()
    assert ledger.states[tx.id] == "rolled_back"
    assert (db.orders(), db.row(tx.id)) == (0, None)
    assert await check(db, ledger, tx, asks_async) is Answer.ROLLED_BACK


async def test_the_check_comes_before_the_local_transaction(
    db: Database, ledger: Ledger, local: Local, asks_async: bool
) -> None:
    tx = await ledger.begun()

    async def produce() -> None:
        async with tx:
            assert await check(db, ledger, tx, asks_async) is Answer.ROLLED_BACK
            await local(db, tx, nothing)

    with pytest.raises(halfpast.BarrierClosed) as caught:
        await produce()
    assert caught.value.transaction == tx.id
    assert ledger.states[tx.id] == "rolled_back"
    assert (db.orders(), db.row(tx.id)) == (0, "rolled_back")
    assert await check(db, ledger, tx, asks_async) is Answer.ROLLED_BACK


async def test_the_local_transaction_pauses_before_its_row_and_the_check_wins(
    db: Database, ledger: Ledger, local: Local, asks_async: bool
) -> None:
    """It sends within the block, so it has no row when the check comes."""
    tx = ledger.transaction()

    async def pause() -> None:
        await tx.send("t", 1)
        assert await check(db, ledger, tx, asks_async) is Answer.ROLLED_BACK

    async def produce() -> None:
        async with tx:
            await local(db, tx, pause)

    with pytest.raises(halfpast.BarrierClosed):
        await produce()
    assert ledger.states[tx.id] == "rolled_back"
    assert (db.orders(), db.row(tx.id)) == (0, "rolled_back")


async def test_the_local_transaction_pauses_behind_its_row_and_wins(
    db: Database, ledger: Ledger, local: Local, asks_async: bool
) -> None:
    """The check waits for it, gives up, and decides nothing."""
    tx = await ledger.begun()

    async def pause() -> None:
        assert await check(db, ledger, tx, asks_async) is Answer.UNKNOWN
        assert ledger.states[tx.id] == "prepared"

    async with tx:
        await local(db, tx, pause)
    assert (db.orders(), db.row(tx.id)) == (1, "committed")
    assert await check(db, ledger, tx, asks_async) is Answer.COMMITTED


async def test_a_lost_commit_is_settled_by_the_check(
    db: Database, ledger: Ledger, local: Local, asks_async: bool
) -> None:
    """The producer dies between its local commit and telling the server."""
    tx = await ledger.begun()
    await local(db, tx, nothing)
    assert ledger.states[tx.id] == "prepared"
    assert await check(db, ledger, tx, asks_async) is Answer.COMMITTED
    assert ledger.states[tx.id] == "committed"


async def test_messages_can_be_sent_within_the_block(
    db: Database, ledger: Ledger, local: Local
) -> None:
    tx = ledger.transaction()

    async def send() -> None:
        await tx.send("t", 1)

    async with tx:
        await local(db, tx, send)
    assert ledger.states[tx.id] == "committed"
    assert db.row(tx.id) == "committed"


async def test_without_messages_there_is_no_row(db: Database, ledger: Ledger) -> None:
    async with ledger.transaction() as tx:
        with Session(db.engine) as session, halfpast.barrier(session, tx):
            session.add(Order(id="1"))
    assert db.orders() == 1
    assert ledger.states == {}
