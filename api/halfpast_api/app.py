"""The API as a whole: its parts put together, started and stopped.

Whoever calls this chooses the event loop (uvloop where there is one).
"""

import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import structlog
from aiohttp import web

from halfpast_api.access.key_store import KeyStore
from halfpast_api.access.reception import Reception, open_reception
from halfpast_api.access.spaces import Spaces
from halfpast_api.answer import Answer
from halfpast_api.bodies import BodyReceiver
from halfpast_api.clock.clock_handlers import ClockHandlers
from halfpast_api.clock.mover import ClockMover
from halfpast_api.config import ApiConfig
from halfpast_api.connection import ConnectionServer
from halfpast_api.console.assets import Assets
from halfpast_api.console.site import Site
from halfpast_api.dispatch import Dispatcher
from halfpast_api.exposition import Exposition
from halfpast_api.health import HealthHandlers, observer
from halfpast_api.http_metrics import HttpMetrics
from halfpast_api.limits.limit_handlers import LimitHandlers
from halfpast_api.limits.limit_store import LimitStore
from halfpast_api.limits.limiter import Limiter
from halfpast_api.load.shedder import Shedder
from halfpast_api.long_poll import LongPolls
from halfpast_api.metadata.cache import CacheConfig, MetadataCache
from halfpast_api.metadata.store import MetadataStore, StoreConfig
from halfpast_api.openapi.handlers import DescriptionHandlers
from halfpast_api.push.push_server import PushServer
from halfpast_api.rocketmq.needs import FrontNeeds
from halfpast_api.route_table import Surroundings, route_table
from halfpast_api.router import Route
from halfpast_api.watchdog import Watchdog
from halfpast_chronos.delay_server import DelayServer
from halfpast_core_store.broker import Broker
from halfpast_txn.transactions import Transactions

if TYPE_CHECKING:  # brings OpenTelemetry, which need not be there
    from halfpast_api.tracing.tracing import Tracing

Answering = Callable[[web.BaseRequest], Awaitable[Answer]]

_BACKLOG: Final = 1024
_PAGES_WAIT: Final = StoreConfig(call_timeout_s=30.0, statement_timeout_s=20.0)


class RunningApi:
    """An API that answers at `address` until it is closed; `routes` are what it has."""

    def __init__(
        self,
        address: str,
        routes: tuple[Route, ...],
        stack: AsyncExitStack,
        grpc_address: str = "",
    ) -> None:
        """`grpc_address`: where RocketMQ clients are served; empty: they are not."""
        self.address: Final = address
        self.grpc_address: Final = grpc_address
        self.routes: Final = routes
        self._stack = stack

    async def close(self) -> None:
        """Accept nothing more, end long polls with an empty answer, let the other
        requests finish."""
        await self._stack.aclose()


async def start_api(
    broker: Broker,
    delay: DelayServer,
    transactions: Transactions,
    metadata: MetadataStore,
    config: ApiConfig,
    push: PushServer | None = None,
    mover: ClockMover | None = None,
    tracing: "Tracing | None" = None,
) -> RunningApi:
    """Serve HTTP at `config.host` and `config.port`. Raises OSError if that is taken.

    What is given stays the caller's, who closes it after the API. Without `push`
    endpoints are administered, and nobody delivers. With a `mover` times are those of
    its virtual clock.
    """
    async with AsyncExitStack() as stack:
        cache = MetadataCache(
            metadata, CacheConfig(snapshot_path=config.metadata_snapshot)
        )
        await cache.start()
        stack.push_async_callback(cache.stop)
        results = metadata.beside(_PAGES_WAIT)
        stack.push_async_callback(results.close)
        reception = await open_reception(
            stack, broker, transactions, metadata, cache, config
        )
        given = _Given(
            broker=broker,
            delay=delay,
            transactions=transactions,
            metadata=metadata,
            results=results,
            cache=cache,
            config=config,
            reception=reception,
            push=push,
            mover=mover,
        )
        server = _Server(given)
        stack.push_async_callback(server.stop)
        if tracing is not None:
            server.trace(tracing)
        port = await server.start()
        host = f"[{config.host}]" if ":" in config.host else config.host
        grpc_address = ""
        if config.grpc.is_on:
            grpc_address = await _open_front(stack, server, tracing)
        return RunningApi(
            f"http://{host}:{port}", server.routes, stack.pop_all(), grpc_address
        )
    raise AssertionError("not reached")


async def _open_front(
    stack: AsyncExitStack, server: "_Server", tracing: "Tracing | None"
) -> str:
    """Serve RocketMQ clients too. Gives the address; raises ExtraMissing, OSError."""
    from halfpast_api.rocketmq.extra import require

    require()
    from halfpast_api.rocketmq.server import start_front

    needs = replace(server.needs, tracing=tracing)
    try:
        front = await start_front(needs)
    except OSError as error:
        if not needs.config.grpc.optional:
            raise
        structlog.get_logger("halfpast.grpc").warning(
            "rocketmq_not_served", reason=str(error)
        )
        return ""
    stack.push_async_callback(front.close)
    server.health.also["grpc"] = front.counts.status
    return front.address


@dataclass(frozen=True, slots=True, kw_only=True)
class _Given:
    """What the handlers are made of."""

    broker: Broker
    delay: DelayServer
    transactions: Transactions
    metadata: MetadataStore
    results: MetadataStore
    cache: MetadataCache
    config: ApiConfig
    reception: Reception
    push: PushServer | None
    mover: ClockMover | None

    @property
    def now_ns(self) -> Callable[[], int]:
        return self.mover.now_ns if self.mover else time.time_ns


class _Server:
    """The handlers behind a socket."""

    def __init__(self, given: _Given) -> None:
        self._config = config = given.config
        self._polls = LongPolls()
        self._shedder = shedder = Shedder(config.overload)
        self._watchdog = Watchdog(config.connections, shedder.shed)
        self._limiter = limiter = Limiter(given.cache)
        self._receiver = BodyReceiver(config.bodies, config.connections)
        http = HttpMetrics(())
        self.health: Final = self._health_of(given, http)
        files = Assets()
        self._console = self._console_of(given, files)
        around = self._surroundings(given, files)
        spaces = Spaces(
            given.broker,
            given.delay,
            given.transactions,
            given.metadata,
            given.cache,
            config,
            lambda space: route_table(space, around),
        )
        reception = given.reception
        self.needs: Final = FrontNeeds(
            spaces=spaces,
            reception=reception,
            limiter=limiter,
            shedder=shedder,
            source=around.source,
            config=config,
        )
        self._router = router = spaces.of("")
        self.routes: Final = router.routes
        for route in self.routes:
            http.add(route.method, route.template)
        self._dispatcher = Dispatcher(
            spaces,
            reception.door,
            reception.acts,
            self._receiver,
            http,
            limiter,
            shedder,
            self._console.refusal_page,
        )
        self._answer: Answering = self._dispatcher
        self._runner: web.ServerRunner | None = None
        self._site: web.BaseSite | None = None

    def _health_of(self, given: _Given, http: HttpMetrics) -> HealthHandlers:
        cache = given.cache
        return HealthHandlers(
            given.broker,
            given.delay,
            given.transactions,
            cache,
            given.config.ready_timeout_s,
            Exposition(http),
            observer(self._watchdog, self._polls, self._receiver, cache, self._shedder),
            given.push,
        )

    def _console_of(self, given: _Given, files: Assets) -> Site:
        cache = given.cache
        return Site(
            files=files,
            polls=self._polls,
            results=given.results,
            health=self.health,
            delay=given.delay,
            is_stale=lambda: cache.stale_since_ms is not None,
            is_shared=lambda: bool(cache.namespaces()),
            now_ns=given.now_ns,
            is_virtual=given.mover is not None,
        )

    def _surroundings(self, given: _Given, files: Assets) -> Surroundings:
        rows = given.metadata
        return Surroundings(
            config=given.config,
            polls=self._polls,
            site=self._console,
            health=self.health,
            description=DescriptionHandlers(files, asks=given.config.auth == "keys"),
            access=given.reception.handlers,
            push=given.push,
            rows=rows,
            limits=LimitHandlers(LimitStore(rows), KeyStore(rows)),
            limiter=self._limiter,
            clock=ClockHandlers(given.mover),
            now_ns=given.now_ns,
        )

    def trace(self, tracing: "Tracing") -> None:
        """Answer within spans; before the start."""
        from halfpast_api.tracing.requests import TracedRequests

        self._answer = TracedRequests(self._answer, self._router, tracing)

    async def start(self) -> int:
        """Gives the port."""
        config, limits = self._config, self._config.connections
        server = ConnectionServer(
            self._answer,
            self._watchdog,
            access_log=None,
            # Ours comes first; see `watchdog`.
            keepalive_timeout=2 * limits.idle_timeout_s + limits.sweep_s,
            lingering_time=limits.lingering_s,
        )
        self._runner = web.ServerRunner(server, shutdown_timeout=config.shutdown_s)
        await self._runner.setup()
        self._site = web.TCPSite(
            self._runner,
            config.host,
            config.port,
            backlog=_BACKLOG,
            reuse_port=config.reuse_port or None,
        )
        await self._site.start()
        self._watchdog.start(lambda: server.connections)
        self._shedder.start()
        self._console.start()
        return self._site.port

    async def stop(self) -> None:
        """Accept no more, end what waits, let the rest finish."""
        if self._runner is None:
            return
        if self._site in self._runner.sites:
            await self._site.stop()
        self._polls.stop()
        await self._console.stop()
        await self._runner.cleanup()
        await self._watchdog.stop()
        await self._shedder.stop()
