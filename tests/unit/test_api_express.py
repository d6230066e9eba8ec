"""Requests that came whole are answered in order, and nothing behind them is lost."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, cast

import pytest
import pytest_asyncio
from aiohttp import web

from halfpast_api.answer import Answer
from halfpast_api.connection import Connection, ConnectionServer, Stage
from halfpast_api.express import WholeRequest
from halfpast_api.problems import Refusal

pytestmark = pytest.mark.asyncio


class OpenGate:
    def admit(self, address: str) -> Refusal | None:
        return None

    def leave(self, address: str) -> None: ...

    def malformed(self) -> None: ...

    def shed(self, data: bytes) -> bytes | None:
        return self.sheds(data)

    @staticmethod
    def sheds(data: bytes) -> bytes | None:
        return None


class Wire(asyncio.Transport):
    """A client's end of a connection."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = b""
        self.reads = True
        self.closed = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", 5) if name == "peername" else default

    def write(self, data: Any) -> None:
        assert not self.closed
        self.sent += bytes(data)

    def is_closing(self) -> bool:
        return self.closed

    def pause_reading(self) -> None:
        self.reads = False

    def resume_reading(self) -> None:
        self.reads = True

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = True


class Desk:
    """Answers each request with its path and body, when it is told to."""

    def __init__(self) -> None:
        self.wire = Wire()
        self.went_express: list[bool] = []
        self.open = asyncio.Event()
        server = ConnectionServer(self._answer, OpenGate(), access_log=None)
        self.server = server
        self.connection: Connection = server()
        self.connection.connection_made(self.wire)

    async def _answer(self, request: web.BaseRequest) -> Answer:
        self.connection.begin()
        whole: object = request
        self.went_express.append(isinstance(whole, WholeRequest))
        body = b""
        if request.content.is_eof():
            body = request.content.read_nowait()
        else:
            body = await request.content.read()
        await self.open.wait()
        self.connection.end()
        text = request.raw_path.encode() + b" " + body
        return Answer(200, text, closes=b"last" in text)

    async def until(self, is_so: Callable[[], bool]) -> None:
        async with asyncio.timeout(5):
            while not is_so():  # noqa: ASYNC110
                await asyncio.sleep(0)

    def answers(self) -> list[bytes]:
        return [part.partition(b"HTTP/")[0] for part in self.bodies()]

    def bodies(self) -> list[bytes]:
        return self.wire.sent.split(b"\r\n\r\n")[1:]


@pytest_asyncio.fixture
async def desk() -> AsyncIterator[Desk]:
    desk = Desk()
    await desk.until(lambda: cast(Any, desk.connection)._waiter is not None)
    yield desk
    desk.open.set()
    await desk.connection.shutdown(1.0)


def post(path: bytes, body: bytes, extra: bytes = b"") -> bytes:
    head = b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n%s\r\n"
    return head % (path, len(body), extra) + body


async def test_a_whole_request_goes_express(desk: Desk) -> None:
    desk.open.set()
    for number in range(3):
        desk.connection.data_received(post(b"/%d" % number, b"hi"))
        await desk.until(lambda n=number: len(desk.answers()) == n + 1)  # type: ignore[misc]
    assert desk.answers() == [b"/0 hi", b"/1 hi", b"/2 hi"]
    assert desk.went_express == [True] * 3
    assert desk.connection.stage == Stage.IDLE


@pytest.mark.parametrize("cut", [1, 10, 40, 62])
async def test_one_that_comes_in_parts_does_not(desk: Desk, cut: int) -> None:
    desk.open.set()
    request = post(b"/parts", b"hello there")
    desk.connection.data_received(request[:cut])
    desk.connection.data_received(request[cut:])
    await desk.until(lambda: len(desk.answers()) == 1)
    assert desk.answers() == [b"/parts hello there"]


async def test_what_comes_behind_waits_for_its_turn(desk: Desk) -> None:
    desk.connection.data_received(post(b"/a", b"1"))
    await desk.until(lambda: desk.went_express == [True])
    rest = post(b"/b", b"2") + post(b"/c", b"3") + post(b"/d", b"4")
    desk.connection.data_received(rest[:30])
    assert not desk.wire.reads
    desk.connection.data_received(rest[30:])
    assert desk.wire.sent == b""
    desk.open.set()
    await desk.until(lambda: len(desk.answers()) == 4)
    assert desk.answers() == [b"/a 1", b"/b 2", b"/c 3", b"/d 4"]
    assert desk.wire.reads


async def test_closing_waits_for_the_answer(desk: Desk) -> None:
    desk.connection.data_received(post(b"/a", b"1"))
    await desk.until(lambda: desk.went_express == [True])
    desk.connection.close()
    assert not desk.wire.closed
    shutdown = asyncio.create_task(desk.connection.shutdown(5.0))
    desk.open.set()
    await shutdown
    assert desk.answers() == [b"/a 1"]
    assert desk.wire.closed


async def test_an_answer_may_end_the_connection(desk: Desk) -> None:
    desk.open.set()
    desk.connection.data_received(post(b"/last", b""))
    await desk.until(lambda: desk.wire.closed)
    assert b"Connection: close" in desk.wire.sent


async def test_a_client_that_hangs_up_gets_nothing(desk: Desk) -> None:
    desk.connection.data_received(post(b"/a", b"1"))
    await desk.until(lambda: desk.went_express == [True])
    desk.connection.connection_lost(None)
    desk.open.set()
    await desk.until(lambda: cast(Any, desk.connection)._express is None)
    assert desk.wire.sent == b""


@pytest.mark.parametrize(
    "request_",
    [
        post(b"/old", b"1").replace(b"HTTP/1.1", b"HTTP/1.0"),
        post(b"/close", b"1", b"Connection: close\r\n"),
        b"POST /chunked HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"1\r\n1\r\n0\r\n\r\n",
    ],
)
async def test_what_is_not_simple_goes_the_usual_way(
    desk: Desk, request_: bytes
) -> None:
    desk.open.set()
    desk.connection.data_received(request_)
    await desk.until(lambda: len(desk.answers()) == 1)
    assert desk.answers()[0].endswith(b" 1")
    assert desk.went_express == [False]
