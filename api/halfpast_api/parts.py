"""The parts that processes are made of.

Each `open_...` puts what it opens on the stack, which closes it. With a part that
may fail while it runs comes the future that tells so.
"""

from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from halfpast_api.places import Places
from halfpast_api.shutdown import Failure

if TYPE_CHECKING:  # these bring RocksDB, SQLAlchemy and more: load what is run
    from halfpast_api.clock.mover import ClockMover
    from halfpast_api.config import ApiConfig
    from halfpast_api.metadata.cache import MetadataCache
    from halfpast_api.metadata.store import MetadataStore
    from halfpast_api.push.config import PushConfig
    from halfpast_api.push.push_server import PushServer
    from halfpast_api.push.service import PushService
    from halfpast_api.tracing.tracing import Tracing
    from halfpast_chronos.config import ChronosConfig
    from halfpast_chronos.delay_server import DelayServer
    from halfpast_chronos.service import DelayService
    from halfpast_core_store.broker import Broker
    from halfpast_core_store.config import StoreConfig
    from halfpast_core_store.ports import Clock
    from halfpast_core_store.service import BrokerService
    from halfpast_txn.address_rules import AllowList
    from halfpast_txn.config import TxnConfig
    from halfpast_txn.service import TransactionService
    from halfpast_txn.transactions import Transactions
    from halfpast_txn.transport import CheckTransport


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """What the API speaks to, in this process or in others."""

    broker: "Broker"
    delay: "DelayServer"
    transactions: "Transactions"
    push: "PushServer | None" = None


async def open_broker(
    stack: AsyncExitStack,
    places: Places,
    config: "StoreConfig",
    clock: "Clock | None" = None,
) -> "tuple[BrokerService, Failure]":
    from halfpast_api.clock.clock_file import refuse_virtual
    from halfpast_core_store.service import BrokerService

    if clock is None:
        refuse_virtual(places.data)
    service = await BrokerService.open(places.data, config, clock)
    stack.push_async_callback(service.close)
    return service, service.failed


async def open_delay(
    stack: AsyncExitStack,
    places: Places,
    broker: "Broker",
    metadata: "MetadataStore",
    config: "ChronosConfig",
    clock: "Clock | None" = None,
    tracing: "Tracing | None" = None,
) -> "tuple[DelayService, Failure]":
    """It has settings of its own, so that topics stay paused without the API."""
    from halfpast_api.delay.topic_controls import CachedTopicControls
    from halfpast_chronos.service import DelayService

    cache = await open_cache(stack, places, metadata, "chronos")
    service = await DelayService.open(
        places.data, broker, config, CachedTopicControls(cache), clock
    )
    if tracing is not None:
        from halfpast_api.tracing.firings import FiringTraces

        traces = FiringTraces(tracing, broker)
        stack.push_async_callback(traces.close)
        service.observe_firings(traces.fired)
    stack.push_async_callback(service.close)
    return service, service.failed


async def open_metadata(stack: AsyncExitStack, places: Places) -> "MetadataStore":
    from halfpast_api.metadata.store import MetadataStore

    metadata = await MetadataStore.open(places.metadata)
    stack.push_async_callback(metadata.close)
    return metadata


async def open_cache(
    stack: AsyncExitStack, places: Places, metadata: "MetadataStore", service: str
) -> "MetadataCache":
    """The settings in memory, for a service that goes on without the database."""
    from halfpast_api.metadata.cache import CacheConfig, MetadataCache

    snapshot = places.data / f"metadata-snapshot-{service}.json"
    cache = MetadataCache(metadata, CacheConfig(snapshot_path=snapshot))
    await cache.start()
    stack.push_async_callback(cache.stop)
    return cache


async def open_transactions(
    stack: AsyncExitStack,
    places: Places,
    broker: "Broker",
    metadata: "MetadataStore",
    config: "TxnConfig",
    allow: "AllowList",
    clock: "Clock | None" = None,
    tracing: "Tracing | None" = None,
) -> "tuple[TransactionService, Failure]":
    """It has settings of its own, so that check-backs go on without the API."""
    from halfpast_api.transactions.check_endpoints import CheckEndpoints
    from halfpast_core_store.real_clock import RealClock
    from halfpast_txn.http_transport import HttpCheckTransport
    from halfpast_txn.service import TransactionService

    cache = await open_cache(stack, places, metadata, "txn")
    transport: CheckTransport = HttpCheckTransport(
        allow, clock=clock, stamps=RealClock()
    )
    if tracing is not None:
        from halfpast_api.tracing.checks import TracedChecks

        transport = TracedChecks(transport, tracing)
    service = await TransactionService.open(
        places.data,
        broker,
        config,
        CheckEndpoints(cache, cache.namespaces),
        transport,
        clock,
    )
    stack.push_async_callback(service.close)
    return service, service.failed


async def open_push(
    stack: AsyncExitStack,
    places: Places,
    broker: "Broker",
    delay: "DelayServer",
    metadata: "MetadataStore",
    config: "PushConfig",
    allow: "AllowList",
    clock: "Clock | None" = None,
    tracing: "Tracing | None" = None,
) -> "tuple[PushService, Failure]":
    """It has settings of its own, so that deliveries go on without the API."""
    from halfpast_api.push.caller import HttpCaller
    from halfpast_api.push.service import PushService
    from halfpast_txn.http_request import HttpRequester
    from halfpast_txn.http_resolver import SystemLookup

    cache = await open_cache(stack, places, metadata, "push")
    caller = HttpCaller(HttpRequester(allow, SystemLookup(), None))
    trace = None
    if tracing is not None:
        from halfpast_api.tracing.attempts import AttemptTraces

        trace = AttemptTraces(tracing)
    service = await PushService.open(
        places.data, broker, delay, metadata, cache, caller, config, clock, trace
    )
    stack.push_async_callback(service.close)
    return service, service.failed


async def open_api(
    stack: AsyncExitStack,
    places: Places,
    services: Services,
    metadata: "MetadataStore",
    config: "ApiConfig",
    mover: "ClockMover | None" = None,
    tracing: "Tracing | None" = None,
) -> str:
    """The address at which it answers."""
    from halfpast_api.app import start_api

    if config.metadata_snapshot is None:
        snapshot = places.data / "metadata-snapshot.json"
        config = replace(config, metadata_snapshot=snapshot)
    api = await start_api(
        services.broker,
        services.delay,
        services.transactions,
        metadata,
        config,
        services.push,
        mover,
        tracing,
    )
    stack.push_async_callback(api.close)
    return api.address
