"""The transactional load on a real server, with kills; and the books, once forged."""

import asyncio
import random
import sqlite3
from collections import Counter
from pathlib import Path

import pytest

from halfpast_loadtest.order_book import placed_transactions
from halfpast_loadtest.patient_client import PatientClient
from halfpast_loadtest.producer_process import ProducerConfig
from halfpast_loadtest.server_process import ServerProcess
from halfpast_loadtest.transaction_load import LoadConfig, TransactionLoad

ORDERS = 60
CONFIG = ProducerConfig(seed=11, check_after_ms=500, check_interval_ms=200)
# Between the local commit and the second phase of this order its producer is killed.
KILLED_AT = 5


async def run_load(server: ServerProcess, load: TransactionLoad) -> None:
    """All orders, one producer killed at a sore point, the other one anywhere, and the
    server too."""
    first = load.producers[0]
    await load.start()
    await first.wait_stopped(30)
    await first.kill()
    await first.start()
    server.kill()
    server.start()
    await server.wait_ready()
    await load.kill_one(random.Random(3))
    await load.wait_done(60)


@pytest.mark.asyncio
async def test_the_books_balance_through_kills_and_a_forged_one_is_found(
    tmp_path: Path,
) -> None:
    server = ServerProcess(tmp_path / "data")
    load = TransactionLoad(
        tmp_path,
        server.address,
        LoadConfig(
            transaction_count=ORDERS,
            producer_count=2,
            producer=CONFIG,
            stop_at=(KILLED_AT,),
        ),
    )
    async with server.running():
        client = PatientClient(server.host, server.port)
        try:
            await run_load(server, load)
            await load.wait_settled(client)
            problems = await load.check(client)
            assert problems == []
            assert load.kill_count >= 2
            placed = load.placed()
            assert KILLED_AT in {one.number for one in placed}
            assert len(placed) + load.refused_count() == ORDERS
            statuses = [await one.stop() for one in load.producers]
            assert statuses == [0, 0]
            forge(load.producers[0].book)
            found = Counter(problem.kind for problem in await load.check(client))
        finally:
            client.close()
            await load.kill()
    assert found["not_committed"] >= 1  # delivered, and the database knows nothing
    assert found["lost"] >= 1  # in the database, and never sent
    assert found["wrong_outcome"] == 2  # for the one and for the other


def forge(book: Path) -> None:
    """Let one order vanish, and invent another one."""
    first, second = placed_transactions(book)[:2]
    with sqlite3.connect(book) as connection:
        connection.execute("DELETE FROM orders WHERE number = ?", [first.number])
        connection.execute(
            "INSERT INTO orders (number, transaction_id, placed_ms, messages) "
            "SELECT 999999, 'invented', placed_ms, replace(messages, 'p0-', 'x0-') "
            "FROM orders WHERE number = ?",
            [second.number],
        )
    connection.close()


@pytest.mark.asyncio
async def test_a_producer_that_cannot_run_is_reported_with_its_last_lines(
    tmp_path: Path,
) -> None:
    load = TransactionLoad(
        tmp_path,
        "not-an-address",
        LoadConfig(transaction_count=5, producer_count=1, producer=CONFIG),
    )
    await load.start()
    with pytest.raises(Exception, match="its orders are not done") as failed:
        async with asyncio.timeout(30):
            await load.wait_done(25)
    assert "not-an-address" in failed.value.__notes__[0]
    await load.kill()
