"""Connections that are watched, since aiohttp sets no limits of its own on most.

aiohttp waits for ever for the headers of a request and for a client that does not
read its answer, and takes any number of connections. `Connection` keeps what is
needed to end those; `watchdog.Watchdog` does it, and refuses those beyond the caps.

A request that came whole, by the time nothing else is under way on its connection,
goes past aiohttp's machinery (see `express.py`).
"""

import asyncio
from enum import IntEnum
from typing import Any, Protocol, cast

import structlog
from aiohttp import web

from halfpast_api.answer import Answer, problem_answer
from halfpast_api.express import WholeRequest, comes_whole
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

    def shed(self, data: bytes, /) -> bytes | None: ...


class Connection(web.RequestHandler):
    """aiohttp's connection, which tells its stage and can be cut off.

    `poll` is the task to cancel when the client goes away. Other requests are not
    cancelled: what they have begun happens either way.
    """

    __slots__ = (
        "_address",
        "_closes_after",
        "_express",
        "_gate",
        "_held",
        "poll",
        "since_s",
        "stage",
        "stalled_since_s",
    )

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
        self._express: asyncio.Task[None] | None = None
        """Answers a request past aiohttp's machinery, which is idle meanwhile."""
        self._held = b""
        """What came behind that request."""
        self._closes_after = False

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
        is_first = self.stage < Stage.HEADERS
        if is_first:
            if self.stage == Stage.IDLE:
                self.since_s = self._loop.time()
            self.stage = Stage.HEADERS
        if self._express is not None:
            self._hold(data)
            return
        waiter = self._waiter
        if waiter is None or waiter.done() or self._messages or self.writing_paused:
            super().data_received(data)
            return
        if is_first and (answer := self._gate.shed(data)) is not None:
            self._refuse_unparsed(answer)
            return
        # aiohttp waits for a request. Let it parse, but do not wake it yet.
        self._waiter = None
        super().data_received(data)
        self._waiter = waiter
        if not self._messages:
            return
        message, payload = self._messages[0]
        if len(self._messages) == 1 and comes_whole(message, payload):
            self._messages.clear()
            assert self._parser is not None
            self._parser.message_consumed()
            request = WholeRequest(self, message, payload)
            self._express = self._loop.create_task(self._answer(request))
        else:
            waiter.set_result(None)

    def _refuse_unparsed(self, answer: bytes) -> None:
        """Too much is under way to look at it."""
        assert self.transport is not None
        self.transport.write(answer)
        self.end()
        self._next_keepalive_close_time = self.since_s + self._keepalive_timeout

    async def _answer(self, request: WholeRequest) -> None:
        """Answer it; what came behind it then is read."""
        closes = True
        try:
            assert self._manager is not None
            answer = await self._manager.request_handler(cast(Any, request))
            assert isinstance(answer, Answer)
            if self.transport is not None:
                self.transport.write(answer.whole(request.method))
                if answer.goes_on:
                    await answer.go_on(self, request.method)
                closes = not answer.keep_alive
        except ConnectionError:
            pass  # the client is gone
        except Exception as error:
            self.log_exception("http_failure", exc_info=error)
        finally:
            self._express = None
            self._next_keepalive_close_time = self.since_s + self._keepalive_timeout
            if closes or self._closes_after:
                self.force_close()  # what was written is sent before
            elif self._held:
                self._release()

    def _hold(self, data: bytes) -> None:
        """The client is ahead of us: read no more of it until it has its answer."""
        if data and not self._held:
            self._pause_transport_reading()
        self._held += data

    def _release(self) -> None:
        held, self._held = self._held, b""
        self._resume_transport_reading()
        self.data_received(held)

    def resume_reading(self, resume_parser: bool = True) -> None:
        """Called whenever a body is read. Behind a whole one there is nothing."""
        if self._express is None or self._reading_paused:
            super().resume_reading(resume_parser)

    def _process_keepalive(self) -> None:
        if self._express is not None:
            now_s = self._loop.time()
            self._next_keepalive_close_time = now_s + self._keepalive_timeout
        super()._process_keepalive()

    def close(self) -> None:
        """Close when the present request has its answer."""
        if self._express is not None:
            self._closes_after = True
        else:
            super().close()

    async def shutdown(self, timeout: float | None = 15.0) -> None:  # noqa: ASYNC109
        """Close likewise; in `timeout` seconds at the latest."""
        if self._express is not None:
            self._closes_after = True
            await asyncio.wait([self._express], timeout=timeout)
        await super().shutdown(timeout)

    def begin(self) -> None:
        """A request has arrived with all its headers."""
        self.stage = Stage.BUSY

    def end(self) -> None:
        """Its answer is made."""
        self.stage = Stage.IDLE
        self.since_s = self._loop.time()

    async def send(self, data: bytes) -> None:
        """Write a part of an answer that goes on; waits for a client that reads slowly.

        Raises ConnectionError when the client is gone.
        """
        if self.transport is None or self.transport.is_closing():
            raise ConnectionResetError("the client is gone")
        self.transport.write(data)
        await self._drain_helper()

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
