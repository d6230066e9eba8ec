"""Waiting until a claim on a projection is released."""

import asyncio

from .projection import Projection


class ClaimWaiters:
    """Who waits for which claim."""

    def __init__(self, core: Projection, loop: asyncio.AbstractEventLoop) -> None:
        self._core = core
        self._loop = loop
        self._waiters: dict[bytes, list[asyncio.Future[None]]] = {}

    def next_release(self, claim: bytes) -> asyncio.Future[None]:
        """Done when this claim is released the next time."""
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._waiters.setdefault(claim, []).append(waiter)
        return waiter

    async def released(self, claim: bytes) -> None:
        """Wait until nobody holds this claim."""
        if claim in self._core.claims:
            await self.next_release(claim)

    def wake(self, claim: bytes) -> None:
        """The claim has been released."""
        for waiter in self._waiters.pop(claim, ()):
            if not waiter.done():
                waiter.set_result(None)

    def wake_all(self) -> None:
        """Nothing will be released any more: send everybody home."""
        for claim in list(self._waiters):
            self.wake(claim)
