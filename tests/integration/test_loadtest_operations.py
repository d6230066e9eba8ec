"""Bulk cancels and counts as the benches ask for them, from a small server."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web

from halfpast_loadtest.cancel import TOPIC, cancel_in_bulk
from halfpast_loadtest.errors import RequestFailed
from halfpast_loadtest.pending_count import pending_count
from halfpast_loadtest.server_process import HOST, ServerProcess


class Desk:
    """Cancels `changed` of `pending` events in three looks; then its count is exact."""

    def __init__(self, *, pending: int, changed: int, state: str = "done") -> None:
        self.asked: list[dict[str, Any]] = []
        self._pending = pending
        self._changed = changed
        self._state = state
        self._looks = 0

    @asynccontextmanager
    async def running(self, port: int) -> AsyncGenerator[None]:
        application = web.Application()
        application.router.add_post("/v1/events:cancel", self._cancel)
        application.router.add_get("/v1/operations/{id}", self._operation)
        application.router.add_get("/v1/due", self._due)
        async with serving(application, port):
            yield

    async def _cancel(self, request: web.Request) -> web.Response:
        self.asked.append(msgspec.json.decode(await request.read()))
        self._looks = 0
        return web.json_response({"id": "op", "state": "running"}, status=202)

    async def _operation(self, _: web.Request) -> web.Response:
        self._looks += 1
        changed = 0 if self.asked[-1]["dry_run"] else self._changed
        over = self._looks == 3
        view = {"id": "op", "state": self._state if over else "running"}
        return web.json_response(
            {**view, "matched": self._pending, "changed": changed if over else 1}
        )

    async def _due(self, _: web.Request) -> web.Response:
        self._looks += 1
        exact = self._looks >= 3
        pending = self._pending if exact else 1
        return web.json_response({"pending": pending, "exact": exact, "buckets": []})


@asynccontextmanager
async def serving(application: web.Application, port: int) -> AsyncGenerator[None]:
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, HOST, port).start()
    try:
        yield
    finally:
        await runner.cleanup()


@pytest.mark.asyncio
async def test_a_bulk_is_tried_first_and_then_done(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path / "data")
    desk = Desk(pending=500, changed=500)
    async with desk.running(server.port):
        found = await cancel_in_bulk(server, 500)
    assert desk.asked == [
        {"topic": TOPIC, "dry_run": True},
        {"topic": TOPIC, "dry_run": False},
    ]
    assert found is not None
    assert found["rate_per_s"] == pytest.approx(500 / found["seconds"], rel=0.02)


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("pending", "changed", "state"),
    [(500, 499, "done"), (501, 500, "done"), (500, 500, "cancelled")],
)
async def test_another_number_or_end_is_a_failure(
    tmp_path: Path, pending: int, changed: int, state: str
) -> None:
    server = ServerProcess(tmp_path / "data")
    async with Desk(pending=pending, changed=changed, state=state).running(server.port):
        with pytest.raises(RequestFailed, match="bulk cancel"):
            await cancel_in_bulk(server, 500)


@pytest.mark.asyncio
async def test_the_count_is_taken_when_it_is_exact(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path / "data")
    async with Desk(pending=7, changed=0).running(server.port):
        count = await pending_count(server)
    assert count is not None
    assert count.pending == 7
    assert count.seconds >= 0.2


@pytest.mark.asyncio
async def test_a_server_without_the_calls_is_no_failure(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path / "data")
    async with serving(web.Application(), server.port):
        assert await cancel_in_bulk(server, 1) is None
        assert await pending_count(server) is None
