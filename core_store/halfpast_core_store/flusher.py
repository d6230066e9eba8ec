"""Flushing the index on a thread, beside everything else."""

import asyncio

from .errors import StoreFull
from .projection import Projection


class Flusher:
    """One flush at a time, also when whoever waited for the last one has gone."""

    def __init__(self, core: Projection) -> None:
        self._core = core
        self._flushed = core.position
        self._running: asyncio.Task[None] | None = None

    async def flush(self) -> int | None:
        """Make the index durable; gives the log position that they reflect.

        None if there is nothing new, or no room on the disk: then the log keeps what
        the index is made from, and a later flush will do. Raises IndexFailed.
        """
        if self._running is not None:
            await asyncio.wait([self._running])
        if self._core.position == self._flushed:
            return None
        position = self._core.save_position()
        self._running = asyncio.create_task(asyncio.to_thread(self._core.index.flush))
        try:
            await asyncio.shield(self._running)
        except StoreFull:
            return None
        self._flushed = position
        return position
