"""The push process over a socket: its table, a client, a server."""

from halfpast_api.push.push_server import (
    AskEndpoint,
    EndpointNow,
    PushServer,
    TestedEndpoint,
    TestEndpoint,
)
from halfpast_core_store.broker import BrokerStatus, Empty
from halfpast_core_store.errors import CoreError
from halfpast_core_store.rpc import Method
from halfpast_core_store.rpc_client import RpcClient
from halfpast_core_store.rpc_errors import ErrorRegistry
from halfpast_core_store.rpc_server import Server, serve

SERVICE = "push"

PUSH_TABLE = (
    Method("endpoint_now", 1, AskEndpoint, EndpointNow),
    Method("test_endpoint", 2, TestEndpoint, TestedEndpoint),
    Method("heed_settings", 3, Empty, Empty),
    Method("status", 4, Empty, BrokerStatus),
)


async def serve_push(push: PushServer, address: str) -> Server:
    """Offer a push process at an address until the server is stopped."""
    return await serve(
        PUSH_TABLE, push, address, service=SERVICE, errors=ErrorRegistry(CoreError)
    )


class PushClient:
    """A push process elsewhere. Raises Unavailable if nothing was sent, and
    ConnectionLost if the outcome is unknown."""

    def __init__(self, address: str) -> None:
        self._rpc = RpcClient(
            address, PUSH_TABLE, service=SERVICE, errors=ErrorRegistry(CoreError)
        )

    async def close(self) -> None:
        await self._rpc.close()

    async def endpoint_now(self, request: AskEndpoint) -> EndpointNow:
        return await self._rpc.call("endpoint_now", request)

    async def test_endpoint(self, request: TestEndpoint) -> TestedEndpoint:
        return await self._rpc.call("test_endpoint", request)

    async def heed_settings(self, request: Empty) -> Empty:
        return await self._rpc.call("heed_settings", request)

    async def status(self, request: Empty) -> BrokerStatus:
        return await self._rpc.call("status", request)
