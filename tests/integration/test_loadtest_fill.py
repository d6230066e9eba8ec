"""Filling and working off requests, against a server that refuses some of them."""

import asyncio
import itertools
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from aiohttp import web

from halfpast_loadtest.errors import OutcomeUnknown, RequestFailed
from halfpast_loadtest.fill import FillConfig, fill
from halfpast_loadtest.http_wire import Response, request_bytes
from halfpast_loadtest.one_pass import run_once
from halfpast_loadtest.request_set import Due
from halfpast_loadtest.server_process import HOST, ServerProcess

PACKED = "application/msgpack"


class Desk:
    """Takes batches; every n-th request gets a 503, or a batch has one bad event."""

    def __init__(self, *, refuse_every: int = 0, spoil: bool = False) -> None:
        self.taken: list[bytes] = []
        self.refused = 0
        self._refuse_every = refuse_every
        self._spoil = spoil
        self._arrived = itertools.count(1)

    @asynccontextmanager
    async def running(self, port: int) -> AsyncGenerator[None]:
        application = web.Application()
        application.router.add_post("/v1/events:batch", self._batch)
        application.router.add_get("/number/{number}", self._number)
        runner = web.AppRunner(application, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, HOST, port).start()
        try:
            yield
        finally:
            await runner.cleanup()

    def _refuses(self) -> bool:
        number = next(self._arrived)
        refuses = bool(self._refuse_every) and number % self._refuse_every == 0
        self.refused += refuses
        return refuses

    async def _batch(self, request: web.Request) -> web.Response:
        events = msgspec.msgpack.decode(await request.read())["events"]
        if self._refuses():
            return web.json_response({"code": "overloaded"}, status=503)
        results = [
            {"index": index, "status": 201, "id": str(len(self.taken) + index)}
            for index, _ in enumerate(events)
        ]
        if self._spoil:
            results[-1] = {"index": len(events) - 1, "status": 422}
        self.taken += [event["data"] for event in events]
        body = msgspec.msgpack.encode({"results": results})
        return web.Response(body=body, content_type=PACKED)

    async def _number(self, request: web.Request) -> web.Response:
        if self._refuses():
            return web.json_response({"code": "overloaded"}, status=429)
        return web.Response(text=request.match_info["number"])


def config(count: int) -> FillConfig:
    dues = itertools.count(10_000)
    return FillConfig(
        topic="t",
        count=count,
        dues=lambda: Due(delay_ms=next(dues)),
        events_per_request=50,
        callers=3,
    )


@pytest.mark.asyncio
@pytest.mark.parametrize("count", [7, 1000, 1023])
async def test_exactly_so_many_are_scheduled(tmp_path: Path, count: int) -> None:
    desk = Desk(refuse_every=5)
    server = ServerProcess(tmp_path / "data")
    ids: list[str] = []
    async with desk.running(server.port):
        filled = await fill(server, config(count), ids.extend)
    assert filled.count == len(desk.taken) == len(ids) == len(set(ids)) == count
    assert filled.refused_requests == desk.refused
    assert filled.rate_per_s > 0
    assert len(filled.request_ms) == -(-count // 50)
    if count >= 1000:
        assert 9 <= len(filled.slice_rates) <= 10
        assert desk.refused >= 4


@pytest.mark.asyncio
async def test_a_batch_with_a_bad_event_ends_it(tmp_path: Path) -> None:
    desk = Desk(spoil=True)
    server = ServerProcess(tmp_path / "data")
    async with desk.running(server.port):
        with pytest.raises(RequestFailed, match="422"):
            await fill(server, config(200), lambda _: None)


@pytest.mark.asyncio
async def test_every_request_is_answered_once(tmp_path: Path) -> None:
    desk = Desk(refuse_every=3)
    server = ServerProcess(tmp_path / "data")
    answers: list[str] = []

    def took(response: Response) -> None:
        answers.append(response.body.decode())

    requests = (request_bytes("GET", f"/number/{number}") for number in range(40))
    async with desk.running(server.port):
        seen = await run_once(HOST, server.port, requests, callers=4, on_answer=took)
    assert sorted(answers, key=int) == [str(number) for number in range(40)]
    assert seen.answered == len(seen.latencies_ms) == 40
    assert seen.refused == desk.refused > 10
    assert max(seen.latencies_ms) >= 50  # the waiting counts


@pytest.mark.asyncio
async def test_a_lost_connection_ends_it() -> None:
    async def hang_up(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        await reader.readline()
        writer.close()

    server = await asyncio.start_server(hang_up, HOST, 0)
    port = server.sockets[0].getsockname()[1]
    with pytest.raises(OutcomeUnknown):
        await run_once(
            HOST, port, [request_bytes("GET", "/")], callers=1, on_answer=lambda _: None
        )
    server.close()
    await server.wait_closed()
