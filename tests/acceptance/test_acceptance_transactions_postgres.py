"""One PostgreSQL database behind several producers of one group, all of them killed.

Whoever is left answers for the others, and a database that dies in the middle of a
COMMIT has the last word. HALFPAST_CRASH_SEED=N repeats the choices of an earlier run.
"""

import asyncio
import os
import random
import time
from pathlib import Path

import msgspec
import pytest
from sqlalchemy import Engine, create_engine, func, make_url, select
from tests.acceptance.transaction_books import Books, check_books
from tests.acceptance.transaction_clerk import GROUP, ClerkProcess
from tests.acceptance.transaction_crashes import SETTINGS
from tests.integration.postgres_server import PostgresServer

from halfpast_loadtest.message import now_ms
from halfpast_loadtest.order_book import METADATA, ORDERS, REFUSED_ORDERS
from halfpast_loadtest.patient_client import PatientClient
from halfpast_loadtest.producer_process import ProducerConfig
from halfpast_loadtest.queue_reader import count_messages
from halfpast_loadtest.server_process import ServerProcess
from halfpast_loadtest.transaction_check import LocalMessage, LocalTransaction
from halfpast_loadtest.transaction_outcomes import open_count
from halfpast_loadtest.transaction_plan import TOPICS

pytest_plugins = ["tests.integration.postgres_server"]
COUNT = 400
CLERKS = 4
TIMEOUT_S = 60.0
MESSAGES = tuple[LocalMessage, ...]
CONFIG = ProducerConfig(check_after_ms=700, check_interval_ms=250, delay_ms_max=1000)


class Shop:
    """The clerks, their database, and the server they send to."""

    def __init__(
        self, folder: Path, server: ServerProcess, postgres: PostgresServer, seed: int
    ) -> None:
        url = make_url(postgres.new_database()).set(drivername="postgresql+psycopg")
        self.server = server
        self.postgres = postgres
        self.engine: Engine = create_engine(url)
        METADATA.create_all(self.engine)
        config = ProducerConfig(
            seed=seed,
            check_after_ms=CONFIG.check_after_ms,
            check_interval_ms=CONFIG.check_interval_ms,
            delay_ms_max=CONFIG.delay_ms_max,
        )
        self.clerks = [
            ClerkProcess(
                folder,
                server.address,
                config,
                url.render_as_string(hide_password=False),
                first=first,
                step=CLERKS,
                count=COUNT,
            )
            for first in range(CLERKS)
        ]

    async def kill(self, victim: str, chance: random.Random) -> None:
        """SIGKILL it and have it started again; a clerk `for good` is not."""
        if victim == "postgres":
            await asyncio.to_thread(self.postgres.stop)
            await asyncio.to_thread(self.postgres.start)
            self.engine.dispose()
        elif victim == "clerk for good":
            await self.clerks[0].kill()
        elif victim == "clerk":
            clerk = chance.choice(self.clerks[1:])
            await clerk.kill()
            await clerk.start()
        else:
            assert self.server.kill_service(victim)
            await self.server.wait_ready()

    async def grown_to(self, count: int) -> None:
        deadline = time.monotonic() + TIMEOUT_S
        while len(self.placed()) + self.refused_count() < count:
            assert time.monotonic() < deadline, "the clerks do not get on"
            await asyncio.sleep(0.03)

    async def settle(self, client: PatientClient) -> None:
        """All orders of the clerks that live, no doubt left, every message there."""
        for clerk in self.clerks[1:]:
            await clerk.wait_done(TIMEOUT_S)
        deadline = time.monotonic() + TIMEOUT_S
        while await open_count(client, GROUP):
            assert time.monotonic() < deadline, "transactions are still in doubt"
            await asyncio.sleep(0.1)
        wanted = sum(len(one.messages) for one in self.placed())
        latest_ms = now_ms() + CONFIG.delay_ms_max + 2000
        while await count_messages(client, TOPICS) < wanted:
            await asyncio.sleep(0.1)
            if now_ms() > latest_ms:
                return  # for the check to find

    def placed(self) -> list[LocalTransaction]:
        with self.engine.connect() as connection:
            rows = connection.execute(select(ORDERS)).all()
        return [
            LocalTransaction(
                number=row.number,
                transaction_id=row.transaction_id,
                placed_ms=row.placed_ms,
                messages=msgspec.json.decode(row.messages, type=MESSAGES),
            )
            for row in rows
        ]

    def refused_count(self) -> int:
        count = select(func.count()).select_from(REFUSED_ORDERS)
        with self.engine.connect() as connection:
            return connection.scalar(count) or 0


@pytest.mark.asyncio
@pytest.mark.postgres
async def test_what_is_delivered_is_what_one_shared_database_says(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    drawn = random.SystemRandom().getrandbits(32)
    seed = int(os.environ.get("HALFPAST_CRASH_SEED", drawn))
    print("seed", seed)
    chance = random.Random(seed)
    plan = ["clerk", "txn", "postgres", "clerk", "broker", "postgres", "api", "txn"]
    chance.shuffle(plan)
    plan.insert(len(plan) // 2, "clerk for good")
    server = ServerProcess(tmp_path / "data", mode="up", settings=SETTINGS)
    shop = Shop(tmp_path, server, postgres, seed)
    async with server.running():
        client = PatientClient(server.host, server.port, patience_s=40)
        try:
            await asyncio.gather(*(one.start() for one in shop.clerks))
            for number, victim in enumerate(plan):
                await shop.grown_to(COUNT // 2 * (number + 1) // (len(plan) + 1))
                await shop.kill(victim, chance)
            await shop.settle(client)
            books = await Books.read(
                client, [GROUP], shop.placed(), shop.refused_count()
            )
            problems = await check_books(client, books)
        finally:
            await asyncio.gather(*(one.kill() for one in shop.clerks))
            shop.engine.dispose()
            client.close()
        assert not problems, "\n".join([f"seed {seed}", *map(str, problems[:20])])
    print(books)
    assert len(books.outcomes) >= 300, str(books)
    assert books.settled_count >= COUNT * (CLERKS - 1) / CLERKS, str(books)
    assert books.endings["committed by check"] > 0, str(books)
    assert books.endings["rolled_back by check"] > 0, str(books)
