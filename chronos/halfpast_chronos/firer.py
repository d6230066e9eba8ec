"""Firing what is due, exactly then: batches of timers on their way to the log."""

import asyncio
from collections.abc import Callable

import structlog

from halfpast_core_store.broker import Append
from halfpast_core_store.errors import CoreError, FenceLost, TooEarly
from halfpast_core_store.ports import Clock
from halfpast_core_store.rpc_errors import UNSURE

from .core import DelayCore, Firing
from .standing import Standing
from .tick import tick_of

RETRY_S = 0.1
TOO_EARLY_S = 1.0

log = structlog.get_logger("halfpast.chronos")


class Firer:
    """Watches the clock. A few batches may be on their way at once."""

    def __init__(
        self, core: DelayCore, standing: Standing, in_flight_max: int, clock: Clock
    ) -> None:
        self._core = core
        self._standing = standing
        self._in_flight_max = in_flight_max
        self._loop = asyncio.get_running_loop()
        self._tick = tick_of(clock, self._loop, self.look)
        self._in_flight: set[asyncio.Task[None]] = set()
        self._paused_until = 0.0
        self._refusal = ""
        self.observer: Callable[[Append], None] | None = None
        """Told what has become durable, if somebody wants to know."""

    @property
    def is_busy(self) -> bool:
        """Whether something is on its way, or due and may go."""
        core = self._core
        return bool(self._in_flight) or core.idle_until(core.now_ms()) == 0

    def look(self) -> None:
        """Fire a batch of what is due, or set the alarm for what comes next."""
        try:
            self._look()
        except Exception as error:  # nobody awaits a callback
            self._standing.fail(error)

    def _look(self) -> None:
        if not self._standing.live:
            return
        core, horizon = self._core, self._core.horizon
        now_ms = core.now_ms()
        core.watch_clock()
        if idle_until_ms := core.idle_until(now_ms):
            self._rest(now_ms, idle_until_ms)
            return
        if horizon.collect(now_ms):
            self._loop.call_soon(self.look)  # whose turn it is must be known
        if not self._may_fire():
            return
        firing = core.fire()
        if firing is None:
            self._rest(now_ms, horizon.next_ms())
            return
        task = self._loop.create_task(self._send(firing))
        self._in_flight.add(task)
        task.add_done_callback(self._sent)
        self._loop.call_soon(self.look)

    def _rest(self, now_ms: int, until_ms: int) -> None:
        """Nothing can be fired now: load what has to be, and sleep."""
        horizon = self._core.horizon
        if horizon.wants_load(now_ms):
            horizon.load(now_ms)
            until_ms = horizon.next_ms()
        self._tick.set(until_ms)

    def _may_fire(self) -> bool:
        room = len(self._in_flight) < self._in_flight_max
        return room and self._loop.time() >= self._paused_until

    def _sent(self, task: "asyncio.Task[None]") -> None:
        self._in_flight.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._standing.fail(error)
        else:
            self.look()

    async def _send(self, firing: Firing) -> None:
        try:
            appended = await self._standing.append(firing.request)
            self._core.became_durable(appended.position)
            if self.observer is not None:
                self.observer(firing.request)
            self._refusal = ""
        except UNSURE:
            self._standing.lose()
        except FenceLost as error:
            if not self._standing.is_ours(firing.request):
                return  # we have taken the role anew meanwhile
            if error.held:
                raise
            self._standing.lose()
        except CoreError as error:
            if self._standing.is_ours(firing.request):
                self._refused(firing, error)

    def _refused(self, firing: Firing, error: CoreError) -> None:
        if self._core.refused(firing, error):
            return
        if isinstance(error, TooEarly):
            # No longer: what is due first may be due by the broker's clock before.
            self._pause(min(error.early_ms / 1000, TOO_EARLY_S))
            return
        if error.code != self._refusal:  # told once, tried ten times a second
            log.warning("firing refused, will retry", error=str(error))
        self._refusal = error.code
        self._pause(RETRY_S)

    def _pause(self, seconds: float) -> None:
        """Fire nothing for a while."""
        self._paused_until = self._loop.time() + seconds
        self._loop.call_later(seconds + 0.001, self.look)

    def stop(self) -> None:
        """Watch the clock no longer."""
        self._tick.close()

    async def close(self) -> None:
        """Let what is on its way arrive."""
        if self._in_flight:
            await asyncio.wait(self._in_flight, timeout=5)
        for task in self._in_flight:
            task.cancel()
        await asyncio.gather(*self._in_flight, return_exceptions=True)
