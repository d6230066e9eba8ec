"""Following the log to its end; those who ask at the same time share the asking."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from halfpast_core_store.rpc_errors import Unavailable

from .claims import ROLE, SHUTTING_DOWN


class SharedCatchUp:
    """Applies what was durable when it is called. `follow` does the work."""

    def __init__(
        self,
        follow: Callable[[], Coroutine[Any, Any, None]],
        is_closing: Callable[[], bool],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._follow = follow
        self._is_closing = is_closing
        self._loop = loop
        self._running: asyncio.Task[None] | None = None

    async def __call__(self) -> None:
        running = self._running
        if running is not None and not running.done():
            # It may have looked before what this caller is after was durable.
            await asyncio.wait([running])
        if self._is_closing():
            raise Unavailable(ROLE, SHUTTING_DOWN)
        if self._running is running:
            self._running = self._loop.create_task(self._follow())
            self._running.add_done_callback(seen)
        task = self._running
        assert task is not None
        await asyncio.wait([task])  # it goes on though this caller may go
        if task.cancelled():  # by `cancel`
            raise Unavailable(ROLE, SHUTTING_DOWN)
        task.result()

    async def cancel(self) -> None:
        """Send those home who wait."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)


def seen(task: "asyncio.Task[None]") -> None:
    """Its error was told to those who waited; nobody need be left to hear it."""
    if not task.cancelled():
        task.exception()
