"""How late an event loop is: a timer that looks how late it was called.

Two figures for each interval. The mean is what requests have waited for, on average.
The least is high only while the loop is late all the time: one long pause, as any
process has now and then, does not show in it.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

_LOOKS: Final = 5


class LoopWatch:
    """Tells `told` the mean and the least lateness, in seconds, after each interval."""

    def __init__(self, interval_s: float, told: Callable[[float, float], None]) -> None:
        self._step_s = interval_s / _LOOKS
        self._told = told
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._keep_looking(), name="loop-watch")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    async def _keep_looking(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            late_s: list[float] = []
            for _ in range(_LOOKS):
                due_s = loop.time() + self._step_s
                await asyncio.sleep(self._step_s)
                late_s.append(max(0.0, loop.time() - due_s))
            self._told(sum(late_s) / _LOOKS, min(late_s))
