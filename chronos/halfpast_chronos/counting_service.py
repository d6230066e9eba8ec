"""The counts of what is due, on the event loop: asked for, and counted again.

Counting again takes a slice at a time with a pause after each, so that ten million
timers are counted within a minute and nothing fires later because of it.
"""

import asyncio

from halfpast_core_store.errors import StoreFull
from halfpast_core_store.follower import Follower

from .core import DelayCore
from .due_calls import AskDue, DueHistogram
from .due_histogram import HistogramQuery
from .operation import EVER_MS

PAUSE_S = 0.001
IDLE_S = 0.2
TURNS_MAX = 5_000  # of the loop, in which a frame surely is applied


class CountingService:
    """Counts for one Delay Server."""

    def __init__(self, core: DelayCore, follower: Follower) -> None:
        self._core = core
        self._follower = follower

    async def ask(self, request: AskDue) -> DueHistogram:
        await self._follower.catch_up()
        query = HistogramQuery(self._core, request)
        more = True
        while more:
            more = query.step()
            await asyncio.sleep(0)
        return query.answer()

    async def run(self) -> None:
        """Count whatever has to be counted, for ever."""
        while True:
            more = self._core.due_counts.step() or self._core.history.step()
            await asyncio.sleep(PAUSE_S if more else IDLE_S)

    async def frame_end(self) -> None:
        """Let the frame that is being applied be applied to its end: what is saved
        amid a frame is not true of the index, since all of it would be applied again.
        """
        for _ in range(TURNS_MAX):
            if not self._core.mid_frame:
                return
            await asyncio.sleep(0)

    async def save(self) -> None:
        """Save what the last flush has left out, so that the next start need not count
        again."""
        core = self._core
        if core.due_counts.is_marked:
            return
        batch = core.index.batch()
        core.save_counts(batch, EVER_MS)
        core.index.write(batch)
        try:
            await asyncio.to_thread(core.index.flush)
        except StoreFull:
            return  # then it counts again
