"""The Delay Server as a service: the core on an event loop, beside a broker.

Three activities share the core, all on one loop: following the log, firing what is
due (`firer.py`, woken by `tick.py`, exactly), and upkeep (loading, flushing,
forgetting). Decisions come from outside (`decider.py`).

It holds the broker's role `chronos`. A fresh instance first takes the role, which
shuts out the appends of any former one, then follows the log to where that ended,
and only then fires. After a lost connection it does the same again, since what was
on its way may or may not have been stored.
"""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path

import structlog

from halfpast_core_store.broker import (
    Acquire,
    Append,
    Broker,
    BrokerStatus,
    Empty,
    Hold,
)
from halfpast_core_store.claim_waiters import ClaimWaiters
from halfpast_core_store.errors import FenceLost
from halfpast_core_store.flusher import Flusher
from halfpast_core_store.folder import FolderLock
from halfpast_core_store.follower import Follower
from halfpast_core_store.ports import Clock
from halfpast_core_store.real_clock import RealClock
from halfpast_core_store.record import Family
from halfpast_core_store.rocks_index import RocksIndex
from halfpast_core_store.rpc_errors import UNSURE
from halfpast_core_store.topics import SYS_FIRED

from .bulk_service import BulkService
from .config import ChronosConfig
from .control_watch import ControlWatch
from .core import GAP, DelayCore, timer_count
from .counting_service import CountingService
from .decider import Decider
from .decisions import Command, decide_cancel, decide_replace, decide_reschedule
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
from .firer import Firer
from .listing import Listing
from .recurring_service import RecurringService
from .release_service import ReleaseService
from .stall_watch import StallWatch
from .standing import ROLE, Standing
from .topic_controls import NoControls, TopicControls

FOLLOW_WAIT_MS = 1_000
RETRY_S = 0.1
FORGET_COUNT = 50
LOAD_PAUSE_S = 0.001  # in which others go first

log = structlog.get_logger("halfpast.chronos")


class DelayService:
    """Implements `delay_server.DelayServer` on a data folder and a broker."""

    def __init__(
        self,
        core: DelayCore,
        lock: FolderLock,
        broker: Broker,
        config: ChronosConfig,
        controls: TopicControls,
        clock: Clock,
    ) -> None:
        self._core = core
        self._lock = lock
        self._broker = broker
        self._config = config
        self._loop = asyncio.get_running_loop()
        self._closing = False
        self._waiters = ClaimWaiters(core, self._loop)
        self._standing = Standing(core, broker, self._waiters, self._fail)
        self._firer = Firer(core, self._standing, config.fire_in_flight, clock)
        self._controls = ControlWatch(
            core, broker, controls, self._standing, self._firer
        )
        self._follower = Follower(
            core,
            broker,
            self._waiters,
            self._applied,
            Family.TIMERS,
            timer_count,
            SYS_FIRED,
        )
        self._decider = Decider(
            self._standing, self._waiters, self._follower.catch_up, self._firer.look
        )
        self._decide = self._decider.decide
        schedules = RecurringService(core, self._decider, self._follower)
        self._schedules = schedules
        self.create_schedule = schedules.create
        self.change_schedule = schedules.change
        self.pause_schedule = schedules.pause
        self.end_schedule = schedules.end
        self.get_schedule = schedules.get
        self.list_schedules = schedules.list
        self._bulk = BulkService(
            core,
            self._standing,
            self._waiters,
            self._decider,
            self._follower,
            self._firer.look,
        )
        self.begin_bulk = self._bulk.begin
        self.get_operation = self._bulk.get
        self.list_operations = self._bulk.list
        self.cancel_operation = self._bulk.cancel
        self._counting = CountingService(core, self._follower)
        self.ask_due = self._counting.ask
        release = ReleaseService(core, self._decider, self._follower)
        self.topic_states = release.states
        self.pending_counts = release.pending
        self.redrive = release.redrive
        self.list_dead = release.list_dead
        self._flusher = Flusher(core)
        self._stalls = StallWatch(self._loop)
        self.failed: asyncio.Future[None] = self._loop.create_future()
        self._tasks: list[asyncio.Task[None]] = []

    @classmethod
    async def open(
        cls,
        folder: Path,
        broker: Broker,
        config: ChronosConfig,
        controls: TopicControls | None = None,
        clock: Clock | None = None,
    ) -> "DelayService":
        """Open the timers in `folder`, take the role, catch up with the log, fire.

        `controls` tells what each topic may release; without it, all they have.
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
        clock = clock or RealClock()
        core = DelayCore(index, clock, config, is_controlled=controls is not None)
        service = cls(core, lock, broker, config, controls or NoControls(), clock)
        try:
            await service._take_role()
        except BaseException:
            service._firer.stop()
            service._stalls.close()
            index.close()
            lock.close()
            raise
        service._spawn(service._follow)
        service._spawn(service._keep_house)
        service._spawn(service._controls.run)
        service._spawn(service._bulk.run)
        service._spawn(service._counting.run)
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
        self._standing.live = False
        self._standing.failed = True
        if not self.failed.done():
            self.failed.set_exception(error)
        self._waiters.wake_all()

    def observe_firings(self, observer: Callable[[Append], None]) -> None:
        """Tell it, on the loop, of each firing that has become durable."""
        self._firer.observer = observer

    async def close(self) -> None:
        """Stop firing, let what is on its way arrive, flush, give up the folder."""
        self._closing = True
        self._standing.live = False
        self._firer.stop()
        self._stalls.close()
        await self._firer.close()
        await self._decider.close()
        await self._counting.frame_end()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if not self.failed.done():
            self.failed.cancel()
        self._waiters.wake_all()
        await self._flusher.flush()
        await self._counting.save()
        self._core.index.close()
        self._lock.close()

    # --- following the log ------------------------------------------------------

    async def _take_role(self) -> None:
        """Become the one Delay Server, and learn all that the last one has done."""
        self._standing.live = False
        self._core.measures = False
        acquired = await self._broker.acquire(Acquire(ROLE))
        self._standing.token = acquired.token
        if self._follower.has_gap(acquired.log_start):
            log.warning(GAP, log_start=acquired.log_start)
        while self._core.position < acquired.log_end:
            await self._follower.follow(wait_ms=10)
        for claim in list(self._core.claims):
            self._standing.give_up(claim)
        self._core.measures = True
        self._standing.live = not self._closing
        self._standing.lost = False
        await self._controls.meet()
        await self._load_all()
        self._firer.look()
        self._bulk.wake()

    async def _follow(self) -> None:
        while True:
            try:
                if self._standing.lost:
                    await self._take_role()
                await self._follower.follow(FOLLOW_WAIT_MS)
            except UNSURE as error:
                if not self._standing.lost:
                    log.warning("broker lost, firing stops", error=str(error))
                self._standing.lose()
                await asyncio.sleep(RETRY_S)

    def _applied(self) -> None:
        self._controls.look()
        self._firer.look()

    async def _load_all(self, pause_s: float = 0.0) -> None:
        """Fill the wheel as far as it may be filled, a slice a turn of the loop."""
        more = True
        while more:
            more = self._core.horizon.load(self._core.now_ms())
            await asyncio.sleep(pause_s)

    async def settle(self) -> bool:
        """Fire what is due by now, as far as that goes at once. True if there may be
        more to do. For a clock that is moved by hand."""
        await self._follower.catch_up()
        await self._controls.meet()
        await self._load_all()
        self._firer.look()
        return self._firer.is_busy or self._bulk.is_busy

    # --- decisions --------------------------------------------------------------

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

    async def heed_settings(self, request: Empty) -> Empty:
        await self._controls.heed()
        return request

    async def status(self, request: Empty) -> BrokerStatus:
        ready = self._standing.live and not self.failed.done()
        stalls = self._stalls.counts
        gauges = {"delay_server_ready": float(ready), **self._core.gauges()}
        return BrokerStatus(
            {
                **self._core.counters(),
                **self._schedules.counters(),
                **stalls.counters(),
            },
            {**gauges, **stalls.gauges(), **self._bulk.gauges()},
        )

    # --- upkeep -----------------------------------------------------------------

    async def _keep_house(self) -> None:
        flush_after = self._config.index_flush_ms / 1000
        flushed_at = self._loop.time()
        while True:
            await asyncio.sleep(0.5)
            await self._forget_all()
            self._bulk.forget(self._config.history_ms)
            await self._schedules.forget_all(self._config.history_ms)
            self._core.horizon.forget_idle()
            await self._load_all(LOAD_PAUSE_S)
            self._firer.look()
            if self._loop.time() - flushed_at >= flush_after:
                flushed_at = self._loop.time()
                await self._flush()

    async def _forget_all(self) -> None:
        more = True
        while more:
            more = self._core.forget(FORGET_COUNT)
            await asyncio.sleep(0)

    async def _flush(self) -> None:
        await self._counting.frame_end()
        position = await self._flusher.flush()
        if position is None:
            return
        token = self._standing.token
        try:
            await self._broker.hold(Hold(ROLE, token, position))
        except UNSURE:
            self._standing.lose()
        except FenceLost as error:
            if token != self._standing.token:
                return  # we have taken the role anew meanwhile; the next flush tells
            if error.held and self._standing.live:
                raise
            self._standing.lose()
