"""Slow, idle, greedy and rude clients, with raw sockets and short deadlines."""

import asyncio
import gzip
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from tests.integration.api_server import Api, serve
from tests.integration.api_stub import StubServices

from halfpast_api.config import ApiConfig, BodyLimits, ConnectionLimits

pytestmark = pytest.mark.asyncio
HASTY = ConnectionLimits(
    header_timeout_s=0.3,
    body_timeout_s=0.3,
    body_rate_min=10_000_000,
    idle_timeout_s=0.3,
    write_timeout_s=0.3,
    sweep_s=0.05,
    lingering_s=0.2,
)
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
POST = b"POST /v1/topics/orders/events HTTP/1.1\r\nHost: x\r\n"


@asynccontextmanager
async def hasty_api(
    folder: Path, services: StubServices | None = None, **limits: Any
) -> AsyncGenerator[Api]:
    services = services or StubServices()
    config = ApiConfig(port=0, connections=replace(HASTY, **limits))
    async with serve(*services.all, folder, config) as api:
        yield api


@pytest_asyncio.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    async with hasty_api(tmp_path) as api:
        yield api


class Line:
    """A raw connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter):
        self.reader = reader
        self.writer = writer

    async def answer(self) -> bytes:
        """One answer with its body."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        size = int(head.partition(b"Content-Length: ")[2].partition(b"\r\n")[0])
        return head + await self.reader.readexactly(size)

    async def rest(self, timeout_s: float = 3.0) -> bytes:
        """All that comes until the server hangs up, b"reset" if it does so rudely."""
        async with asyncio.timeout(timeout_s):
            try:
                return await self.reader.read()
            except ConnectionResetError:  # it had not read all that was sent
                return b"reset"


@asynccontextmanager
async def line(api: Api, sent: bytes = b"") -> AsyncGenerator[Line]:
    reader, writer = await asyncio.open_connection("127.0.0.1", api.port)
    try:
        writer.write(sent)
        yield Line(reader, writer)
    finally:
        writer.close()


async def ended(api: Api, reason: str) -> int:
    """How many connections were ended for this reason."""
    text = (await api.get("/metrics")).content.decode()
    name = f'halfpast_http_connections_ended_total{{reason="{reason}"}} '
    return int(float(text.partition(name)[2].partition("\n")[0] or 0))


# --- slow clients ---------------------------------------------------------------


async def test_a_client_that_says_nothing_is_cut_off(api: Api) -> None:
    async with line(api) as quiet:
        began = time.monotonic()
        answer = await quiet.rest()
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert 0.2 < time.monotonic() - began < 2
    assert await ended(api, "header_timeout") == 1


async def test_headers_that_trickle_in_are_cut_off(api: Api) -> None:
    async with line(api, b"GET /healthz HTTP/1.1\r\n") as slow:
        began = time.monotonic()
        reading = asyncio.create_task(slow.rest())
        while not reading.done() and time.monotonic() - began < 2:
            slow.writer.write(b"X-Slow: 1\r\n")
            await asyncio.sleep(0.05)
        answer = await reading
        assert b"request_timeout" in answer or answer == b"reset"
        assert time.monotonic() - began < 1.5
    assert await ended(api, "header_timeout") == 1


async def test_trickling_headers_of_a_second_request_are_cut_off(api: Api) -> None:
    async with line(api, HEALTH) as slow:
        assert b"200 OK" in await slow.answer()
        slow.writer.write(b"GET /healthz HT")
        assert (await slow.rest()).startswith(b"HTTP/1.1 408 ")


async def test_a_body_that_trickles_in_is_cut_off(api: Api) -> None:
    head = POST + b"Content-Length: 1000\r\nX-Request-Id: slow\r\n\r\n"
    async with line(api, head) as slow:
        began = time.monotonic()
        slow.writer.write(b"{")
        answer = await slow.rest()
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert b'"request_id":"slow"' in answer
        assert time.monotonic() - began < 2


async def test_an_idle_connection_is_closed_without_a_word(api: Api) -> None:
    async with line(api, HEALTH) as idle:
        assert b"200 OK" in await idle.answer()
        assert await idle.rest() == b""
    assert await ended(api, "idle") == 1


async def test_a_busy_connection_is_not_idle(tmp_path: Path) -> None:
    class Slow(StubServices):
        async def pop(self, request: object) -> Any:
            await asyncio.sleep(0.8)
            return await super().pop(request)

    async with hasty_api(tmp_path, Slow()) as api:
        body = {"topic": "orders", "wait_ms": 1000}
        assert (await api.post("/v1/groups/g:pop", body)).status == 200


async def test_a_connection_in_use_lives_on(api: Api) -> None:
    async with line(api) as busy:
        for _ in range(10):
            busy.writer.write(HEALTH)
            assert b"200 OK" in await busy.answer()
            await asyncio.sleep(0.1)


async def test_a_client_that_does_not_read_is_cut_off(tmp_path: Path) -> None:
    async with hasty_api(tmp_path, idle_timeout_s=60, header_timeout_s=60) as api:
        async with line(api) as greedy:
            greedy.writer.write(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 20_000)
            await asyncio.sleep(1.0)
            for _ in range(100):
                if await ended(api, "write_timeout"):
                    break
                await asyncio.sleep(0.05)
        assert await ended(api, "write_timeout") == 1


# --- many clients ---------------------------------------------------------------


async def test_there_are_only_so_many_connections(tmp_path: Path) -> None:
    async with hasty_api(tmp_path, count_max=2, idle_timeout_s=60) as api:
        async with line(api, HEALTH) as first, line(api, HEALTH) as second:
            await first.answer()
            await second.answer()
            async with line(api, HEALTH) as third:
                answer = await third.rest()
                assert answer.startswith(b"HTTP/1.1 503 ")
                assert b"Retry-After: 1" in answer
                assert b"too_many_connections" in answer
        await asyncio.sleep(0.1)
        async with line(api, HEALTH) as fourth:
            assert b"200 OK" in await fourth.answer()


async def test_one_address_has_only_so_many_connections(tmp_path: Path) -> None:
    async with (
        hasty_api(tmp_path, per_address_max=1, idle_timeout_s=60) as api,
        line(api, HEALTH) as first,
        line(api, HEALTH) as second,
    ):
        assert b"200 OK" in await first.answer()
        assert b"127.0.0.1 has 1 connections" in await second.rest()


async def test_bodies_in_flight_take_only_so_much_memory(tmp_path: Path) -> None:
    services = StubServices()
    config = ApiConfig(port=0, bodies=BodyLimits(held_max=300_000))
    async with serve(*services.all, tmp_path, config) as api:
        head = POST + b"Content-Length: 1000000\r\n\r\n"
        async with line(api, head) as first, line(api, head) as second:
            for one in (first, second):
                one.writer.write(b" " * 200_000)
            done, _ = await asyncio.wait(
                [asyncio.create_task(one.rest()) for one in (first, second)],
                return_when=asyncio.FIRST_COMPLETED,
            )
            assert b"503 Service Unavailable" in done.pop().result()
        text = (await api.get("/metrics")).content.decode()
        assert "halfpast_http_body_bytes 0.0" in text


# --- rude clients ---------------------------------------------------------------


@pytest.mark.parametrize(
    "request_",
    [
        b"hello\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET /healthz HTTP/9.9\r\nHost: x\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost x\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\n folded: x\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: x\r\nX: a\x00b\r\n\r\n",
        b"GET /" + b"a" * 10_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\n" + b"A: b\r\n" * 500 + b"\r\n",
        POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        POST + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n",
        POST + b"Content-Length: -5\r\n\r\n",
    ],
)
async def test_what_is_not_http_is_refused(api: Api, request_: bytes) -> None:
    answer = await api.raw(request_)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"malformed_http" in answer
    assert b"application/problem+json" in answer
    assert (await api.get("/healthz")).status == 200


@pytest.mark.parametrize(
    "chunks", [b"zz\r\nhello\r\n0\r\n\r\n", b"5\r\nhelloXX0\r\n\r\n"]
)
async def test_bad_chunks_are_refused(api: Api, chunks: bytes) -> None:
    answer = await api.raw(POST + b"Transfer-Encoding: chunked\r\n\r\n" + chunks)
    assert answer.startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize(
    "target",
    [
        *(
            b"GET /v1/events?topic=\xff",
            b"GET /v1/events/\xc3\xa9",
            b"GET /\xff",
            b"GET *",
        ),
        *(b"GET //healthz", b"GET http://[::1/healthz", b"GET http://x"),
        *(b"GET /v1/events?%ff=1", b"GET /v1/events/a%zz", b"GET /healthz#x"),
        *(b"OPTIONS *", b"CONNECT example.com:80"),
    ],
)
async def test_strange_targets_are_refused(api: Api, target: bytes) -> None:
    request = target + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    assert (await api.raw(request)).startswith(b"HTTP/1.1 4")


async def test_a_client_that_leaves_in_the_middle_of_its_body_harms_nobody(
    api: Api,
) -> None:
    async with line(api, POST + b"Content-Length: 1000\r\n\r\n{") as rude:
        await asyncio.sleep(0.05)
        rude.writer.close()
    assert (await api.get("/healthz")).status == 200
    text = (await api.get("/metrics")).content.decode()
    assert "halfpast_http_body_bytes 0.0" in text


# --- plain HTTP -----------------------------------------------------------------


async def test_requests_may_be_pipelined(api: Api) -> None:
    publish = POST + b'Content-Length: 10\r\n\r\n{"data":1}'
    async with line(api, HEALTH + publish + HEALTH) as eager:
        answers = [await eager.answer() for _ in range(3)]
    assert [answer[9:12] for answer in answers] == [b"200", b"201", b"200"]


async def test_a_body_may_come_in_pieces_after_asking(api: Api) -> None:
    head = POST + b"Content-Length: 10\r\nExpect: 100-continue\r\n\r\n"
    async with line(api, head) as polite:
        assert (
            await polite.reader.readuntil(b"\r\n\r\n")
            == b"HTTP/1.1 100 Continue\r\n\r\n"
        )
        for piece in (b'{"da', b'ta":1}'):
            polite.writer.write(piece)
            await asyncio.sleep(0.02)
        assert b"201 Created" in await polite.answer()


async def test_another_expectation_is_refused(api: Api) -> None:
    head = POST + b"Content-Length: 10\r\nExpect: miracles\r\n\r\n"
    assert (await api.raw(head)).startswith(b"HTTP/1.1 417 ")


async def test_chunked_and_compressed_bodies_are_read(api: Api) -> None:
    packed = gzip.compress(b'{"data":"' + b"x" * 50_000 + b'"}')
    request = POST + b"Content-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n"
    for start in range(0, len(packed), 50):
        piece = packed[start : start + 50]
        request += b"%x\r\n%b\r\n" % (len(piece), piece)
    async with line(api, request + b"0\r\n\r\n") as client:
        assert b"201 Created" in await client.answer()


async def test_http_1_0_is_answered(api: Api) -> None:
    answer = await api.raw(b"GET /healthz HTTP/1.0\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"Connection: close" in answer
    kept = b"GET /healthz HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"
    async with line(api, kept) as client:
        assert b"Connection: keep-alive" in await client.answer()
        client.writer.write(kept)
        assert b"200 OK" in await client.answer()


async def test_a_whole_url_is_understood(api: Api) -> None:
    request = b"GET http://x/healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    assert b"200 OK" in await api.raw(request)
