"""The API as a whole: its parts put together, started and stopped.

Whoever calls this chooses the event loop (uvloop where there is one).
"""

import time
from collections.abc import Iterable
from contextlib import AsyncExitStack
from typing import Final

import uuid_utils
from aiohttp import web

from halfpast_api import routes
from halfpast_api.batch import BatchHandlers
from halfpast_api.bodies import BodyReceiver
from halfpast_api.config import ApiConfig
from halfpast_api.connection import ConnectionServer
from halfpast_api.consume import ConsumeHandlers
from halfpast_api.delay.bulk import BulkHandlers
from halfpast_api.delay.dead_letters import DeadLetterHandlers
from halfpast_api.delay.due import DueHandlers
from halfpast_api.delay.pending_quota import PendingQuotas
from halfpast_api.delay.schedules import ScheduleHandlers
from halfpast_api.dispatch import Dispatcher
from halfpast_api.events import EventHandlers
from halfpast_api.exposition import Exposition
from halfpast_api.group_admin import GroupAdminHandlers
from halfpast_api.health import HealthHandlers, observer
from halfpast_api.http_metrics import HttpMetrics
from halfpast_api.long_poll import LongPolls
from halfpast_api.metadata.cache import CacheConfig, MetadataCache
from halfpast_api.metadata.store import MetadataStore
from halfpast_api.publish import PublishHandlers, Source
from halfpast_api.pull import PullHandlers
from halfpast_api.router import Route, Router
from halfpast_api.topic_admin import TopicAdminHandlers
from halfpast_api.topic_directory import TopicDirectory
from halfpast_api.transactions.batch import BeginBatchHandlers
from halfpast_api.transactions.begin import BeginHandlers
from halfpast_api.transactions.checks import CheckHandlers
from halfpast_api.transactions.listing import ListingHandlers
from halfpast_api.transactions.outcomes import OutcomeHandlers
from halfpast_api.transactions.producer_groups import ProducerGroupHandlers
from halfpast_api.watchdog import Watchdog
from halfpast_chronos.delay_server import DelayServer
from halfpast_core_store.broker import Broker
from halfpast_txn.address_rules import AllowList
from halfpast_txn.transactions import Transactions

_BACKLOG: Final = 1024
_SOURCE: Final = Source(lambda: uuid_utils.uuid7().bytes, time.time_ns)


class RunningApi:
    """An API that answers at `address` until it is closed."""

    def __init__(self, address: str, stack: AsyncExitStack) -> None:
        self.address: Final = address
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
) -> RunningApi:
    """Serve HTTP at `config.host` and `config.port`. Raises OSError if that is taken.

    What is given stays the caller's, who closes it after the API.
    """
    async with AsyncExitStack() as stack:
        cache = MetadataCache(
            metadata, CacheConfig(snapshot_path=config.metadata_snapshot)
        )
        await cache.start()
        stack.push_async_callback(cache.stop)
        server = _Server(broker, delay, transactions, metadata, cache, config)
        stack.push_async_callback(server.stop)
        port = await server.start()
        host = f"[{config.host}]" if ":" in config.host else config.host
        return RunningApi(f"http://{host}:{port}", stack.pop_all())
    raise AssertionError("not reached")


class _Server:
    """The handlers behind a socket."""

    def __init__(
        self,
        broker: Broker,
        delay: DelayServer,
        transactions: Transactions,
        metadata: MetadataStore,
        cache: MetadataCache,
        config: ApiConfig,
    ) -> None:
        self._config = config
        self._polls = LongPolls()
        self._watchdog = Watchdog(config.connections)
        self._receiver = BodyReceiver(config.bodies, config.connections)
        directory = TopicDirectory(broker, cache, config)
        table = [
            *self._event_routes(broker, delay, transactions, directory, cache),
            *self._transaction_routes(broker, transactions, directory, cache),
            *self._admin_routes(broker, delay, metadata, directory, cache),
        ]
        http = HttpMetrics((route.method, route.template) for route in table)
        exposition = Exposition(http)
        health = HealthHandlers(
            broker,
            delay,
            transactions,
            cache,
            config.ready_timeout_s,
            exposition,
            observer(self._watchdog, self._polls, self._receiver, cache),
        )
        for route in routes.health_routes(health):
            http.add(route.method, route.template)
            table.append(route)
        self._dispatcher = Dispatcher(Router(table), self._receiver, http)
        self._runner: web.ServerRunner | None = None
        self._site: web.BaseSite | None = None

    def _event_routes(
        self,
        broker: Broker,
        delay: DelayServer,
        transactions: Transactions,
        directory: TopicDirectory,
        cache: MetadataCache,
    ) -> Iterable[Route]:
        limits = self._config.bodies
        depth_max = limits.depth_max
        quotas = PendingQuotas(delay)
        yield from routes.publish_routes(
            PublishHandlers(broker, delay, directory, _SOURCE, depth_max, quotas),
            BatchHandlers(broker, directory, _SOURCE, limits, quotas),
            limits,
        )
        yield from routes.event_routes(
            EventHandlers(
                broker, delay, transactions, directory, cache, depth_max=depth_max
            ),
            limits,
        )
        yield from routes.bulk_routes(
            BulkHandlers(delay, directory, cache, _SOURCE),
            DueHandlers(delay, directory),
            limits,
        )
        yield from routes.dead_letter_routes(DeadLetterHandlers(delay, directory))
        yield from routes.schedule_routes(
            ScheduleHandlers(delay, directory, _SOURCE, depth_max), limits
        )
        yield from routes.consume_routes(
            ConsumeHandlers(broker, directory, cache, self._polls),
            PullHandlers(broker, directory, self._polls),
            limits,
        )

    def _transaction_routes(
        self,
        broker: Broker,
        transactions: Transactions,
        directory: TopicDirectory,
        cache: MetadataCache,
    ) -> Iterable[Route]:
        limits, bodies = self._config.transactions, self._config.bodies
        yield from routes.transaction_routes(
            BeginHandlers(
                broker, transactions, directory, cache, _SOURCE, limits, bodies
            ),
            BeginBatchHandlers(broker, directory, cache, _SOURCE, limits, bodies),
            OutcomeHandlers(transactions),
            ListingHandlers(transactions, directory),
            CheckHandlers(transactions, self._polls),
            bodies,
        )

    def _admin_routes(
        self,
        broker: Broker,
        delay: DelayServer,
        metadata: MetadataStore,
        directory: TopicDirectory,
        cache: MetadataCache,
    ) -> Iterable[Route]:
        limits = self._config.bodies
        yield from routes.admin_routes(
            TopicAdminHandlers(broker, metadata, cache, directory, delay),
            GroupAdminHandlers(broker, metadata, cache),
            limits,
        )
        allow_list = AllowList.parse(self._config.check_allow)
        yield from routes.producer_group_routes(
            ProducerGroupHandlers(metadata, allow_list), limits
        )

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
        return self._site.port

    async def stop(self) -> None:
        """Accept no more, end what waits, let the rest finish."""
        if self._runner is None:
            return
        if self._site in self._runner.sites:
            await self._site.stop()
        self._polls.stop()
        await self._runner.cleanup()
        await self._watchdog.stop()
