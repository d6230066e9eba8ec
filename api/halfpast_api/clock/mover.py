"""Moving a virtual clock: from one moment at which something is due to the next.

    settle ──> step to the next alarm ──> settle ──> ... ──> the moment asked for

At each stop all that is due is fired, stored, made visible and, where it goes to an
endpoint, delivered, before time goes on. So everything happens in due order and at its
own time, recurring schedules, check-backs and retries too, and twice in the same way.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from halfpast_api.clock.clock_file import ClockFile
from halfpast_api.problems import Refusal
from halfpast_api.times import render_instant
from halfpast_core_store.virtual_clock import VirtualClock

CALM_COUNT: Final = 3
"""So often in a row nobody may have had anything to do."""
SPIN_COUNT: Final = 200
PATIENCE_S: Final = 30.0
"""What is due at one moment, calls to endpoints included, has so long."""
BUDGET_S: Final = 10.0
"""A request moves the clock for so long, and then answers how far it has come."""


class Part(Protocol):
    """What does something because time passes."""

    async def settle(self) -> bool:
        """Do what is due by now. True if there may be more to do."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """`stops`: at so many moments something was due. Not `is_there`: ask again."""

    from_ms: int
    now_ms: int
    stops: int
    is_there: bool


class ClockMover:
    """Belongs to the event loop of the parts. `is_writing` tells whether anything is on
    its way to the log."""

    def __init__(
        self,
        clock: VirtualClock,
        parts: Sequence[Part],
        is_writing: Callable[[], bool],
        file: ClockFile,
        budget_s: float = BUDGET_S,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._clock = clock
        self._parts = parts
        self._is_writing = is_writing
        self._file = file
        self._budget_s = budget_s
        self._patience_s = patience_s
        self._lock = asyncio.Lock()

    @property
    def now_ms(self) -> int:
        return self._clock.now_ms

    def now_ns(self) -> int:
        """The same as `time.time_ns` has it."""
        return self._clock.now_ns()

    async def move(self, target_ms: Callable[[int], int]) -> Moved:
        """Move on to what `target_ms` makes of the present time. One at a time moves
        the clock. Raises Refusal: it never goes back."""
        async with self._lock:
            begin_ms = self._clock.now_ms
            return await self._move_to(begin_ms, target_ms(begin_ms))

    async def _move_to(self, begin_ms: int, until_ms: int) -> Moved:
        if until_ms < begin_ms:
            raise Refusal(
                "clock_goes_forward",
                f"it is {render_instant(begin_ms)} by the virtual clock, and "
                f"{render_instant(until_ms)} is over; for an earlier time start anew "
                "with another data folder",
            )
        loop = asyncio.get_running_loop()
        end_s = loop.time() + self._budget_s
        self._file.keep(until_ms)  # first: what is in the log is never ahead of it
        stops = 0
        try:
            await self._settle()
            while self._clock.step(until_ms):
                stops += 1
                await self._settle()
                if loop.time() >= end_s:
                    break
            await self._settle()
        finally:
            self._file.keep(self._clock.now_ms)
        now_ms = self._clock.now_ms
        return Moved(
            from_ms=begin_ms, now_ms=now_ms, stops=stops, is_there=now_ms >= until_ms
        )

    async def _settle(self) -> None:
        """Until nobody has anything more to do now."""
        loop = asyncio.get_running_loop()
        end_s = loop.time() + self._patience_s
        calm = rounds = 0
        while calm < CALM_COUNT:
            is_busy = False
            for part in self._parts:
                is_busy = await part.settle() or is_busy
            is_busy = self._is_writing() or is_busy
            calm = 0 if is_busy else calm + 1
            rounds += 1
            if is_busy and loop.time() > end_s:
                raise self._stuck()
            await asyncio.sleep(0 if rounds < SPIN_COUNT else 0.001)

    def _stuck(self) -> Refusal:
        return Refusal(
            "clock_stuck",
            f"what is due by {render_instant(self._clock.now_ms)} is not dealt with "
            f"after {self._patience_s:g} s: an endpoint may not answer, or the disk be "
            "full; the clock stays there",
        )
