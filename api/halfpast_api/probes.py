"""Whether a service answers where it should. May raise OSError for 'no'."""

import asyncio
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:  # the supervisor starts more quickly without
    from pathlib import Path

    from halfpast_core_store.broker import BrokerStatus, Empty

PROBE_S = 2.0


class Asked(Protocol):
    """A client of any of the services."""

    async def status(self, request: "Empty") -> "BrokerStatus": ...

    async def close(self) -> None: ...


async def broker_answers(address: str) -> bool:
    """Whether a broker at this address answers a question."""
    from halfpast_core_store.broker_rpc import BrokerClient

    return await _answers(BrokerClient(address))


async def delay_answers(address: str) -> bool:
    """Whether a Delay Server at this address answers a question."""
    from halfpast_chronos.delay_rpc import DelayClient

    return await _answers(DelayClient(address))


async def transactions_answer(address: str) -> bool:
    """Whether a transaction service at this address answers a question."""
    from halfpast_txn.txn_rpc import TransactionsClient

    return await _answers(TransactionsClient(address))


async def push_answers(address: str) -> bool:
    """Whether a push process at this address answers a question."""
    from halfpast_api.push.push_rpc import PushClient

    return await _answers(PushClient(address))


async def _answers(client: Asked) -> bool:
    from halfpast_core_store.broker import Empty
    from halfpast_core_store.errors import CoreError

    try:
        async with asyncio.timeout(PROBE_S):
            await client.status(Empty())
    except CoreError:
        return False
    finally:
        await client.close()
    return True


async def exporter_holds(folder: "Path") -> bool:
    """Whether somebody exports audit events into this folder."""
    from halfpast_api.audits.export import exporter_runs

    return exporter_runs(folder)


async def api_answers(host: str, port: int) -> bool:
    """Whether HTTP is served there and the services behind it answer."""
    return await _is_ok(host, port, "/readyz")


async def http_lives(host: str, port: int) -> bool:
    """Whether HTTP is served there, whatever becomes of the services behind it."""
    return await _is_ok(host, port, "/healthz")


async def _is_ok(host: str, port: int, path: str) -> bool:
    async with asyncio.timeout(PROBE_S):
        reader, writer = await asyncio.open_connection(host, port)
        try:
            writer.write(
                f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
                "".encode()
            )
            return b" 200 " in await reader.readline()
        finally:
            writer.close()
