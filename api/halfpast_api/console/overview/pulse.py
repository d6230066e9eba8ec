"""How things went lately: a sample every few seconds, of the last half hour.

One for a process, whoever looks. It asks what `/metrics` asks, and how many events are
late.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

import structlog

from halfpast_api.console.overview.sample import Sample, sample_of
from halfpast_api.health import HealthHandlers
from halfpast_api.metadata.clock import system_now_ms
from halfpast_chronos.delay_server import DelayServer
from halfpast_chronos.due_calls import AskDue

EVERY_S: Final = 5.0
KEPT_S: Final = 1_800.0
_ASK_S: Final = 2.0
_STEP_MS: Final = 1_000


class Pulse:
    """Samples, the newest last."""

    def __init__(
        self,
        health: HealthHandlers,
        delay: DelayServer,
        is_stale: Callable[[], bool],
        every_s: float = EVERY_S,
        now_ms: Callable[[], int] = system_now_ms,
    ) -> None:
        self._health = health
        self._delay = delay
        self._is_stale = is_stale
        self._every_s = every_s
        self._now_ms = now_ms
        self._task: asyncio.Task[None] | None = None
        self.samples: Final[deque[Sample]] = deque(maxlen=int(KEPT_S / every_s) + 1)

    @property
    def latest(self) -> Sample | None:
        return self.samples[-1] if self.samples else None

    def signs(self) -> Mapping[str, int]:
        """What the menu shows beside its lines."""
        return {} if self.latest is None else self.latest.gauges

    def start(self) -> None:
        self._task = asyncio.create_task(self._keep_taking())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def take(self) -> Sample:
        """One more, now."""
        statuses = await self._health.statuses()
        late = await self._late()
        sample = sample_of(statuses, time.time(), is_stale=self._is_stale(), late=late)
        self.samples.append(sample)
        return sample

    async def _late(self) -> int | None:
        now_ms = self._now_ms() // _STEP_MS * _STEP_MS
        try:
            async with asyncio.timeout(_ASK_S):
                ask = AskDue(0, now_ms, now_ms + _STEP_MS, _STEP_MS)
                return (await self._delay.ask_due(ask)).late
        except Exception:  # whatever it is: the health of the service tells it
            return None

    async def _keep_taking(self) -> None:
        while True:
            try:
                await self.take()
            except Exception as error:
                log = structlog.get_logger("halfpast.console")
                log.warning("sample_failed", error=repr(error))
            await asyncio.sleep(self._every_s)
