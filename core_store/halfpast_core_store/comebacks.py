"""Waiting for hidden messages to come back, by the clock that hides them."""

import asyncio

from .arrivals import Arrivals
from .ports import Clock
from .virtual_clock import virtual


class Comebacks:
    """What a pop does that found nothing: it waits for something new, or for the next
    hidden message to come back, whichever is first."""

    def __init__(
        self, arrivals: Arrivals, clock: Clock, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._arrivals = arrivals
        self._virtual = virtual(clock)
        self._loop = loop

    async def wait(
        self, topic_id: int, group: str, left_s: float, now_ms: int, next_ms: int
    ) -> None:
        """At most so long; the message comes back at `next_ms`."""
        back_s = max(0.001, (next_ms - now_ms) / 1000)
        if self._virtual is None or next_ms <= now_ms:
            await self._arrivals.wait(topic_id, min(left_s, back_s), group)
            return
        # The clock may be moved by any amount meanwhile, so an alarm tells. It wakes
        # one waiter of each group, who takes what there is.
        alarm = self._virtual.alarm(
            lambda: self._arrivals.arrived([topic_id]), self._loop.call_soon
        )
        alarm.set(next_ms)
        try:
            await self._arrivals.wait(topic_id, left_s, group)
        finally:
            alarm.close()
