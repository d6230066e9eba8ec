"""Flushing the index on a thread, beside everything else."""

import asyncio

from .core import DelayCore


class Flusher:
    """One flush at a time, also when whoever waited for the last one has gone."""

    def __init__(self, core: DelayCore) -> None:
        self._core = core
        self._running: asyncio.Task[None] | None = None

    async def flush(self) -> int:
        """Make the timers durable; gives the log position that they reflect."""
        if self._running is not None:
            await asyncio.wait([self._running])
        position = self._core.save_position()
        self._running = asyncio.create_task(asyncio.to_thread(self._core.index.flush))
        await asyncio.shield(self._running)
        return position
