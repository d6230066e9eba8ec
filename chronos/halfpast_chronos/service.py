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

from halfpast_core_store.broker import Acquire, Broker, BrokerStatus, Empty, Hold
from halfpast_core_store.claim_waiters import ClaimWaiters
from halfpast_core_store.errors import CoreError, FenceLost, TooEarly
from halfpast_core_store.flusher import Flusher
from halfpast_core_store.folder import FolderLock
from halfpast_core_store.follower import Follower
from halfpast_core_store.real_clock import RealClock
from halfpast_core_store.record import Family
from halfpast_core_store.rocks_index import RocksIndex
from halfpast_core_store.rpc_errors import UNSURE, ConnectionLost, Unavailable

from .config import ChronosConfig
from .core import GAP, DelayCore, Firing, timer_count
from .decisions import Busy, Command, decide_cancel, decide_replace, decide_reschedule
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
from .listing import Listing
from .tick import Tick

ROLE = "chronos"
FOLLOW_WAIT_MS = 1_000
RETRY_S = 0.1
FORGET_COUNT = 50

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
        self._closing = False
        self._in_flight: set[asyncio.Task[None]] = set()
        self._commands: set[asyncio.Task[None]] = set()
        self._waiters = ClaimWaiters(core, self._loop)
        self._follower = Follower(
            core, broker, self._waiters, self._fire_due, Family.TIMERS, timer_count
        )
        self._paused_until = 0.0
        self._refusal = ""
        self._flusher = Flusher(core)
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
        try:
            index = RocksIndex(
                folder / "chronos",
                write_buffer=config.index_write_buffer,
                cache=config.index_cache,
            )
        except BaseException:
            lock.close()
            raise
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
        self._closing = True
        self._live = False
        self._tick.close()
        if on_the_way := self._in_flight | self._commands:
            await asyncio.wait(on_the_way, timeout=5)
        tasks = [*self._tasks, *self._in_flight, *self._commands]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if not self.failed.done():
            self.failed.cancel()
        self._waiters.wake_all()
        await self._flusher.flush()
        self._core.index.close()
        self._lock.close()

    # --- following the log ------------------------------------------------------

    async def _take_role(self) -> None:
        """Become the one Delay Server, and learn all that the last one has done."""
        self._live = False
        self._core.measures = False
        acquired = await self._broker.acquire(Acquire(ROLE))
        self._token = acquired.token
        if self._follower.has_gap(acquired.log_start):
            log.warning(GAP, log_start=acquired.log_start)
        while self._core.position < acquired.log_end:
            await self._follower.follow(wait_ms=10)
        for claim in list(self._core.claims):
            self._give_up(claim)
        self._core.measures = True
        self._live = not self._closing
        self._lost = False
        await self._load_all()
        self._fire_due()

    async def _follow(self) -> None:
        while True:
            try:
                if self._lost:
                    await self._take_role()
                await self._follower.follow(FOLLOW_WAIT_MS)
            except UNSURE as error:
                if not self._lost:
                    log.warning("broker lost, firing stops", error=str(error))
                self._lose()
                await asyncio.sleep(RETRY_S)

    def _lose(self) -> None:
        """The broker is away: fire nothing until the role is taken anew."""
        self._lost = True
        self._live = False

    async def _load_all(self) -> None:
        """Fill the wheel as far as it may be filled, a slice a turn of the loop."""
        more = True
        while more:
            more = self._core.horizon.load(self._core.now_ms())
            await asyncio.sleep(0)

    # --- firing -----------------------------------------------------------------

    def _fire_due(self) -> None:
        """Fire a batch of what is due, or set the alarm for what comes next."""
        try:
            self._fire_or_wait()
        except Exception as error:  # nobody awaits a callback
            self._fail(error)

    def _fire_or_wait(self) -> None:
        if self._core.horizon.collect(self._core.now_ms()) and self._live:
            self._loop.call_soon(self._fire_due)  # whose turn it is must be known
        if not self._may_fire():
            return
        firing = self._core.fire()
        if firing is not None:
            task = self._loop.create_task(self._send(firing))
            self._in_flight.add(task)
            task.add_done_callback(self._sent)
            self._loop.call_soon(self._fire_due)
            return
        now_ms = self._core.now_ms()
        if self._core.horizon.wants_load(now_ms):
            self._core.horizon.load(now_ms)
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
            self._refusal = ""
        except UNSURE:
            self._lose()
        except FenceLost as error:
            if not error.held:
                self._lose()
            elif self._token == request.fence_token:
                raise
        except CoreError as error:
            if self._token != request.fence_token:
                return  # the role was taken anew, which gives up all claims
            self._core.refused(firing, error)
            if isinstance(error, TooEarly):
                self._pause(error.early_ms / 1000)
            else:
                if error.code != self._refusal:  # told once, tried ten times a second
                    log.warning("firing refused, will retry", error=str(error))
                self._refusal = error.code
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
        await self._follower.catch_up()
        while True:
            self._check()
            decision = decide()
            if isinstance(decision, Busy):
                await self._waiters.released(decision.claim)
            elif isinstance(decision, Command):
                await self._see_through(decision)
                return decision
            else:
                return decision

    async def _see_through(self, command: Command) -> None:
        """Carry out, also if the caller goes: somebody must give up the claims."""
        task = self._loop.create_task(self._carry_out(command))
        self._commands.add(task)
        task.add_done_callback(self._commands.discard)
        await asyncio.shield(task)

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
            if self._token == request.fence_token:
                self._refused(command, error)
            raise
        await asyncio.gather(*applied)
        if self.failed.done():
            raise ConnectionLost("chronos", "it stopped before the outcome was known")

    def _refused(self, command: Command, error: CoreError) -> None:
        """Nothing of this was stored."""
        if isinstance(error, FenceLost):
            self._fail(error) if error.held else self._lose()
        for claim in command.claims:
            self._give_up(claim)
        self._fire_due()

    def _give_up(self, claim: bytes) -> None:
        """The record that it was for is not in the log, and never will be."""
        self._core.release([claim])
        self._core.return_to_wheel(claim)  # does nothing for an own key
        self._waiters.wake(claim)

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
        await self._follower.catch_up()
        event = self._core.event(request.event_id)
        return GotEvent(None if event is None else self._event(request.event_id))

    async def list_events(self, request: ListEvents) -> EventPage:
        await self._follower.catch_up()
        listing = Listing(self._core, request)
        more = True
        while more:
            more = listing.step()
            await asyncio.sleep(0)
        return listing.page()

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
            await self._forget_all()
            self._core.horizon.forget_idle()
            await self._load_all()
            self._fire_due()
            if self._loop.time() - flushed_at >= flush_after:
                flushed_at = self._loop.time()
                await self._flush()

    async def _forget_all(self) -> None:
        more = True
        while more:
            more = self._core.forget(FORGET_COUNT)
            await asyncio.sleep(0)

    async def _flush(self) -> None:
        position = await self._flusher.flush()
        if position is None:
            return
        try:
            await self._broker.hold(Hold(ROLE, self._token, position))
        except UNSURE:
            self._lose()
        except FenceLost as error:
            if error.held and self._live:
                raise
            self._lose()
