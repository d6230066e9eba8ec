"""Local commit and check-back at the same time, again and again: never both.

Sometimes one of them gets a head start, sometimes both run free. Which one wins does
not matter; that both know the same winner does.
"""

import asyncio
import random
import threading
import time
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session
from tests.integration.client_barrier_places import (
    Database,
    Ledger,
    Local,
    asked,
    in_async_connection,
    in_async_session,
    in_begun_async_session,
    in_begun_connection,
    in_begun_session,
    in_session,
    opened,
    order,
)
from tests.integration.postgres_server import PostgresServer

import halfpast

pytest_plugins = ["tests.integration.postgres_server"]
pytestmark = pytest.mark.asyncio
Answer = halfpast.CheckAnswer
RACES = 100


@pytest_asyncio.fixture
async def db(database_url: str) -> AsyncIterator[Database]:
    async with opened(database_url) as database:
        yield database


class Race:
    """One transaction; its local part and one check-back, to be run at once."""

    def __init__(self, db: Database, ledger: Ledger, local: Local, seed: int) -> None:
        chance = random.Random(seed)
        self.check_is_first = seed % 4 == 0
        self.local_is_first = seed % 4 == 1
        self.local_pauses = chance.choice([0, 0, 1, 3])
        self.check_pauses = chance.choice([0, 0, 1, 3])
        self.sends_late = self.check_is_first or chance.random() < 0.5
        self.tx = ledger.transaction()
        self.begun, self.checked, self.done = (threading.Event() for _ in range(3))
        self._db = db
        self._ledger = ledger
        self._local = local

    async def produce(self) -> None:
        try:
            async with self.tx:
                if not self.sends_late:
                    await self.tx.send("t", 1)
                    self.begun.set()
                await self._local(self._db, self.tx, self._step)
        except halfpast.BarrierClosed:
            pass
        except OperationalError as error:  # SQLite has one writer
            if "locked" not in str(error):
                raise
        finally:
            self.done.set()

    async def _step(self) -> None:
        """Within the local transaction."""
        if self.sends_late:
            await self.tx.send("t", 1)
            self.begun.set()
        await pause(self.local_pauses)
        if self.check_is_first:
            await until(self.checked)

    async def check_begins(self) -> None:
        await until(self.done if self.local_is_first else self.begun)
        await pause(self.check_pauses)

    def check_ends(self, answer: halfpast.CheckAnswer) -> None:
        self.checked.set()
        self._ledger.answer(self.tx.id, answer)

    async def settled(self) -> bool:
        """Check back until there is an answer; whether the order is there."""
        answer = Answer.UNKNOWN
        while answer is Answer.UNKNOWN:
            answer = self._db.check(asked(self.tx))
        self._ledger.answer(self.tx.id, answer)
        has_order = self._db.has_order(self.tx.id)
        assert has_order is (answer is Answer.COMMITTED)
        assert has_order is (self._ledger.states[self.tx.id] == "committed")
        assert has_order is (self._db.row(self.tx.id) == "committed")
        return has_order


async def pause(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0.0005)


async def until(event: threading.Event) -> None:
    while not event.is_set():
        await pause(1)


@pytest.mark.parametrize(
    "local", [in_async_session, in_begun_async_session, in_async_connection]
)
async def test_tasks_race(db: Database, local: Local) -> None:
    async def check(race: Race) -> None:
        await race.check_begins()
        race.check_ends(await db.check_async(asked(race.tx)))

    ledger, won = Ledger(), set[bool]()
    for seed in range(RACES):
        race = Race(db, ledger, local, seed)
        await asyncio.gather(race.produce(), check(race))
        won.add(await race.settled())
    assert won == {True, False}


@pytest.mark.parametrize("local", [in_session, in_begun_session, in_begun_connection])
async def test_threads_race(db: Database, local: Local) -> None:
    async def check(race: Race) -> None:
        await race.check_begins()
        race.check_ends(db.check(asked(race.tx)))

    ledger, won = Ledger(), set[bool]()
    for seed in range(RACES):
        race = Race(db, ledger, local, seed)
        await asyncio.gather(
            asyncio.to_thread(asyncio.run, check(race)),
            asyncio.to_thread(asyncio.run, race.produce()),
        )
        won.add(await race.settled())
    assert won == {True, False}


@pytest.mark.postgres
@pytest.mark.parametrize("commits", [True, False])
async def test_a_check_that_waits_for_the_local_transaction_learns_its_end(
    postgres: PostgresServer, commits: bool
) -> None:
    """PostgreSQL lets the check's insert wait for the one that came before."""
    ledger = Ledger()
    async with opened(postgres.new_database()) as db:
        patient = halfpast.barrier_check(db.engine)
        tx = await ledger.begun()
        with Session(db.engine) as session, session.begin() as transaction:
            with halfpast.barrier(session, tx):
                session.add(order(tx))
            waiting = asyncio.create_task(asyncio.to_thread(patient, asked(tx)))
            await asyncio.to_thread(_until_blocked, postgres)
            assert not waiting.done()
            if not commits:
                transaction.rollback()
        answer = await waiting
        expected = Answer.COMMITTED if commits else Answer.ROLLED_BACK
        assert answer is expected
        assert db.has_order(tx.id) is commits
        assert tx.local is halfpast.LocalOutcome[expected.name]


def _until_blocked(postgres: PostgresServer) -> None:
    query = "SELECT count(*) FROM pg_locks WHERE NOT granted"
    with postgres.connect() as connection:
        deadline_s = time.monotonic() + 20
        while True:
            row = connection.execute(query).fetchone()
            if row is not None and row[0]:
                return
            assert time.monotonic() < deadline_s
