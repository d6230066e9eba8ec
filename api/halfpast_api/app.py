"""The API as a whole: its parts put together, started and stopped.

Whoever calls this chooses the event loop (uvloop where there is one).
"""

from contextlib import AsyncExitStack
from typing import Final

from aiohttp import web

from halfpast_api.access.reception import Reception, open_reception
from halfpast_api.access.spaces import Spaces
from halfpast_api.bodies import BodyReceiver
from halfpast_api.config import ApiConfig
from halfpast_api.connection import ConnectionServer
from halfpast_api.console.assets import Assets
from halfpast_api.console.site import Site
from halfpast_api.dispatch import Dispatcher
from halfpast_api.exposition import Exposition
from halfpast_api.health import HealthHandlers, observer
from halfpast_api.http_metrics import HttpMetrics
from halfpast_api.long_poll import LongPolls
from halfpast_api.metadata.cache import CacheConfig, MetadataCache
from halfpast_api.metadata.store import MetadataStore, StoreConfig
from halfpast_api.openapi.handlers import DescriptionHandlers
from halfpast_api.push.push_server import PushServer
from halfpast_api.route_table import Surroundings, route_table
from halfpast_api.router import Route
from halfpast_api.watchdog import Watchdog
from halfpast_chronos.delay_server import DelayServer
from halfpast_core_store.broker import Broker
from halfpast_txn.transactions import Transactions

_BACKLOG: Final = 1024
_PAGES_WAIT: Final = StoreConfig(call_timeout_s=30.0, statement_timeout_s=20.0)


class RunningApi:
    """An API that answers at `address` until it is closed; `routes` are what it has."""

    def __init__(
        self, address: str, routes: tuple[Route, ...], stack: AsyncExitStack
    ) -> None:
        self.address: Final = address
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
) -> RunningApi:
    """Serve HTTP at `config.host` and `config.port`. Raises OSError if that is taken.

    What is given stays the caller's, who closes it after the API. Without `push`
    endpoints are administered, and nobody delivers.
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
        server = _Server(
            *(broker, delay, transactions, metadata, results, cache, config, reception),
            push,
        )
        stack.push_async_callback(server.stop)
        port = await server.start()
        host = f"[{config.host}]" if ":" in config.host else config.host
        return RunningApi(f"http://{host}:{port}", server.routes, stack.pop_all())
    raise AssertionError("not reached")


class _Server:
    """The handlers behind a socket."""

    def __init__(
        self,
        broker: Broker,
        delay: DelayServer,
        transactions: Transactions,
        metadata: MetadataStore,
        results: MetadataStore,
        cache: MetadataCache,
        config: ApiConfig,
        reception: Reception,
        push: PushServer | None,
    ) -> None:
        self._config = config
        self._polls = LongPolls()
        self._watchdog = Watchdog(config.connections)
        self._receiver = BodyReceiver(config.bodies, config.connections)
        http = HttpMetrics(())
        health = HealthHandlers(
            broker,
            delay,
            transactions,
            cache,
            config.ready_timeout_s,
            Exposition(http),
            observer(self._watchdog, self._polls, self._receiver, cache),
            push,
        )
        self._console = Site(
            files=(files := Assets()),
            polls=self._polls,
            results=results,
            health=health,
            delay=delay,
            is_stale=lambda: cache.stale_since_ms is not None,
            is_shared=lambda: bool(cache.namespaces()),
        )
        around = Surroundings(
            config=config,
            polls=self._polls,
            site=self._console,
            health=health,
            description=DescriptionHandlers(files),
            access=reception.handlers,
            push=push,
            rows=metadata,
        )
        spaces = Spaces(
            broker,
            delay,
            transactions,
            metadata,
            cache,
            config,
            lambda space: route_table(space, around),
        )
        self.routes: Final = spaces.of("").routes
        for route in self.routes:
            http.add(route.method, route.template)
        self._dispatcher = Dispatcher(
            spaces,
            reception.door,
            reception.acts,
            self._receiver,
            http,
            self._console.refusal_page,
        )
        self._runner: web.ServerRunner | None = None
        self._site: web.BaseSite | None = None

    async def start(self) -> int:
        """Gives the port."""
        config, limits = self._config, self._config.connections
        server = ConnectionServer(
            self._dispatcher,
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
