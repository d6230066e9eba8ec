"""Faults of the transaction service alone: its index, its process, its start.

Producers with databases of their own go on through them (see
`halfpast_loadtest.transaction_load`), and what they hold is compared with what came.
"""

import asyncio
import os
import signal
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from tests.acceptance.fault_disk import MIB, SmallDisk, small_disk
from tests.acceptance.fault_server import FaultServer
from tests.acceptance.transaction_books import Books, check_books
from tests.acceptance.transaction_crashes import settled_count

from halfpast_loadtest.http_wire import Response, WireClient
from halfpast_loadtest.producer_process import ProducerConfig
from halfpast_loadtest.server_process import HOST
from halfpast_loadtest.transaction_load import LoadConfig, TransactionLoad

ALONE = "alone"
EIO_TEXT = "Input/output error"
SETTINGS = {
    "HALFPAST_STORE_INDEX_WRITE_BUFFER": str(MIB),
    "HALFPAST_CHRONOS_INDEX_WRITE_BUFFER": str(MIB),
    "HALFPAST_TXN_INDEX_WRITE_BUFFER": str(MIB),
    "HALFPAST_STORE_INDEX_FLUSH_MS": "300",
    "HALFPAST_CHRONOS_INDEX_FLUSH_MS": "300",
    "HALFPAST_TXN_INDEX_FLUSH_MS": "300",
    "HALFPAST_STORE_LOG_SEGMENT_SIZE": str(4 * MIB),
    "HALFPAST_STORE_LOG_FRAME_SIZE": str(MIB // 4),
    "HALFPAST_STORE_LOG_FRAME_SIZE_MAX": str(MIB // 2),
}


class Loaded:
    """A server and producers of transactions that work on it."""

    def __init__(self, folder: Path, *, mode: str, count: int = 300) -> None:
        self.server = FaultServer(folder / "data", mode=mode, settings=SETTINGS)
        self.load = TransactionLoad(
            folder,
            f"http://{HOST}:{self.server.port}",
            LoadConfig(
                transaction_count=count,
                producer_count=2,
                producer=ProducerConfig(
                    check_after_ms=600, check_interval_ms=250, delay_ms_max=800
                ),
            ),
        )

    async def grown_to(self, count: int) -> None:
        await until(
            lambda: sum(settled_count(it.book) for it in self.load.producers) >= count
        )

    async def finished(self) -> None:
        """All orders done, no doubt left, every message as the databases say."""
        client = self.server.patient()
        await self.load.wait_done(60)
        await self.load.wait_settled(client, 30)
        await self.assert_kept()
        client.close()

    async def assert_kept(self) -> None:
        client = self.server.patient()
        load = self.load
        groups = [one.group for one in load.producers]
        placed, refused = load.placed(), load.refused_count()
        books = await Books.read(client, groups, placed, refused)
        problems = await check_books(client, books)
        client.close()
        assert not problems, "\n".join([*map(str, problems[:20]), self.server.log])
        assert books.settled_count == sum(one.count for one in load.producers)


@asynccontextmanager
async def loaded(
    folder: Path, *, mode: str, count: int = 300
) -> AsyncGenerator[Loaded]:
    """Started, and at work inside the block."""
    both = Loaded(folder, mode=mode, count=count)
    try:
        await both.server.start_ready()
        await both.load.start()
        yield both
    finally:
        await both.load.kill()
        both.server.kill()


@asynccontextmanager
async def txn_disk(folder: Path) -> AsyncGenerator[SmallDisk]:
    """The folder `txn` of the data folder lies on a disk of its own."""
    with small_disk(folder, 24) as disk:
        (folder / "data").mkdir()
        (disk.folder / "txn").mkdir()
        (folder / "data" / "txn").symlink_to(disk.folder / "txn")
        yield disk


async def until(condition: Callable[[], bool], timeout_s: float = 60.0) -> None:
    """Wait for something that another process does."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "it does not happen"
        await asyncio.sleep(0.02)


# --- the disk of the index -----------------------------------------------------------


@pytest.mark.asyncio
async def test_an_index_without_room_waits_and_nobody_notices(tmp_path: Path) -> None:
    async with txn_disk(tmp_path) as disk, loaded(tmp_path, mode="up") as both:
        server = both.server
        before = server.pids()
        await both.grown_to(50)
        disk.fill()
        await both.grown_to(250)
        disk.free()
        await both.finished()
        assert server.pids() == before
        assert await server.stop() == 0, server.log
        await server.start_ready()
        await both.assert_kept()


@pytest.mark.asyncio
async def test_killed_while_the_index_has_no_room(tmp_path: Path) -> None:
    async with txn_disk(tmp_path) as disk, loaded(tmp_path, mode="dev") as both:
        server = both.server
        await both.grown_to(50)
        disk.fill()
        await both.grown_to(150)
        server.kill()
        assert not await server.start().wait_ready(), server.log
        assert await server.wait_end() == os.EX_CONFIG, server.log
        [error] = server.errors
        assert "free space" in error
        disk.free()
        await server.start_ready()
        await both.finished()


@pytest.mark.asyncio
async def test_an_index_that_fails_ends_dev_and_the_next_start_has_it_all(
    tmp_path: Path,
) -> None:
    async with (
        txn_disk(tmp_path) as disk,
        loaded(tmp_path, mode="dev", count=160) as both,
    ):
        server = both.server
        await both.grown_to(60)
        disk.cut_power()
        assert await server.wait_end(30) == os.EX_IOERR, server.log
        [error] = server.errors
        assert EIO_TEXT in error, error
        disk.unmount()
        disk.mount()
        await server.start_ready()
        await both.finished()


@pytest.mark.asyncio
async def test_an_index_that_fails_for_good_ends_up_and_says_why(
    tmp_path: Path,
) -> None:
    async with (
        txn_disk(tmp_path) as disk,
        loaded(tmp_path, mode="up", count=160) as both,
    ):
        server = both.server
        await both.grown_to(60)
        disk.cut_power()
        assert await server.wait_end(90) == os.EX_CONFIG, server.log
        [error] = server.errors
        assert "txn does not start" in error
        assert EIO_TEXT in server.stdout
        assert f"txn     | ended with status {os.EX_IOERR}" in server.stdout
        assert "Traceback" not in server.log
        disk.unmount()
        disk.mount()
        await server.start_ready()
        await both.finished()


# --- a process that stands still -----------------------------------------------------


async def begin(client: WireClient, check_after_ms: int = 500) -> str:
    """A transaction that the producers of the load know nothing of; its id."""
    answer = await client.request(
        "POST",
        "/v1/transactions",
        {
            "producer_group": ALONE,
            "messages": [{"topic": ALONE, "data": 1}],
            "check_after_ms": check_after_ms,
            "check_interval_ms": 200,
        },
    )
    assert answer.status == 201, answer
    return str(msgspec.json.decode(answer.body)["id"])


async def roll_back_as_asked(client: WireClient) -> set[str]:
    """Answer what the server asks now; the ids of the transactions."""
    path = f"/v1/producer-groups/{ALONE}/checks"
    asked = await client.request("GET", f"{path}?wait_ms=3000&max=1000")
    checks = msgspec.json.decode(asked.body)["checks"]
    ids = {str(one["id"]) for one in checks}
    answers = [{"id": one, "state": "rolled_back"} for one in ids]
    answer = await client.request("POST", f"{path}:answer", {"answers": answers})
    results = msgspec.json.decode(answer.body)["results"]
    assert {one["status"] for one in results} <= {200}, results
    return ids


@pytest.mark.asyncio
async def test_while_the_service_stands_still_outcomes_wait_and_none_is_lost(
    tmp_path: Path,
) -> None:
    async with loaded(tmp_path, mode="up", count=160) as both:
        server = both.server
        client, waiting = server.client(), server.client()
        earlier = await begin(client, 60_000)
        [pid] = server.pids("txn")
        await both.grown_to(60)
        os.kill(pid, signal.SIGSTOP)
        commit = f"/v1/transactions/{earlier}:commit"
        committing = asyncio.create_task(waiting.request("POST", commit))
        until_s = time.monotonic() + 4
        later: set[str] = set()
        while time.monotonic() < until_s:  # begins do not need it
            later.add(await begin(client))
            await asyncio.sleep(0.1)
        os.kill(pid, signal.SIGCONT)
        assert_waited(await committing)
        while later:
            answered = await roll_back_as_asked(client)
            assert answered, "it does not ask"
            later -= answered
        await both.finished()
        assert server.pids("txn") == [pid]
        again = await client.request("POST", commit)
        assert again.status == 200, again
        for one in (client, waiting):
            one.close()


def assert_waited(answer: Response) -> None:
    """It came with the service, or says that another try is right."""
    if answer.status != 200:
        assert answer.status == 503, answer
        assert msgspec.json.decode(answer.body)["retryable"] is True
        assert answer.header("Retry-After") is not None
