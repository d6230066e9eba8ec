"""The broker as a service: the store on an event loop, with a thread that syncs.

Requests of one turn of the loop gather; the sync thread has one frame at a time.
While that is being synced the next requests gather, so a busy store needs fewer
syncs a message. A failed sync sets `failed`, after which the process must end.
"""

import asyncio
import contextlib
from functools import partial
from pathlib import Path

import msgspec
import structlog

from .arrivals import Arrivals, Wanted
from .broker import (
    Acquire,
    Acquired,
    Append,
    Appended,
    BrokerStatus,
    CommitOffsets,
    Delivered,
    DescribeTopic,
    Empty,
    FindEvent,
    Follow,
    Followed,
    FoundEvent,
    GroupNames,
    Hold,
    ListGroups,
    ListTopics,
    Pop,
    Popped,
    Pull,
    Pulled,
    QueueRange,
    Settle,
    SettleAction,
    Settled,
    TopicDescription,
    TopicList,
)
from .comebacks import Comebacks
from .config import StoreConfig
from .consumers import Consumers, ignore
from .errors import CoreError, StoreFailed, StoreFull, UnknownQueue
from .folder import FolderLock
from .follow import follow
from .future_answer import tell
from .group_plan import Plan
from .group_standing import DescribeGroup, GroupDescription
from .message_filter import message_filter
from .pending import Sealed
from .ports import Clock
from .pull_reader import look
from .real_clock import RealClock
from .real_durable_mark import MarkPublisher
from .real_store import open_store
from .revival import Revive, Revived
from .rocks_index import RocksIndex
from .store import Store
from .store_status import StoreStatus
from .sync_thread import SyncThread
from .topic_calls import TopicCalls

HOUSEKEEPING_S = 1.0

log = structlog.get_logger("halfpast.broker")


class BrokerService:
    """Implements `broker.Broker` on a data folder."""

    def __init__(
        self,
        folder: Path,
        store: Store,
        index: RocksIndex,
        lock: FolderLock,
        config: StoreConfig,
        clock: Clock,
    ) -> None:
        self._store = store
        self._index = index
        self._lock = lock
        self._config = config
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._sync = SyncThread(self._loop)
        self._arrivals = Arrivals(self._loop)
        self._comebacks = Comebacks(self._arrivals, clock, self._loop)
        self._consumers = Consumers(store, lambda id: self._arrivals.arrived([id]))
        self._status = StoreStatus(store)
        topics = TopicCalls(
            store.registry, self.append, self._consumers.topic, self._now_ms
        )
        self.resolve_topics = topics.resolve
        self.topics_by_id = topics.by_id
        self.ensure_topic = topics.ensure
        self._kick_due = False
        self._closing = False
        self._failure = ""
        self.failed: asyncio.Future[None] = self._loop.create_future()
        self._mark = MarkPublisher(folder, store, self._clock, self._sync)
        self._upkeep = asyncio.create_task(self._keep_house())

    @classmethod
    async def open(
        cls, folder: Path, config: StoreConfig, clock: Clock | None = None
    ) -> "BrokerService":
        """Open or create the store in `folder`, recover it, be ready.

        Raises FolderInUse, NewerFormat, ForeignFolder, CorruptLog, LogBehindIndex.
        """
        lock, clock = FolderLock(folder, "broker"), clock or RealClock()
        try:
            store, index = await asyncio.to_thread(open_store, folder, config, clock)
        except BaseException:
            lock.close()
            raise
        return cls(folder, store, index, lock, config, clock)

    @property
    def is_busy(self) -> bool:
        """Whether anything is on its way to the log."""
        return self._kick_due or self._store.busy or bool(self._store.lanes)

    def end_polls(self) -> None:
        """Send those home who wait for something, also who comes from now on."""
        self._arrivals.close()

    async def close(self) -> None:
        """Let what waits become durable, flush, give up the folder."""
        self._closing = True
        self._upkeep.cancel()
        await asyncio.gather(self._upkeep, return_exceptions=True)
        self._arrivals.close()
        while not self.failed.done() and (self._store.busy or self._store.lanes):
            self._kick()
            await asyncio.sleep(0.001)
        self._sync.close()
        self._mark.close(is_sound=not self.failed.done())
        if not self.failed.done():
            await self._flush(self._store.log.durable_end)
            self.failed.cancel()
        self._index.close()
        self._store.close()
        self._lock.close()

    # --- group commit -----------------------------------------------------------

    def _wake_committer(self) -> None:
        if not self._kick_due:
            self._kick_due = True
            self._loop.call_soon(self._kick)

    def _kick(self) -> None:
        self._kick_due = False
        if self.failed.done():
            return
        try:
            sealed = self._store.seal()
        except Exception as error:
            self._fail(f"a frame could not be laid out: {error!r}")
            return
        if sealed is not None:
            store, told = self._store, partial(self._written, sealed)
            self._sync.run(partial(store.write, sealed), told, store.commits.seconds)

    def _written(self, sealed: Sealed, error: Exception | None) -> None:
        if self.failed.done():
            return
        if error is not None:
            self._fail(f"a frame could not be made durable: {error}")
            return
        try:
            touched = self._store.complete(sealed)
        except Exception as raised:
            self._fail(f"the index could not be written: {raised!r}")
            return
        self._kick()
        self._mark.note()
        self._arrivals.arrived(touched)

    def _fail(self, what: str) -> None:
        error = StoreFailed(what)
        if not self.failed.done():
            self._failure = what
            self.failed.set_exception(error)
        self._store.fail(error)
        self._arrivals.close()

    def _check(self) -> None:
        if self._closing:
            raise StoreFailed("the broker is shutting down")
        if self.failed.done():
            raise StoreFailed(self._failure)

    def _now_ms(self) -> int:
        return self._clock.now_ns() // 1_000_000

    # --- writing ----------------------------------------------------------------

    async def append(self, request: Append) -> Appended:
        self._check()
        future: asyncio.Future[Appended] = self._loop.create_future()
        self._store.submit(request, partial(tell, future))
        self._wake_committer()
        return await future

    async def acquire(self, request: Acquire) -> Acquired:
        token, log_end = self._store.acquire(request.role)
        return Acquired(token, log_end, self._store.log.start)

    async def hold(self, request: Hold) -> Empty:
        self._store.hold(request.role, request.token, request.position)
        return Empty()

    # --- reading ----------------------------------------------------------------

    async def list_topics(self, request: ListTopics) -> TopicList:
        return TopicList(self._store.registry.topics(request.after, request.limit))

    async def describe_topic(self, request: DescribeTopic) -> TopicDescription:
        topic = self._consumers.topic(request.name)
        queues = self._store.queues
        return TopicDescription(
            topic,
            [
                QueueRange(i, queues.begin(topic.id, i), queues.end(topic.id, i))
                for i in range(topic.queue_count)
            ],
        )

    async def find_event(self, request: FindEvent) -> FoundEvent:
        return self._store.events.find(request.event_id)

    async def pull(self, request: Pull) -> Pulled:
        topic = self._consumers.topic(request.topic)
        if not 0 <= request.queue < topic.queue_count:
            raise UnknownQueue(request.topic, request.queue, topic.queue_count)
        matches = message_filter(request.tags, request.filter)
        deadline = self._loop.time() + request.wait_ms / 1000
        queues, offset = self._store.queues, request.offset
        while True:
            looked = look(queues, topic.id, request, offset, matches)
            offset = looked.next_offset
            left = deadline - self._loop.time()
            if looked.found or left <= 0:
                break
            if looked.is_cut:
                await asyncio.sleep(0)
            elif not await self._arrivals.wait(topic.id, left):
                break
        return Pulled(
            [
                Delivered(it.record, request.queue, it.offset, it.stored_ms)
                for it in looked.found
            ],
            offset,
            queues.begin(topic.id, request.queue),
            queues.end(topic.id, request.queue),
        )

    async def follow(self, request: Follow) -> Followed:
        deadline = self._loop.time() + request.wait_ms / 1000
        while True:
            self._check()
            found = follow(self._store.log, request)
            left = deadline - self._loop.time()
            if found.frames or found.next_position < found.log_end or left <= 0:
                return found
            request = msgspec.structs.replace(request, position=found.next_position)
            wanted = Wanted(request.families, request.own_topic, request.own_wait_ms)
            if not await self._arrivals.wait_family(wanted, left):
                return found

    # --- consumers --------------------------------------------------------------

    async def pop(self, request: Pop) -> Popped:
        self._check()
        topic = self._consumers.topic(request.topic)
        deadline = self._loop.time() + request.wait_ms / 1000
        while True:
            future: asyncio.Future[Plan] = self._loop.create_future()
            now_ms = self._now_ms()
            try:
                next_ms = self._consumers.pop(request, now_ms, partial(tell, future))
            except Exception:
                self._arrivals.pass_on(topic.id, request.group)
                raise
            if self._store.lanes:
                self._wake_committer()
            if next_ms is None:
                self._arrivals.pass_on(topic.id, request.group)
                try:
                    return Popped((await asyncio.shield(future)).delivered)
                except asyncio.CancelledError:
                    future.add_done_callback(partial(self._give_back, request.group))
                    raise
            left = deadline - self._loop.time()
            if left <= 0:
                return Popped([])
            topic_id, group = topic.id, request.group
            await self._comebacks.wait(topic_id, group, left, now_ms, next_ms)
            if self._closing:
                return Popped([])
            self._check()

    def _give_back(self, group: str, popped: "asyncio.Future[Plan]") -> None:
        """Whoever popped has gone before it was answered: others may have it."""
        if popped.exception() is None and not self.failed.done():
            receipts = [it.receipt for it in popped.result().delivered]
            request = Settle(group, SettleAction.RELEASE, receipts)
            with contextlib.suppress(CoreError):
                self._consumers.settle(request, self._now_ms(), ignore)
                self._wake_committer()

    async def settle(self, request: Settle) -> Settled:
        self._check()
        future: asyncio.Future[Plan] = self._loop.create_future()
        self._consumers.settle(request, self._now_ms(), partial(tell, future))
        self._wake_committer()
        plan = await future
        return Settled(plan.results)

    async def commit_offsets(self, request: CommitOffsets) -> Empty:
        self._check()
        future: asyncio.Future[Plan] = self._loop.create_future()
        self._consumers.commit_offsets(request, self._now_ms(), partial(tell, future))
        self._wake_committer()
        await future
        return Empty()

    async def describe_group(self, request: DescribeGroup) -> GroupDescription:
        return self._consumers.describe(request)

    async def revive(self, request: Revive) -> Revived:
        self._check()
        future: asyncio.Future[list[str]] = self._loop.create_future()
        self._consumers.revive(request, self._now_ms(), partial(tell, future))
        self._wake_committer()
        return Revived(await future)

    async def list_groups(self, request: ListGroups) -> GroupNames:
        return GroupNames(self._store.registry.groups(request.after, request.limit))

    # --- upkeep -----------------------------------------------------------------

    async def status(self, request: Empty) -> BrokerStatus:
        return self._status.now(self._sync.seconds, has_failed=self.failed.done())

    async def _keep_house(self) -> None:
        flush_after = self._config.index_flush_ms / 1000
        flushed_at = self._loop.time()
        tidy = True
        while True:
            await asyncio.sleep(HOUSEKEEPING_S if tidy else HOUSEKEEPING_S / 100)
            try:
                tidy = self._store.housekeep()
                if self._store.log.has_forgotten:
                    self._sync.run(self._store.log.delete_forgotten, self._kept)
                if self._store.log.needs_next and not self._store.busy:
                    self._sync.run(self._store.log.prepare_next, self._kept)
                if self._loop.time() - flushed_at >= flush_after:
                    flushed_at = self._loop.time()
                    applied = self._store.log.durable_end
                    if applied != self._store.flushed_position:
                        await self._flush(applied)
            except Exception as error:
                log.error("housekeeping failed", error=str(error))
                self._fail(f"housekeeping failed: {error}")
                return

    async def _flush(self, applied: int) -> None:
        with contextlib.suppress(StoreFull):  # the log has it all; later, then
            await asyncio.to_thread(self._store.flush, applied)

    def _kept(self, error: Exception | None) -> None:
        if error is not None:
            self._fail(f"a segment could not be prepared or deleted: {error}")
