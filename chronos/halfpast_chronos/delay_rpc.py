"""The Delay Server over a socket: its table, a client, a server."""

from halfpast_core_store.broker import BrokerStatus, Empty
from halfpast_core_store.errors import CoreError
from halfpast_core_store.rpc import Method
from halfpast_core_store.rpc_client import RpcClient
from halfpast_core_store.rpc_errors import ErrorRegistry
from halfpast_core_store.rpc_server import Server, serve

from . import errors as errors  # so that the registry knows our errors
from .delay_server import (
    Cancel,
    Cancelled,
    DelayServer,
    Event,
    EventPage,
    GetEvent,
    GotEvent,
    ListEvents,
    Replace,
    Replaced,
    Reschedule,
)

SERVICE = "chronos"

DELAY_TABLE = (
    Method("cancel", 1, Cancel, Cancelled),
    Method("reschedule", 2, Reschedule, Event),
    Method("replace", 3, Replace, Replaced),
    Method("get_event", 4, GetEvent, GotEvent),
    Method("list_events", 5, ListEvents, EventPage),
    Method("status", 6, Empty, BrokerStatus),
)


async def serve_delay(delay: DelayServer, address: str) -> Server:
    """Offer a Delay Server at an address until the server is stopped."""
    return await serve(
        DELAY_TABLE, delay, address, service=SERVICE, errors=ErrorRegistry(CoreError)
    )


class DelayClient:
    """A Delay Server in another process. Raises what it raises, Unavailable if
    nothing was sent, and ConnectionLost if the outcome is unknown."""

    def __init__(self, address: str) -> None:
        self._rpc = RpcClient(
            address, DELAY_TABLE, service=SERVICE, errors=ErrorRegistry(CoreError)
        )

    async def close(self) -> None:
        await self._rpc.close()

    async def cancel(self, request: Cancel) -> Cancelled:
        return await self._rpc.call("cancel", request)

    async def reschedule(self, request: Reschedule) -> Event:
        return await self._rpc.call("reschedule", request)

    async def replace(self, request: Replace) -> Replaced:
        return await self._rpc.call("replace", request)

    async def get_event(self, request: GetEvent) -> GotEvent:
        return await self._rpc.call("get_event", request)

    async def list_events(self, request: ListEvents) -> EventPage:
        return await self._rpc.call("list_events", request)

    async def status(self, request: Empty) -> BrokerStatus:
        return await self._rpc.call("status", request)
