"""What an import does when a server says "not now", or nothing at all."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import msgspec
import pytest
from aiohttp import web

import halfpast
from halfpast_api.transfer.import_calls import ImportCalls

HASTY = halfpast.RetryPolicy(total_s=10.0, backoff_initial_s=0.001)
EVENTS = [b'{"topic":"t","data":1}', b'{"topic":"t","data":{"a" : 2}}']
LOST = 0


@dataclass(slots=True)
class Server:
    """Answers with the statuses in `moods` first; LOST cuts the connection."""

    moods: list[int]
    bodies: list[bytes] = field(default_factory=list[bytes])
    keys: list[str] = field(default_factory=list[str])
    item_status: int = 201

    async def batch(self, request: web.Request) -> web.StreamResponse:
        self.bodies.append(await request.read())
        self.keys.append(request.headers["Idempotency-Key"])
        mood = self.moods.pop(0) if self.moods else 200
        if mood == LOST:
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        if mood != 200:
            problem = {
                "status": mood,
                "code": "too_many_pending" if mood == 429 else "overloaded",
                "retryable": True,
                "errors": [{"pointer": "/events/0", "detail": "full"}],
            }
            return web.json_response(
                problem,
                status=mood,
                content_type="application/problem+json",
                headers={"Retry-After": "0"},
            )
        count = len(msgspec.json.decode(self.bodies[-1])["events"])
        states = ["stored", "scheduled"] * count
        results = [
            {"index": n, "status": self.item_status, "state": states[n]}
            for n in range(count)
        ]
        headers = {"Idempotency-Replayed": "true"} if len(self.keys) > 1 else {}
        return web.json_response({"results": results}, headers=headers)


@asynccontextmanager
async def calls_of(server: Server) -> AsyncGenerator[ImportCalls]:
    app = web.Application()
    app.router.add_post("/v1/events:batch", server.batch)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        async with ImportCalls(f"http://127.0.0.1:{port}", HASTY) as calls:
            yield calls
    finally:
        await runner.cleanup()


@pytest.mark.asyncio
@pytest.mark.parametrize("moods", [[429, 429], [503], [LOST], [429, LOST, 503]])
async def test_it_repeats_the_very_same_request(moods: list[int]) -> None:
    server = Server(list(moods))
    async with calls_of(server) as calls:
        counts = await calls.store(EVENTS, "key-1")
    assert (counts.stored, counts.scheduled, counts.recognised) == (1, 1, 2)
    assert server.keys == ["key-1"] * (len(moods) + 1)
    assert len(set(server.bodies)) == 1
    assert msgspec.json.decode(server.bodies[0])["atomic"] is True
    assert EVENTS[1] in server.bodies[0]


@pytest.mark.asyncio
async def test_an_answer_that_cannot_be_is_no_success() -> None:
    server = Server([], item_status=422)
    async with calls_of(server) as calls:
        with pytest.raises(halfpast.UnexpectedAnswer):
            await calls.store(EVENTS, "key-1")
