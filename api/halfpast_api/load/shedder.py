"""Refuses what is too much, before it costs much: the gate of overload."""

import asyncio
import time
from collections.abc import Callable
from typing import Final

from halfpast_api.answer import problem_answer
from halfpast_api.load.loop_watch import LoopWatch
from halfpast_api.load.overload_config import OverloadConfig
from halfpast_api.load.urgency import Urgency
from halfpast_api.load.whole_entry import is_whole_entry
from halfpast_api.load.work_window import UNIT_BYTES, WorkWindow
from halfpast_api.problems import Refusal

_RETRY_AFTER_S: Final = 1


class Shedder:
    """One for each process. `refused` counts those that were not even parsed."""

    def __init__(
        self,
        config: OverloadConfig,
        wall_s: Callable[[], float] = time.time,
    ) -> None:
        self.window: Final = WorkWindow(config)
        self.refused = 0
        self._wall_s = wall_s
        self._watch = LoopWatch(config.interval_ms / 1000, self.window.adjust)
        self._coming = 0
        self._answer = b""
        self._answered_s = -1

    def start(self) -> None:
        """Look after the event loop that runs."""
        self._watch.start()

    async def stop(self) -> None:
        await self._watch.stop()

    def check(self, urgency: Urgency) -> None:
        """Raise Refusal for a request that had better not begin."""
        if urgency is Urgency.ENTRY:
            if self.window.is_full:
                raise _overloaded()
        elif urgency is Urgency.ORDINARY and self.window.is_late:
            raise _overloaded()

    def shed(self, data: bytes) -> bytes | None:
        """What to answer to bytes that begin a request, without parsing it; None if
        it is to be parsed."""
        window = self.window
        coming = self._coming
        if window.units + coming < window.size:
            # Counted until the loop comes round: then they have entered.
            if not coming:
                asyncio.get_running_loop().call_soon(self._have_come)
            self._coming = coming + 1 + len(data) // UNIT_BYTES
            return None
        if not is_whole_entry(data):
            return None
        self.refused += 1
        now_s = int(self._wall_s())
        if now_s != self._answered_s:
            answer = problem_answer(_overloaded(), "")
            self._answer = answer.whole("POST")
            self._answered_s = now_s
        return self._answer

    def _have_come(self) -> None:
        self._coming = 0


def _overloaded() -> Refusal:
    return Refusal(
        "overloaded",
        "more comes than can be done in time; nothing was stored: repeat this after a "
        "moment, with the same Idempotency-Key if it has one",
        headers=[("Retry-After", str(_RETRY_AFTER_S))],
    )
