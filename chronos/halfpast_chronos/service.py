"""The Delay Server as a service: the core on an event loop, beside a broker.

Three activities share the core, all on one loop: following the log, firing what is
due (woken by `tick.py`, exactly), and upkeep (loading, flushing, forgetting).

It holds the broker's role `chronos`. A fresh instance first takes the role, which
shuts out the appends of any former one, then follows the log to where that ended,
and only then fires. After a lost connection it does the same again, since what was
on its way may or may not have been stored.
"""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TypeVar

import structlog

from halfpast_core_store.broker import (
    Acquire,
    Broker,
    BrokerStatus,
    Empty,
    Follow,
    FollowedFrame,
    Hold,
)
from halfpast_core_store.errors import CoreError, FenceLost, TooEarly
from halfpast_core_store.folder import FolderLock
from halfpast_core_store.real_clock import RealClock
from halfpast_core_store.record import Family
from halfpast_core_store.rocks_index import RocksIndex
from halfpast_core_store.rpc_errors import ConnectionLost, RemoteFailure, Unavailable

from .claim_waiters import ClaimWaiters
from .config import ChronosConfig
from .core import DelayCore, Firing
from .decisions import (
    Busy,
    Command,
    decide_cancel,
    decide_replace,
    decide_reschedule,
)
from .delay_server import (
    Cancel,
    Cancelled,
    Event,
    EventPage,
    GetEvent,
    GotEvent,
    ListEvents,
    Replace,
    Replaced,
    Reschedule,
)
from .listing import list_events
from .tick import Tick

ROLE = "chronos"
FOLLOW_WAIT_MS = 10_000
RETRY_S = 0.1
APPLY_COUNT = 400
UNSURE = (ConnectionLost, Unavailable, RemoteFailure)

Decision = TypeVar("Decision")
log = structlog.get_logger("halfpast.chronos")


class DelayService:
    """Implements `delay_server.DelayServer` on a data folder and a broker."""

    def __init__(
        self, core: DelayCore, lock: FolderLock, broker: Broker, config: ChronosConfig
    ) -> None:
        self._core = core
        self._lock = lock
        self._broker = broker
        self._config = config
        self._loop = asyncio.get_running_loop()
        self._tick = Tick(self._loop, self._fire_due)
        self._token = 0
        self._live = False
        self._lost = False
        self._applying = asyncio.Lock()
        self._in_flight: set[asyncio.Task[None]] = set()
        self._waiters = ClaimWaiters(core, self._loop)
        self._paused_until = 0.0
        self._flushed = core.position
        self.failed: asyncio.Future[None] = self._loop.create_future()
        self._tasks: list[asyncio.Task[None]] = []

    @classmethod
    async def open(
        cls, folder: Path, broker: Broker, config: ChronosConfig
    ) -> "DelayService":
        """Open the timers in `folder`, take the role, catch up with the log, fire.

        Returns when it has caught up. Raises FolderInUse and what the broker raises.
        """
        lock = FolderLock(folder, "chronos")
        index = RocksIndex(
            folder / "chronos",
            write_buffer=config.index_write_buffer,
            cache=config.index_cache,
        )
        service = cls(DelayCore(index, RealClock(), config), lock, broker, config)
        try:
            await service._take_role()
        except BaseException:
            service._tick.close()
            index.close()
            lock.close()
            raise
        service._spawn(service._follow)
        service._spawn(service._keep_house)
        return service

    def _spawn(self, work: Callable[[], Coroutine[None, None, None]]) -> None:
        """Run an activity for as long as the service lives; its error is ours."""

        def ended(task: asyncio.Task[None]) -> None:
            if not task.cancelled() and (error := task.exception()) is not None:
                self._fail(error)

        task = self._loop.create_task(work())
        task.add_done_callback(ended)
        self._tasks.append(task)

    def _fail(self, error: BaseException) -> None:
        self._live = False
        if not self.failed.done():
            self.failed.set_exception(error)
        self._waiters.wake_all()

    async def close(self) -> None:
        """Stop firing, let what is on its way arrive, flush, give up the folder."""
        self._live = False
        self._tick.close()
        if self._in_flight:
            await asyncio.wait(self._in_flight, timeout=5)
        for task in [*self._tasks, *self._in_flight]:
            task.cancel()
        await asyncio.gather(*self._tasks, *self._in_flight, return_exceptions=True)
        await asyncio.to_thread(self._core.index.flush)
        if not self.failed.done():
            self.failed.cancel()
        self._core.index.close()
        self._lock.close()

    # --- following the log ------------------------------------------------------

    async def _take_role(self) -> None:
        """Become the one Delay Server, and learn all that the last one has done."""
        self._live = False
        self._core.measures = False
        acquired = await self._broker.acquire(Acquire(ROLE))
        self._token = acquired.token
        while self._core.position < acquired.log_end:
            await self._follow_once(wait_ms=1_000)
        claims = list(self._core.claims)
        self._core.release(claims)
        for claim in claims:
            if len(claim) == 16:
                self._core.return_to_wheel(claim)
            self._waiters.wake(claim)
        self._core.measures = True
        self._live = True
        self._lost = False
        await self._load_all()
        self._fire_due()

    async def _follow_once(self, wait_ms: int) -> int:
        """Apply what is new, waiting for it up to `wait_ms`; gives the log's end."""
        followed = await self._broker.follow(
            Follow(self._core.position, Family.TIMERS, wait_ms)
        )
        async with self._applying:
            for frame in followed.frames:
                await self._apply_frame(frame)
            for claim in self._core.apply([], followed.next_position):
                self._waiters.wake(claim)
        if followed.frames and self._live:
            self._fire_due()
        return followed.log_end

    async def _apply_frame(self, frame: FollowedFrame) -> None:
        """Apply a frame that may have been applied already, a slice at a time."""
        if frame.position < self._core.position:
            return
        count = len(frame.records)
        for start in range(0, max(count, 1), APPLY_COUNT):
            for claim in self._core.apply_slice(frame, start, start + APPLY_COUNT):
                self._waiters.wake(claim)
            if start + APPLY_COUNT < count:
                await asyncio.sleep(0)

    async def _follow(self) -> None:
        while True:
            try:
                if self._lost:
                    await self._take_role()
                await self._follow_once(FOLLOW_WAIT_MS)
            except UNSURE:
                self._lose()
                await asyncio.sleep(RETRY_S)

    def _lose(self) -> None:
        """The broker is away: fire nothing until the role is taken anew."""
        self._lost = True
        self._live = False

    async def _catch_up(self) -> None:
        """Apply everything that was durable when this was called."""
        target = await self._follow_once(0)
        while self._core.position < target:
            await self._follow_once(0)

    async def _load_all(self) -> None:
        """Fill the wheel as far as it may be filled, a slice a turn of the loop."""
        more = True
        while more:
            more = self._core.horizon.load(self._core.now_ms())
            await asyncio.sleep(0)

    # --- firing -----------------------------------------------------------------

    def _fire_due(self) -> None:
        """Fire a batch of what is due, or set the alarm for what comes next."""
        if not self._may_fire():
            return
        firing = self._core.fire()
        if firing is not None:
            task = self._loop.create_task(self._send(firing))
            self._in_flight.add(task)
            task.add_done_callback(self._sent)
            self._loop.call_soon(self._fire_due)
            return
        if self._core.horizon.wants_load:
            self._core.horizon.load(self._core.now_ms())
        self._tick.set(self._core.horizon.next_ms())

    def _may_fire(self) -> bool:
        return (
            self._live
            and len(self._in_flight) < self._config.fire_in_flight
            and self._loop.time() >= self._paused_until
        )

    def _sent(self, task: asyncio.Task[None]) -> None:
        self._in_flight.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fail(error)
        elif self._live:
            self._fire_due()

    async def _send(self, firing: Firing) -> None:
        request = firing.request
        request.fence_role, request.fence_token = ROLE, self._token
        try:
            await self._broker.append(request)
        except UNSURE:
            self._lose()
        except FenceLost as error:
            if not error.held:
                self._lose()
            elif self._token == request.fence_token:
                raise
        except TooEarly as error:
            self._core.refused(firing)
            self._pause(error.early_ms / 1000)
        except CoreError as error:
            self._core.refused(firing)
            log.warning("firing refused, will retry", error=str(error))
            self._pause(RETRY_S)

    def _pause(self, seconds: float) -> None:
        """Fire nothing for a while."""
        self._paused_until = self._loop.time() + seconds
        self._loop.call_later(seconds + 0.001, self._fire_due)

    # --- decisions --------------------------------------------------------------

    async def _decide(
        self, decide: Callable[[], Decision | Busy | Command]
    ) -> Decision | Command:
        """Decide on the latest state, and see a command through."""
        await self._catch_up()
        while True:
            self._check()
            decision = decide()
            if isinstance(decision, Busy):
                await self._waiters.released(decision.claim)
            elif isinstance(decision, Command):
                await self._carry_out(decision)
                return decision
            else:
                return decision

    async def _carry_out(self, command: Command) -> None:
        request = command.request
        request.fence_role, request.fence_token = ROLE, self._token
        applied = [self._waiters.next_release(claim) for claim in command.claims]
        try:
            await self._broker.append(request)
        except UNSURE:
            self._lose()
            raise
        except CoreError as error:
            if isinstance(error, FenceLost) and not error.held:
                self._lose()
            self._core.release(command.claims)
            for claim in command.claims:
                self._waiters.wake(claim)
            self._core.return_to_wheel(command.event_id)
            self._fire_due()
            raise
        await asyncio.gather(*applied)
        self._check()

    def _check(self) -> None:
        if self.failed.done():
            raise Unavailable("chronos", "the delay server is shutting down")
        if not self._live:
            raise Unavailable("chronos", "the delay server is catching up")

    def _event(self, event_id: bytes) -> Event:
        event = self._core.event(event_id)
        assert event is not None
        return event.public(event_id, self._core.record_of(event_id, event))

    async def cancel(self, request: Cancel) -> Cancelled:
        decision = await self._decide(lambda: decide_cancel(self._core, request))
        if isinstance(decision, Command):
            return Cancelled("cancelled", self._event(decision.event_id))
        return decision

    async def reschedule(self, request: Reschedule) -> Event:
        decided = await self._decide(lambda: decide_reschedule(self._core, request))
        return self._event(decided.event_id)

    async def replace(self, request: Replace) -> Replaced:
        decided = await self._decide(lambda: decide_replace(self._core, request))
        return Replaced(decided.created, self._event(decided.event_id))

    # --- questions --------------------------------------------------------------

    async def get_event(self, request: GetEvent) -> GotEvent:
        await self._catch_up()
        event = self._core.event(request.event_id)
        return GotEvent(None if event is None else self._event(request.event_id))

    async def list_events(self, request: ListEvents) -> EventPage:
        await self._catch_up()
        return list_events(self._core, request)

    async def status(self, request: Empty) -> BrokerStatus:
        ready = self._live and not self.failed.done()
        gauges = {"delay_server_ready": float(ready), **self._core.gauges()}
        return BrokerStatus(self._core.counters(), gauges)

    # --- upkeep -----------------------------------------------------------------

    async def _keep_house(self) -> None:
        flush_after = self._config.index_flush_ms / 1000
        flushed_at = self._loop.time()
        while True:
            await asyncio.sleep(0.5)
            self._core.forget(500)
            await self._load_all()
            self._fire_due()
            if self._loop.time() - flushed_at >= flush_after:
                flushed_at = self._loop.time()
                await self._flush()

    async def _flush(self) -> None:
        position = self._core.position
        if position == self._flushed:
            return
        await asyncio.to_thread(self._core.index.flush)
        self._flushed = position
        try:
            await self._broker.hold(Hold(ROLE, self._token, position))
        except UNSURE:
            self._lose()
        except FenceLost as error:
            if error.held and self._live:
                raise
            self._lose()
