"""The processes of the suite: what each is made of, and how it runs.

    dev        broker + chronos + txn + push + api in one process, which call each
               other directly
    broker     the store, offered at an address
    chronos    the Delay Server: uses a broker, is offered at an address
    txn        the transaction service: likewise
    push       deliveries to endpoints: uses broker and chronos, is offered likewise
    api        HTTP: uses all four

Every `run_...` blocks until the process is asked to stop (see `shutdown.py`) and
calls `ready` with its address once it can be used.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

from halfpast_api.awaited import awaited
from halfpast_api.one_process import Configs, open_all
from halfpast_api.parts import (
    Services,
    open_api,
    open_broker,
    open_delay,
    open_metadata,
    open_push,
    open_transactions,
)
from halfpast_api.places import Places
from halfpast_api.probes import broker_answers, delay_answers
from halfpast_api.shutdown import Failure, serve_until_asked
from halfpast_api.tracing.opening import open_tracing

if TYPE_CHECKING:
    from halfpast_api.clock.clock_file import ClockFile
    from halfpast_api.config import ApiConfig
    from halfpast_api.push.config import PushConfig
    from halfpast_chronos.config import ChronosConfig
    from halfpast_core_store.config import StoreConfig
    from halfpast_txn.address_rules import AllowList
    from halfpast_txn.config import TxnConfig

Ready = Callable[[str], None]
STOP_GRACE_S = 2.0


def run_dev(
    places: Places,
    store: "StoreConfig",
    chronos: "ChronosConfig",
    txn: "TxnConfig",
    allow: "AllowList",
    push: "PushConfig",
    push_allow: "AllowList",
    api: "ApiConfig",
    ready: Ready,
    clock_file: "ClockFile | None" = None,
) -> None:
    """Everything in one process; with a `clock_file` by the virtual clock in it."""
    configs = Configs(
        store=store,
        chronos=chronos,
        txn=txn,
        check_allow=allow,
        push=push,
        push_allow=push_allow,
        api=api,
    )

    async def main() -> None:
        address = ""

        async def open_parts(stack: AsyncExitStack) -> list[Failure]:
            nonlocal address
            address, failures = await open_all(stack, places, configs, clock_file)
            return failures

        await serve_until_asked(open_parts, lambda: ready(address))

    run(places, main())


def run_broker(places: Places, store: "StoreConfig", ready: Ready) -> None:
    """The store, offered at `places.broker`."""

    async def main() -> None:
        async def open_parts(stack: AsyncExitStack) -> list[Failure]:
            from halfpast_core_store.broker_rpc import serve_broker

            broker, failed = await open_broker(stack, places, store)
            server = await serve_broker(broker, places.broker)
            stack.push_async_callback(server.stop, STOP_GRACE_S)
            stack.callback(broker.end_polls)
            return [failed]

        await serve_until_asked(open_parts, lambda: ready(places.broker))

    run(places, main())


def run_chronos(places: Places, chronos: "ChronosConfig", ready: Ready) -> None:
    """The Delay Server, using `places.broker` and the metadata, offered at
    `places.chronos`."""

    async def main() -> None:
        async def open_parts(stack: AsyncExitStack) -> list[Failure]:
            from halfpast_chronos.delay_rpc import serve_delay
            from halfpast_core_store.broker_rpc import BrokerClient

            broker = BrokerClient(places.broker)
            stack.push_async_callback(broker.close)
            metadata = await open_metadata(stack, places)
            tracing = open_tracing(stack, "chronos")
            delay, failed = await open_delay(
                stack, places, broker, metadata, chronos, tracing=tracing
            )
            server = await serve_delay(delay, places.chronos)
            stack.push_async_callback(server.stop, STOP_GRACE_S)
            return [failed]

        await awaited(
            lambda: broker_answers(places.broker),
            modules=("halfpast_chronos.service", "halfpast_api.metadata.store"),
        )
        await serve_until_asked(open_parts, lambda: ready(places.chronos))

    run(places, main())


def run_txn(places: Places, txn: "TxnConfig", allow: "AllowList", ready: Ready) -> None:
    """The transaction service, using `places.broker` and the metadata, offered at
    `places.transactions`."""

    async def main() -> None:
        async def open_parts(stack: AsyncExitStack) -> list[Failure]:
            from halfpast_core_store.broker_rpc import BrokerClient
            from halfpast_txn.txn_rpc import serve_transactions

            broker = BrokerClient(places.broker)
            stack.push_async_callback(broker.close)
            metadata = await open_metadata(stack, places)
            transactions, failed = await open_transactions(
                stack,
                places,
                broker,
                metadata,
                txn,
                allow,
                tracing=open_tracing(stack, "txn"),
            )
            server = await serve_transactions(transactions, places.transactions)
            stack.push_async_callback(server.stop, STOP_GRACE_S)
            stack.callback(transactions.end_polls)
            return [failed]

        await awaited(
            lambda: broker_answers(places.broker),
            modules=(
                "halfpast_txn.service",
                "halfpast_txn.http_transport",
                "halfpast_api.metadata.store",
            ),
        )
        await serve_until_asked(open_parts, lambda: ready(places.transactions))

    run(places, main())


def run_push(
    places: Places, push: "PushConfig", allow: "AllowList", ready: Ready
) -> None:
    """Deliveries to endpoints, using `places.broker`, `places.chronos` and the
    metadata, offered at `places.push`."""

    async def main() -> None:
        async def open_parts(stack: AsyncExitStack) -> list[Failure]:
            from halfpast_api.push.push_rpc import serve_push
            from halfpast_chronos.delay_rpc import DelayClient
            from halfpast_core_store.broker_rpc import BrokerClient

            broker, delay = BrokerClient(places.broker), DelayClient(places.chronos)
            stack.push_async_callback(broker.close)
            stack.push_async_callback(delay.close)
            metadata = await open_metadata(stack, places)
            service, failed = await open_push(
                stack,
                places,
                broker,
                delay,
                metadata,
                push,
                allow,
                tracing=open_tracing(stack, "push"),
            )
            server = await serve_push(service, places.push)
            stack.push_async_callback(server.stop, STOP_GRACE_S)
            return [failed]

        await awaited(
            lambda: broker_answers(places.broker),
            lambda: delay_answers(places.chronos),
            modules=("halfpast_api.push.service", "halfpast_api.metadata.store"),
        )
        await serve_until_asked(open_parts, lambda: ready(places.push))

    run(places, main())


def run_api(places: Places, api: "ApiConfig", ready: Ready) -> None:
    """HTTP, using the services at their addresses in `places`."""

    async def main() -> None:
        address = ""

        async def open_parts(stack: AsyncExitStack) -> list[Failure]:
            from halfpast_api.push.push_rpc import PushClient
            from halfpast_chronos.delay_rpc import DelayClient
            from halfpast_core_store.broker_rpc import BrokerClient
            from halfpast_txn.txn_rpc import TransactionsClient

            nonlocal address
            broker = BrokerClient(places.broker)
            delay = DelayClient(places.chronos)
            transactions = TransactionsClient(places.transactions)
            push = PushClient(places.push)
            for client in (broker, delay, transactions, push):
                stack.push_async_callback(client.close)
            services = Services(
                broker=broker, delay=delay, transactions=transactions, push=push
            )
            metadata = await open_metadata(stack, places)
            tracing = open_tracing(stack, "api")
            address = await open_api(
                stack, places, services, metadata, api, tracing=tracing
            )
            return []

        await serve_until_asked(open_parts, lambda: ready(address))

    run(places, main())


def run(places: Places, main: Coroutine[Any, Any, None]) -> None:
    """Run a process's main coroutine on uvloop."""
    import uvloop

    places.prepare()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main)
