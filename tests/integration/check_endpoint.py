"""A producer's endpoint on this machine, and a transport that may reach it."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from ssl import SSLContext

from aiohttp import web
from aiohttp.typedefs import Handler

from halfpast_txn.address_rules import Address, AllowList
from halfpast_txn.circuit_breaker import CircuitConfig
from halfpast_txn.half import message_id
from halfpast_txn.http_transport import IN_FLIGHT_MAX, HttpCheckTransport
from halfpast_txn.producer_group import CheckEndpoint
from halfpast_txn.transactions import Check, CheckMessage

HOME = "127.0.0.1"
LONG_MS = 30_000
"""For calls that must not time out, however busy the machine is."""
SHORT_MS = 50
"""For those that must."""

ID = bytes.fromhex("01936f1e8c007abc8def012345670000")
CHECK = Check(
    ID, "shop", 2, 1_000, "order", 1, [CheckMessage(message_id(ID, 0), "t", "k", "")]
)

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class HandClock:
    """Stands still until it is set. Wall time is not its business."""

    def __init__(self) -> None:
        self.now_s = 1_000.0

    def now_ns(self) -> int:
        return 1_700_000_000 * 1_000_000_000

    def monotonic_ns(self) -> int:
        return int(self.now_s * 1e9)


class TableLookup:
    """A name server whose answers are given one after the other; the last stays."""

    def __init__(self, **answers: Sequence[Sequence[Address] | Exception]) -> None:
        self.asked: list[tuple[str, int]] = []
        self._answers = {
            name.replace("_", "."): list(found) for name, found in answers.items()
        }

    async def addresses(self, host: str, port: int) -> Sequence[Address]:
        self.asked.append((host, port))
        answers = self._answers[host]
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


class SilentLookup:
    """A name server that does not answer."""

    async def addresses(self, host: str, port: int) -> Sequence[Address]:
        await asyncio.Event().wait()
        raise AssertionError


def transport_to(
    allow: str = HOME,
    *,
    clock: HandClock | None = None,
    lookup: TableLookup | SilentLookup | None = None,
    circuits: CircuitConfig | None = None,
    in_flight_max: int = IN_FLIGHT_MAX,
    ssl_context: SSLContext | None = None,
) -> HttpCheckTransport:
    return HttpCheckTransport(
        AllowList.parse(allow),
        clock=clock,
        lookup=lookup,
        circuits=circuits,
        in_flight_max=in_flight_max,
        ssl_context=ssl_context,
    )


async def cause(
    transport: HttpCheckTransport,
    url: str,
    *,
    timeout_ms: int = LONG_MS,
    concurrency_max: int = 8,
    secrets: tuple[str, ...] = (),
) -> str:
    """What the call brought, in one word: `state 2` for an outcome."""
    endpoint = CheckEndpoint(
        url=url,
        timeout_ms=timeout_ms,
        concurrency_max=concurrency_max,
        secrets=secrets,
    )
    verdict = await transport.ask(endpoint, CHECK)
    assert bool(verdict.state) != bool(verdict.cause)
    return f"state {verdict.state}" if verdict.state else verdict.cause


def results(transport: HttpCheckTransport) -> dict[str, float]:
    """The counters that are not zero, by result."""
    return {
        name.split('"')[1]: count
        for name, count in transport.counters().items()
        if count
    }


@asynccontextmanager
async def http_server(
    handler: Handler, *, host: str = HOME, port: int = 0, tls: SSLContext | None = None
) -> AsyncGenerator[str, None]:
    """A real server that gives all requests to `handler`; yields its URL."""

    async def handle(request: web.Request) -> web.StreamResponse:
        return await handler(request)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port, ssl_context=tls).start()
        bound = runner.addresses[0]
        shown = f"[{host}]" if ":" in host else host
        yield f"http{'s' if tls else ''}://{shown}:{bound[1]}/check"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def raw_server(talk: Talk, *, host: str = HOME) -> AsyncGenerator[str, None]:
    """A server that is no web server; yields its URL."""
    talks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        talks.add(task)
        try:
            await talk(reader, writer)
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.transport.abort()

    server = await asyncio.start_server(serve, host, 0)
    try:
        yield f"http://{host}:{server.sockets[0].getsockname()[1]}/check"
    finally:
        server.close()
        await server.wait_closed()
        for task in talks:
            task.cancel()
        await asyncio.gather(*talks, return_exceptions=True)
