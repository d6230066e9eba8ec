"""How many calls may be on their way at once; the others wait in line."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress


class Slots:
    """Fair: first come, first served. The number may change at any time."""

    def __init__(self) -> None:
        self.used = 0
        self._count_max = 1
        self._waiters: deque[asyncio.Future[None]] = deque()

    @property
    def is_idle(self) -> bool:
        return not self.used and not self._waiters

    @asynccontextmanager
    async def taken(self, count_max: int) -> AsyncGenerator[None, None]:
        """Hold one of now `count_max` slots."""
        self._count_max = max(count_max, 1)
        await self._take()
        try:
            yield
        finally:
            self._give()

    async def _take(self) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        self._admit()
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.cancelled():
                with suppress(ValueError):
                    self._waiters.remove(waiter)
            else:
                self._give()  # it was admitted at the same moment
            raise

    def _give(self) -> None:
        self.used -= 1
        self._admit()

    def _admit(self) -> None:
        while self._waiters and self.used < self._count_max:
            waiter = self._waiters.popleft()
            if not waiter.done():
                self.used += 1
                waiter.set_result(None)
