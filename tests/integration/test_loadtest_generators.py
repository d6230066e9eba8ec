"""The generators of transactions against a small server that can be told to refuse."""

import asyncio
import itertools
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from aiohttp import web

from halfpast_core_store.broker import Empty
from halfpast_core_store.broker_rpc import serve_broker
from halfpast_core_store.config import LanesConfig, LogConfig, StoreConfig
from halfpast_core_store.service import BrokerService
from halfpast_loadtest.closed_loop import LoopConfig
from halfpast_loadtest.flood_process import FloodProcess
from halfpast_loadtest.open_loop import OpenLoop, OpenLoopConfig
from halfpast_loadtest.sdk_transactions import run_sdk_transactions
from halfpast_loadtest.server_process import HOST, free_port
from halfpast_loadtest.transaction_loop import run_transactions
from halfpast_loadtest.transaction_request import begin_request

MIB = 1024 * 1024
BEGINS = [begin_request("g", "orders", b'{"a":1}')]


class Desk:
    """Begins and commits by the contract, in memory.

    `refuse_every`: so many begins get one 503. `hold`: no begin is answered before
    so many have come.
    """

    def __init__(self, *, refuse_every: int = 0, hold: int = 0) -> None:
        self.port = free_port()
        self.begun: set[str] = set()
        self.committed: list[str] = []
        self.refused = 0
        self._refuse_every = refuse_every
        self._hold = hold
        self._arrived = 0
        self._released = asyncio.Event()
        self._numbers = itertools.count(1)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        application = web.Application()
        application.add_routes(
            [
                web.post("/v1/transactions", self._begin),
                web.post("/v1/transactions:batch", self._begin_batch),
                web.post("/v1/transactions:end", self._end_all),
                web.post("/v1/transactions/{id}:commit", self._commit),
            ]
        )
        runner = web.AppRunner(application, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, HOST, self.port).start()
        try:
            yield
        finally:
            await runner.cleanup()

    async def _begin(self, request: web.Request) -> web.Response:
        await request.read()
        self._arrived += 1
        if self._hold:
            if self._arrived == self._hold:
                self._released.set()
            await self._released.wait()
        if self._refuse_every and self._arrived % self._refuse_every == 0:
            self.refused += 1
            return web.json_response({"code": "overloaded"}, status=503)
        answer = {"id": self._new(), "state": "prepared"}
        return web.Response(status=201, body=msgspec.json.encode(answer))

    async def _begin_batch(self, request: web.Request) -> web.Response:
        body = msgspec.msgpack.decode(await request.read())
        results = [
            {"index": index, "status": 201, "id": self._new(), "state": "prepared"}
            for index, _ in enumerate(body["transactions"])
        ]
        return packed({"results": results})

    async def _commit(self, request: web.Request) -> web.Response:
        self._end(request.match_info["id"])
        return web.json_response({"state": "committed"})

    async def _end_all(self, request: web.Request) -> web.Response:
        body = msgspec.msgpack.decode(await request.read())
        for end in body["ends"]:
            assert end["state"] == "committed"
            self._end(end["id"])
        results = [
            {"index": index, "status": 200, "id": end["id"], "state": end["state"]}
            for index, end in enumerate(body["ends"])
        ]
        return packed({"results": results})

    def _new(self) -> str:
        transaction_id = f"01a1f807-0000-7000-8000-{next(self._numbers):08x}0000"
        self.begun.add(transaction_id)
        return transaction_id

    def _end(self, transaction_id: str) -> None:
        self.begun.remove(transaction_id)  # it is one, and it is open
        self.committed.append(transaction_id)


def packed(body: object) -> web.Response:
    return web.Response(
        body=msgspec.msgpack.encode(body), content_type="application/msgpack"
    )


@pytest.mark.asyncio
async def test_the_closed_loop_commits_whatever_it_begins() -> None:
    desk = Desk(refuse_every=50)
    windows: list[int] = []
    async with desk.running():
        figures = await run_transactions(
            HOST,
            desk.port,
            BEGINS,
            LoopConfig(callers=3, seconds=0.5, warmup_s=0.1),
            on_window=lambda: windows.append(figures_seen(desk)),
        )
    assert not desk.begun
    assert figures.committed == len(desk.committed) > 10
    assert figures.failed == desk.refused > 0
    assert len(windows) == 2
    assert figures.window_committed <= windows[1]
    assert abs(len(figures.begins_ms) - len(figures.commits_ms)) <= 3


def figures_seen(desk: Desk) -> int:
    return len(desk.committed) + len(desk.begun)


@pytest.mark.asyncio
async def test_the_sdk_commits_whatever_it_begins() -> None:
    desk = Desk()
    async with desk.running():
        figures = await run_sdk_transactions(
            f"http://{HOST}:{desk.port}",
            "g",
            "orders",
            [b'{"a":1}'] * 20,
            LoopConfig(callers=8, seconds=0.5, warmup_s=0.1),
        )
    assert not desk.begun
    assert figures.committed == len(desk.committed) > 10
    assert figures.failed == 0
    assert figures.window_cpu_s > 0


@pytest.mark.asyncio
async def test_the_open_loop_charges_the_server_for_what_it_holds_up() -> None:
    """No begin is answered before 100 have come, which takes a fifth of a second at
    500 per second: a generator that waited for answers would never get there."""
    desk = Desk(hold=100)
    config = OpenLoopConfig(rate_per_s=500, seconds=0.6, warmup_s=0.0)
    async with desk.running():
        figures = await OpenLoop(HOST, desk.port, BEGINS, config).run()
    assert len(desk.committed) == figures.committed == figures.measured_count == 300
    assert len(figures.begins_ms) == len(figures.commits_ms) == 300
    # The first one has waited for the hundredth, each next one 2 ms less.
    slow = sum(took_ms > 100 for took_ms in figures.begins_ms)
    assert max(figures.begins_ms) >= 198
    assert slow >= 40
    assert figures.unfinished == figures.failed == 0


@pytest.mark.asyncio
async def test_the_open_loop_asks_again_and_tells_how_often() -> None:
    desk = Desk(refuse_every=4)
    config = OpenLoopConfig(rate_per_s=400, seconds=0.3, warmup_s=0.2, again_s=0.02)
    async with desk.running():
        figures = await OpenLoop(HOST, desk.port, BEGINS, config).run()
    assert figures.committed == len(desk.committed) == 200
    assert figures.begins_refused == desk.refused > 30
    assert figures.measured_count == 120


@pytest.mark.asyncio
async def test_the_flood_keeps_a_brokers_send_lane_full(tmp_path: Path) -> None:
    config = StoreConfig(
        log=LogConfig(segment_size=64 * MIB),
        lanes=LanesConfig(request_count_max=8),
    )
    broker = await BrokerService.open(tmp_path / "data", config)
    address = f"unix:{tmp_path}/broker.sock"
    server = await serve_broker(broker, address)
    try:
        flood = FloodProcess(
            address, outstanding=64, records=4, body_bytes=1000, pause_s=0.05
        )
        async with flood:  # entered when the lane is full
            for _ in range(3000):
                if await refused_by(broker) >= 200:
                    break
                await asyncio.sleep(0.01)
            report = await flood.stop()
    finally:
        await server.stop()
        await broker.close()
    assert report.refused > 0
    assert report.offered_of_accepted > 1
    assert report.records_per_append == 4
    assert report.lane.looks > 0
    assert report.lane.end_refused == 0


async def refused_by(broker: BrokerService) -> float:
    """How many sends found the lane full."""
    status = await broker.status(Empty())
    return status.counters['lane_refused_total{lane="send"}']
