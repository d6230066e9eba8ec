"""The processes of the suite: what each is made of, and how it runs.

    dev        broker + chronos + api in one process, calling each other directly
    broker     the store, offered at an address
    chronos    the Delay Server: uses a broker, is offered at an address
    api        HTTP: uses both

Every `run_...` blocks until the process is asked to stop (see `shutdown.py`) and
calls `ready` with its address once it can be used.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from halfpast_api.shutdown import Failure, serve_until_asked

if TYPE_CHECKING:  # these bring RocksDB, SQLAlchemy and more: load what is run
    from halfpast_api.config import ApiConfig
    from halfpast_chronos.config import ChronosConfig
    from halfpast_chronos.delay_server import DelayServer
    from halfpast_core_store.broker import Broker
    from halfpast_core_store.config import StoreConfig

Ready = Callable[[str], None]
STOP_GRACE_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Where the processes of one installation keep data and meet each other.

    `broker` and `chronos` are addresses: unix:/path or tcp:host:port.
    `metadata` is a database URL.
    """

    data: Path
    broker: str
    chronos: str
    metadata: str

    @classmethod
    def below(
        cls,
        data: Path,
        *,
        broker: str | None = None,
        chronos: str | None = None,
        metadata: str | None = None,
    ) -> Self:
        """Everything that is not named lies in the data folder."""
        data = data.absolute()
        return cls(
            data=data,
            broker=broker or f"unix:{data}/run/broker.sock",
            chronos=chronos or f"unix:{data}/run/chronos.sock",
            metadata=metadata or f"sqlite:///{data}/metadata.sqlite",
        )

    def prepare(self) -> None:
        """Make the folders. Only this user may enter the one with the sockets."""
        self.data.mkdir(parents=True, exist_ok=True)
        (self.data / "run").mkdir(mode=0o700, exist_ok=True)


def run_dev(
    places: Places,
    store: "StoreConfig",
    chronos: "ChronosConfig",
    api: "ApiConfig",
    ready: Ready,
) -> None:
    """Everything in one process."""

    async def main() -> None:
        address = ""

        async def open_parts(stack: AsyncExitStack) -> list[Failure]:
            nonlocal address
            broker, broker_failed = await _open_broker(stack, places, store)
            delay, delay_failed = await _open_delay(stack, places, broker, chronos)
            address = await _open_api(stack, places, broker, delay, api)
            return [broker_failed, delay_failed]

        await serve_until_asked(open_parts, lambda: ready(address))

    run(places, main())


def run_broker(places: Places, store: "StoreConfig", ready: Ready) -> None:
    """The store, offered at `places.broker`."""

    async def main() -> None:
        async def open_parts(stack: AsyncExitStack) -> list[Failure]:
            from halfpast_core_store.broker_rpc import serve_broker

            broker, failed = await _open_broker(stack, places, store)
            server = await serve_broker(broker, places.broker)
            stack.push_async_callback(server.stop, STOP_GRACE_S)
            return [failed]

        await serve_until_asked(open_parts, lambda: ready(places.broker))

    run(places, main())


def run_chronos(places: Places, chronos: "ChronosConfig", ready: Ready) -> None:
    """The Delay Server, using `places.broker`, offered at `places.chronos`."""

    async def main() -> None:
        async def open_parts(stack: AsyncExitStack) -> list[Failure]:
            from halfpast_chronos.delay_rpc import serve_delay
            from halfpast_core_store.broker_rpc import BrokerClient

            broker = BrokerClient(places.broker)
            stack.push_async_callback(broker.close)
            delay, failed = await _open_delay(stack, places, broker, chronos)
            server = await serve_delay(delay, places.chronos)
            stack.push_async_callback(server.stop, STOP_GRACE_S)
            return [failed]

        await serve_until_asked(open_parts, lambda: ready(places.chronos))

    run(places, main())


def run_api(places: Places, api: "ApiConfig", ready: Ready) -> None:
    """HTTP, using `places.broker` and `places.chronos`."""

    async def main() -> None:
        address = ""

        async def open_parts(stack: AsyncExitStack) -> list[Failure]:
            from halfpast_chronos.delay_rpc import DelayClient
            from halfpast_core_store.broker_rpc import BrokerClient

            nonlocal address
            broker, delay = BrokerClient(places.broker), DelayClient(places.chronos)
            stack.push_async_callback(broker.close)
            stack.push_async_callback(delay.close)
            address = await _open_api(stack, places, broker, delay, api)
            return []

        await serve_until_asked(open_parts, lambda: ready(address))

    run(places, main())


def run(places: Places, main: Coroutine[Any, Any, None]) -> None:
    """Run a process's main coroutine on uvloop."""
    import uvloop

    places.prepare()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main)


async def _open_broker(
    stack: AsyncExitStack, places: Places, config: "StoreConfig"
) -> "tuple[Broker, Failure]":
    from halfpast_core_store.service import BrokerService

    service = await BrokerService.open(places.data, config)
    stack.push_async_callback(service.close)
    return service, service.failed


async def _open_delay(
    stack: AsyncExitStack, places: Places, broker: "Broker", config: "ChronosConfig"
) -> "tuple[DelayServer, Failure]":
    from halfpast_chronos.service import DelayService

    service = await DelayService.open(places.data, broker, config)
    stack.push_async_callback(service.close)
    return service, service.failed


async def _open_api(
    stack: AsyncExitStack,
    places: Places,
    broker: "Broker",
    delay: "DelayServer",
    config: "ApiConfig",
) -> str:
    """The address at which it answers."""
    from halfpast_api.app import start_api
    from halfpast_api.metadata.store import MetadataStore

    if config.metadata_snapshot is None:
        snapshot = places.data / "metadata-snapshot.json"
        config = replace(config, metadata_snapshot=snapshot)
    metadata = await MetadataStore.open(places.metadata)
    stack.push_async_callback(metadata.close)
    api = await start_api(broker, delay, metadata, config)
    stack.push_async_callback(api.close)
    return api.address
