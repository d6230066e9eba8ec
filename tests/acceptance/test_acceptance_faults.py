"""Real faults against real processes: disks that fail, fill up or lose their power.

Each test makes producers note what they were promised (`fault_ledger.py`), lets a
fault strike, starts the server again as anybody would, and looks at the log.
"""

import asyncio
import os
import random
import shutil
import signal
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from urllib.request import urlopen

import msgspec
import pytest
from tests.acceptance.fault_disk import MIB, SmallDisk, small_disk
from tests.acceptance.fault_ledger import STORE_FULL, TOPICS, Ledger, Load
from tests.acceptance.fault_server import FaultServer, strace
from tests.acceptance.fault_tools import need_strace

from halfpast_loadtest.delivery_check import Fate
from halfpast_loadtest.event_request import problem_code
from halfpast_loadtest.http_wire import WireClient
from halfpast_loadtest.message import parse_popped
from halfpast_loadtest.queue_reader import read_topics

WRITE = "pwritev,pwritev2"  # which of the two depends on the C library
EIO_TEXT = "a frame could not be made durable: [Errno 5] Input/output error"
SPARING = {
    "HALFPAST_STORE_INDEX_WRITE_BUFFER": str(MIB),
    "HALFPAST_CHRONOS_INDEX_WRITE_BUFFER": str(MIB),
    "HALFPAST_STORE_INDEX_FLUSH_MS": "300",
    "HALFPAST_CHRONOS_INDEX_FLUSH_MS": "300",
}
SMALL = {
    **SPARING,
    "HALFPAST_STORE_LOG_SEGMENT_SIZE": str(MIB // 8),
    "HALFPAST_STORE_LOG_FRAME_SIZE": str(MIB // 32),
    "HALFPAST_STORE_LOG_FRAME_SIZE_MAX": str(MIB // 16),
}
MEDIUM = {
    **SPARING,
    "HALFPAST_STORE_LOG_SEGMENT_SIZE": str(4 * MIB),
    "HALFPAST_STORE_LOG_FRAME_SIZE": str(MIB // 4),
    "HALFPAST_STORE_LOG_FRAME_SIZE_MAX": str(MIB // 2),
}


@asynccontextmanager
async def loaded(server: FaultServer, ledger: Ledger) -> AsyncGenerator[None]:
    """Producers send to the server inside the block, as long as it answers."""
    stop = asyncio.Event()
    ledger.server_started()
    clients = [server.client() for _ in range(ledger.load.producers)]
    sending = asyncio.create_task(ledger.send_until(clients, stop))
    try:
        yield
    finally:
        stop.set()
        await sending


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that another process does."""
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0.02)


async def assert_kept(server: FaultServer, ledger: Ledger) -> None:
    """Every promise, on a server that runs."""
    client = server.patient()
    problems = await ledger.problems(client)
    client.close()
    assert not problems, "\n".join([*map(str, problems[:20]), server.log])
    assert ledger.count(Fate.ONCE) > 0, server.log


# --- a disk that fails ---------------------------------------------------------------


@pytest.mark.asyncio
@pytest.mark.parametrize("call", ["fdatasync", WRITE])
async def test_a_failing_disk_ends_dev_and_nothing_is_promised_any_more(
    tmp_path: Path, call: str
) -> None:
    need_strace()
    ledger, server = Ledger(), FaultServer(tmp_path / "data")
    try:
        server.start(*strace(call, "error=EIO:when=15"))
        assert await server.wait_ready(), server.log
        async with loaded(server, ledger):
            status = await server.wait_end()
        assert status == os.EX_IOERR, server.log
        [error] = server.errors
        assert error.endswith(EIO_TEXT), error
        assert ledger.count(Fate.AT_MOST_ONCE) > 0
        assert ledger.late_promises == 0
        await server.start_ready()
        await assert_kept(server, ledger)
    finally:
        server.kill()


@pytest.mark.asyncio
@pytest.mark.parametrize("call", ["fdatasync", WRITE])
async def test_a_failing_disk_ends_the_broker_and_up_goes_on(
    tmp_path: Path, call: str
) -> None:
    need_strace()
    ledger, server = Ledger(), FaultServer(tmp_path / "data", mode="up")
    again = f"broker  | ended with status {os.EX_IOERR}; starting it again"
    try:
        server.start(*strace(call, "error=EIO:when=60"))
        assert await server.wait_ready(), server.log
        async with asyncio.timeout(20), loaded(server, ledger):
            await until(lambda: server.stdout.count(again) >= 2)
        assert EIO_TEXT in server.stdout
        assert "Traceback" not in server.log
        await assert_kept(server, ledger)  # by what `up` has started again
    finally:
        server.kill()


def places_to_die() -> Iterator[tuple[str, int]]:
    """System calls, and which one of a thread's is its last. The first ones hit a
    new folder and the start, the later ones frames, and segments that roll."""
    yield from (("fsync", n) for n in (1, 2))
    yield from (("rename", n) for n in (1, 2))
    yield from (("fallocate", n) for n in (1, 2))
    yield from (("fdatasync", n) for n in (1, 2, 3, 5, 8, 24))
    yield from ((WRITE, n) for n in (1, 2, 3, 7, 23))


@pytest.mark.asyncio
async def test_killed_at_any_system_call_nothing_is_lost(tmp_path: Path) -> None:
    need_strace()
    ledger = Ledger(Load(body_bytes=12_000))  # a few frames fill a segment
    server = FaultServer(tmp_path / "data", settings=SMALL)
    try:
        for call, number in places_to_die():
            server.start(*strace(call, f"signal=SIGKILL:when={number}"))
            if await server.wait_ready():
                async with loaded(server, ledger):
                    await server.wait_end()
            assert await server.wait_end() == -signal.SIGKILL, server.log
        await server.start_ready()
        await assert_kept(server, ledger)
        assert len(list((server.data / "log").glob("*.seg"))) > 4
    finally:
        server.kill()


# --- a disk that is full -------------------------------------------------------------


async def consume(client: WireClient) -> int:
    """Pop a few messages and acknowledge them; gives how many."""
    asked = {"topic": TOPICS[0], "max": 4}
    popped = await client.request("POST", "/v1/groups/readers:pop", asked)
    assert popped.status == 200, popped
    receipts = [message.receipt for message in parse_popped(popped.body)]
    if receipts:
        body = {"receipts": receipts}
        acked = await client.request("POST", "/v1/groups/readers:ack", body)
        results = msgspec.json.decode(acked.body)["results"]
        assert [one["status"] for one in results] == [200] * len(receipts)
    return len(receipts)


async def send_until_full(ledger: Ledger, client: WireClient) -> None:
    while (answer := await ledger.send(client)) is not None and answer.status == 201:
        assert len(ledger.expectations) < 20_000, "there is room for ever"
    assert answer is not None
    assert answer.status == STORE_FULL, answer
    assert problem_code(answer.body) == "store_full"
    assert b"free space" in answer.body
    assert b"nothing was stored" in answer.body


@pytest.mark.asyncio
@pytest.mark.parametrize(("mode", "used_max"), [("dev", "1"), ("up", "0.95")])
async def test_a_full_disk_refuses_sends_and_nothing_else(
    tmp_path: Path, mode: str, used_max: str
) -> None:
    with small_disk(tmp_path) as disk:
        settings = MEDIUM | {"HALFPAST_STORE_LOG_DISK_USED_MAX": used_max}
        server = FaultServer(
            disk.folder / "data", mode=mode, settings=settings, output=tmp_path
        )
        try:
            await server.start_ready()
            await full_and_free_again(server, disk)
            assert await server.stop() == 0, server.log
            assert server.errors == []
        finally:
            server.kill()


async def full_and_free_again(server: FaultServer, disk: SmallDisk) -> None:
    ledger, client = Ledger(Load(body_bytes=20_000)), server.client()
    for _ in range(60):
        await ledger.send(client, TOPICS[0])
    await ledger.send(client, TOPICS[0], delay_ms=1200)  # due while it is full
    disk.fill()
    await send_until_full(ledger, client)
    consumed = 0
    for _ in range(10):  # longer than it takes to flush the indexes
        consumed += await consume(client)
        await asyncio.sleep(0.15)
    assert consumed == 40
    one = next(iter(ledger.expectations.values()))
    found = await client.request("GET", f"/v1/events/{one.event_id}")
    assert found.status == 200
    disk.free()
    for _ in range(100):  # the server looks for room once a second
        answer = await ledger.send(client)
        assert answer is not None
        if answer.status == 201:
            break
        await asyncio.sleep(0.05)
    client.close()
    assert ledger.count(Fate.AT_MOST_ONCE) == 0
    await assert_kept(server, ledger)


@pytest.mark.asyncio
async def test_a_start_without_room_tells_so_and_can_be_repeated(
    tmp_path: Path,
) -> None:
    with small_disk(tmp_path) as disk:
        server = FaultServer(disk.folder / "data", settings=MEDIUM, output=tmp_path)
        try:
            for leave in (0, 2 * MIB):  # not even a folder; no segment
                disk.fill(leave=leave)
                await refused_for_room(server)
                disk.free()
            await server.start_ready()
            ledger, client = Ledger(), server.client()
            await ledger.send(client)
            client.close()
            server.kill()
            disk.fill()
            await refused_for_room(server)  # one that holds something
            disk.free()
            await server.start_ready()
            await assert_kept(server, ledger)
        finally:
            server.kill()


async def refused_for_room(server: FaultServer) -> None:
    assert not await server.start().wait_ready(), server.log
    assert await server.wait_end() == os.EX_CONFIG, server.log
    [error] = server.errors
    assert "the disk is full; free space" in error


# --- power ---------------------------------------------------------------------------


def server_on(disk: SmallDisk, output: Path, mode: str) -> FaultServer:
    settings = MEDIUM | {"HALFPAST_STORE_LOG_SEGMENT_SIZE": str(MIB)}
    return FaultServer(
        disk.folder / "data", mode=mode, settings=settings, output=output
    )


@pytest.mark.asyncio
async def test_power_cuts_lose_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    chance = random.Random(int(os.environ.get("HALFPAST_CRASH_SEED", "1")))
    ledger = Ledger()
    with small_disk(tmp_path) as disk:
        for mode in ("dev", "dev", "up", "dev", "dev"):
            server = server_on(disk, tmp_path, mode)
            try:
                await server.start_ready()
                async with loaded(server, ledger):
                    await asyncio.sleep(chance.uniform(0.2, 1.2))
                    disk.cut_power()
                    await asyncio.sleep(0.05)
                    server.kill()
            finally:
                server.kill()
            disk.unmount()
            disk.mount()
        server = server_on(disk, tmp_path, "dev")
        try:
            await server.start_ready()
            await assert_kept(server, ledger)
        finally:
            server.kill()
    assert ledger.count(Fate.ONCE) > 500


# --- time ----------------------------------------------------------------------------


@pytest.mark.asyncio
@pytest.mark.parametrize("mode", ["dev", "up"])
async def test_a_pause_delivers_late_but_in_order_and_once(
    tmp_path: Path, mode: str
) -> None:
    ledger = Ledger(Load(delay_ms_max=3500))
    server = FaultServer(tmp_path / "data", mode=mode, settings=MEDIUM)
    try:
        await server.start_ready()
        client = server.client()
        for _ in range(300):
            await ledger.send(client, delay_ms=random.randint(300, 3500))
        for topic in TOPICS:  # by then the Delay Server knows all of them
            page = f"http://127.0.0.1:{server.port}/v1/events?topic={topic}&limit=1"
            await asyncio.to_thread(urlopen, page)
        server.signal(signal.SIGSTOP)
        await asyncio.sleep(3)
        server.signal(signal.SIGCONT)
        await ledger.send(client)  # works at once
        client.close()
        await assert_kept(server, ledger)
        patient = server.patient()
        messages = await read_topics(patient, TOPICS)
        patient.close()
    finally:
        server.kill()
    delayed = [one for one in messages if one.due_ms is not None]
    assert len(delayed) == 300
    assert sum(one.stored_ms - (one.due_ms or 0) > 500 for one in delayed) > 50
    for before, after in pairwise(delayed):
        if (before.topic, before.queue) == (after.topic, after.queue):
            assert (before.due_ms or 0) <= (after.due_ms or 0)
    shutil.rmtree(server.data)
