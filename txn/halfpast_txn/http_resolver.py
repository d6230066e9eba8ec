"""Host names to addresses, apart from the connecting.

We look a name up once, judge what we got, and connect to just that: a name that
means something else a moment later changes nothing.
"""

import asyncio
import socket
from collections.abc import Sequence
from ipaddress import IPv6Address, ip_address
from typing import Protocol

from aiohttp.abc import AbstractResolver, ResolveResult

from .address_rules import Address


class Lookup(Protocol):
    """Where addresses come from: the port."""

    async def addresses(self, host: str, port: int) -> Sequence[Address]:
        """All addresses of `host`, best first. Raises OSError if there is none."""
        ...


class SystemLookup:
    """Asks the machine's resolver, once for all who want the same name meanwhile.

    A lookup holds a thread until the resolver gives up, however early its caller
    did; so a name server that hangs holds one thread for each name, not for each call.
    """

    def __init__(self) -> None:
        self._running: dict[tuple[str, int], asyncio.Task[list[Address]]] = {}

    async def addresses(self, host: str, port: int) -> Sequence[Address]:
        key = host, port
        task = self._running.get(key)
        if task is None:
            task = asyncio.create_task(_look_up(host, port))
            self._running[key] = task
            task.add_done_callback(lambda done: self._finish(key, done))
        await asyncio.wait((task,))  # does not cancel it if we are cancelled
        return task.result()

    def _finish(self, key: tuple[str, int], task: asyncio.Task[list[Address]]) -> None:
        self._running.pop(key, None)
        if not task.cancelled():
            task.exception()  # perhaps nobody waits for it any more


class PinnedResolver(AbstractResolver):
    """Gives aiohttp the addresses that were judged, whatever it asks for."""

    def __init__(self, addresses: Sequence[Address]) -> None:
        self._addresses = addresses

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        return [
            ResolveResult(
                hostname=host,
                host=str(address),
                port=port,
                family=_family(address),
                proto=socket.IPPROTO_TCP,
                flags=socket.AI_NUMERICHOST,
            )
            for address in self._addresses
        ]

    async def close(self) -> None:
        return


async def _look_up(host: str, port: int) -> list[Address]:
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [ip_address(str(sockaddr[0])) for *_, sockaddr in found]


def _family(address: Address) -> socket.AddressFamily:
    return socket.AF_INET6 if isinstance(address, IPv6Address) else socket.AF_INET
