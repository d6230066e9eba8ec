"""Connections that are watched, since aiohttp sets no limits of its own on most.

aiohttp waits for ever for the headers of a request and for a client that does not
read its answer, and takes any number of connections. `Connection` keeps what is
needed to end those; `watchdog.Watchdog` does it, and refuses those beyond the caps.
"""

import asyncio
from enum import IntEnum
from typing import Any, Protocol, cast

import structlog
from aiohttp import web

from halfpast_api.answer import problem_answer
from halfpast_api.problems import Refusal


class Stage(IntEnum):
    """What a connection is doing. All but BUSY wait for the client."""

    FRESH = 0  # nothing has come yet
    IDLE = 1  # between two requests
    HEADERS = 2  # a request has begun
    BUSY = 3  # a request is being answered


class Gate(Protocol):
    """Who counts connections: `watchdog.Watchdog`."""

    def admit(self, address: str) -> Refusal | None: ...

    def leave(self, address: str) -> None: ...

    def malformed(self) -> None: ...


class Connection(web.RequestHandler):
    """aiohttp's connection, which tells its stage and can be cut off.

    `poll` is the task to cancel when the client goes away. Other requests are not
    cancelled: what they have begun happens either way.
    """

    __slots__ = ("_address", "_gate", "poll", "since_s", "stage", "stalled_since_s")

    def __init__(
        self,
        server: web.Server,
        gate: Gate,
        loop: asyncio.AbstractEventLoop,
        **options: Any,
    ) -> None:
        super().__init__(server, loop=loop, **options)
        self._gate = gate
        self._address: str | None = None
        self.poll: asyncio.Task[Any] | None = None
        self.stage = Stage.FRESH
        self.since_s = loop.time()
        self.stalled_since_s = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast(asyncio.Transport, transport)  # uvloop's is not derived
        peer: tuple[object, ...] | str | None = transport.get_extra_info("peername")
        address = str(peer[0]) if isinstance(peer, tuple) and peer else ""
        if (refusal := self._gate.admit(address)) is not None:
            self.force_close()  # or data that comes along would be parsed
            _say_goodbye(transport, refusal)
            return
        self._address = address
        super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        if self._address is not None:
            self._gate.leave(self._address)
            self._address = None
        if self.poll is not None:
            self.poll.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.stage < Stage.HEADERS:
            if self.stage == Stage.IDLE:
                self.since_s = self._loop.time()
            self.stage = Stage.HEADERS
        super().data_received(data)

    def begin(self) -> None:
        """A request has arrived with all its headers."""
        self.stage = Stage.BUSY

    def end(self) -> None:
        """Its answer is made."""
        self.stage = Stage.IDLE
        self.since_s = self._loop.time()

    def time_out(self, refusal: Refusal) -> None:
        """Tell the client what it failed to do in time, and hang up."""
        if self.transport is not None:
            _say_goodbye(self.transport, refusal)
        self.hang_up()

    def hang_up(self) -> None:
        """Close, without a word."""
        self.stage = Stage.BUSY  # there is nothing to look after any more
        self.force_close()

    def abort(self) -> None:
        """Hang up at once, on a client that does not read."""
        if self.transport is not None:
            self.transport.abort()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """What aiohttp could not parse, or a defect of ours beyond the handlers."""
        if request.writer.output_size > 0:
            raise ConnectionError("a part of the answer has been sent")
        if status == 400:
            self._gate.malformed()
            why = (message or str(exc)).strip().partition("\n")[0].rstrip(":")
            detail = f"this is not HTTP/1.1 that can be read: {why}; mend the client"
            return problem_answer(Refusal("malformed_http", detail), "", closes=True)
        self.log_exception("http_failure", exc_info=exc)
        refusal = Refusal("internal", "the server could not answer; it is in its log")
        return problem_answer(refusal, "", closes=True)

    def log_exception(self, *args: Any, **kw: Any) -> None:
        structlog.get_logger("halfpast.api").error(
            "http_failure", exc_info=kw.get("exc_info", True)
        )


class ConnectionServer(web.Server):
    """aiohttp's server, which makes watched connections."""

    def __init__(self, handler: Any, gate: Gate, **options: Any) -> None:
        super().__init__(handler, **options)
        self._gate = gate

    def __call__(self) -> Connection:
        return Connection(self, self._gate, self._loop, **self._kwargs)


def _say_goodbye(transport: asyncio.Transport, refusal: Refusal) -> None:
    answer = problem_answer(refusal, "", closes=True)
    transport.write(answer.head() + answer.content)
    transport.close()
