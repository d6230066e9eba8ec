"""All parts of the suite in one process, which call each other directly."""

from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

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
from halfpast_api.shutdown import Failure
from halfpast_api.tracing.opening import open_tracing

if TYPE_CHECKING:
    from halfpast_api.clock.clock_file import ClockFile
    from halfpast_api.config import ApiConfig
    from halfpast_api.push.config import PushConfig
    from halfpast_chronos.config import ChronosConfig
    from halfpast_core_store.config import StoreConfig
    from halfpast_txn.address_rules import AllowList
    from halfpast_txn.config import TxnConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Configs:
    """How each part is to work; where check-backs and deliveries may go besides."""

    store: "StoreConfig"
    chronos: "ChronosConfig"
    txn: "TxnConfig"
    check_allow: "AllowList"
    push: "PushConfig"
    push_allow: "AllowList"
    api: "ApiConfig"


async def open_all(
    stack: AsyncExitStack,
    places: Places,
    configs: Configs,
    clock_file: "ClockFile | None" = None,
) -> tuple[str, list[Failure]]:
    """The address of the API, and what tells of a failed part. With a `clock_file` all
    of them go by a virtual clock, which the API moves."""
    from halfpast_api.clock.mover import ClockMover
    from halfpast_core_store.virtual_clock import VirtualClock

    clock = None if clock_file is None else VirtualClock(clock_file.now_ms)
    tracing = open_tracing(stack, "dev")
    broker, broker_failed = await open_broker(stack, places, configs.store, clock)
    metadata = await open_metadata(stack, places)
    delay, delay_failed = await open_delay(
        stack, places, broker, metadata, configs.chronos, clock, tracing
    )
    transactions, txn_failed = await open_transactions(
        *(stack, places, broker, metadata),
        *(configs.txn, configs.check_allow, clock, tracing),
    )
    push, push_failed = await open_push(
        *(stack, places, broker, delay, metadata),
        *(configs.push, configs.push_allow, clock, tracing),
    )
    mover = None
    if clock is not None and clock_file is not None:
        mover = ClockMover(
            clock, [delay, transactions, push], lambda: broker.is_busy, clock_file
        )
    services = Services(
        broker=broker, delay=delay, transactions=transactions, push=push
    )
    address = await open_api(
        stack, places, services, metadata, configs.api, mover, tracing
    )
    return address, [broker_failed, delay_failed, txn_failed, push_failed]
