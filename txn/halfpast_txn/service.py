"""The transaction service: the core on an event loop, beside a broker.

Four activities share the core, all on one loop: following the log, ending
transactions (`ender.py`), checking back (`checker.py`), and upkeep.

It holds the broker's role `txn`. A fresh instance first takes the role, which shuts
out the appends of any former one, then follows the log to where that ended, and only
then decides. After a lost connection it does the same again, since what was on its
way may or may not have been stored.
"""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path

import structlog

from halfpast_core_store.broker import (
    Acquire,
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
from halfpast_core_store.rpc_errors import UNSURE, Unavailable
from halfpast_core_store.virtual_clock import virtual

from .check_backs import CheckBacks
from .check_desk import CheckDesk
from .checker import Checker
from .claims import ROLE, SHUTTING_DOWN, Claims
from .config import TxnConfig
from .core import TransactionCore
from .decider import Decider
from .decisions import Command, decide_add, decide_resume
from .listing import Listing
from .producer_group import ProducerGroups
from .questions import Questions, head_of
from .shared_catch_up import SharedCatchUp
from .status import Status
from .transactions import (
    Added,
    AddMessages,
    AnswerChecks,
    Ended,
    EndTransactions,
    GetTransaction,
    GotTransaction,
    ListTransactions,
    PollChecks,
    PolledChecks,
    Resume,
    Transaction,
    TransactionPage,
)
from .transport import CheckTransport

FOLLOW_WAIT_MS = 1_000
RETRY_S = 0.1
FORGET_COUNT = 50
GAP = (
    "transactions begun before this are unknown: the folder txn/ is new, and the log "
    "does not reach back; restore it from a backup"
)

log = structlog.get_logger("halfpast.txn")


class TransactionService:
    """Implements `transactions.Transactions` on a data folder and a broker."""

    def __init__(
        self,
        core: TransactionCore,
        lock: FolderLock,
        broker: Broker,
        groups: ProducerGroups,
        transport: CheckTransport,
        clock: Clock,
    ) -> None:
        self._core = core
        self._lock = lock
        self._broker = broker
        self._transport = transport
        self._loop = loop = asyncio.get_running_loop()
        self._closing = False
        self._catch_up = SharedCatchUp(
            lambda: self._follower.catch_up(), lambda: self._closing, loop
        )
        self._waiters = ClaimWaiters(core, loop)
        self._claims = Claims(core, self._waiters, self._fail)
        self._desk = CheckDesk(core.config.waiting_checks_max, loop)
        self._decider = Decider(
            core,
            self._claims,
            self._waiters,
            broker.append,
            self._catch_up,
            self._check,
        )
        self._check_backs = CheckBacks(
            core,
            self._desk,
            Questions(core, broker),
            transport,
            self._decider.end,
            self._catch_up,
            loop,
            is_watched=virtual(clock) is not None,
        )
        self._checker = Checker(
            core,
            self._claims,
            self._desk,
            groups,
            broker.append,
            self._catch_up,
            self._check_backs.ask,
            clock,
        )
        self._follower = Follower(
            core,
            broker,
            self._waiters,
            self._checker.look,
            Family.TRANSACTIONS,
            core.entry_count,
        )
        self._flusher = Flusher(core)
        self.failed: asyncio.Future[None] = loop.create_future()
        self._tasks: list[asyncio.Task[None]] = []

    @classmethod
    async def open(
        cls,
        folder: Path,
        broker: Broker,
        config: TxnConfig,
        groups: ProducerGroups,
        transport: CheckTransport,
        clock: Clock | None = None,
    ) -> "TransactionService":
        """Open the transactions in `folder`, take the role, catch up with the log.

        Returns when it has caught up. Raises FolderInUse and what the broker raises.
        The transport is closed with the service.
        """
        lock = FolderLock(folder, ROLE)
        try:
            index = RocksIndex(
                folder / ROLE,
                write_buffer=config.index_write_buffer,
                cache=config.index_cache,
            )
        except BaseException:
            lock.close()
            raise
        clock = clock or RealClock()
        core = TransactionCore(index, clock, config)
        service = cls(core, lock, broker, groups, transport, clock)
        try:
            await service._count_open()
            await service._take_role()
            core.begin_counting()
        except BaseException:
            await service._checker.close()
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
        self._claims.live = False
        self._claims.failed = True
        if not self.failed.done():
            self.failed.set_exception(error)
        self._waiters.wake_all()

    def end_polls(self) -> None:
        """Send those home who wait, also who comes from now on."""
        self._check_backs.close()

    async def close(self) -> None:
        """Send no more check-backs, let what is on its way arrive, flush, give up
        the folder."""
        self._closing = True
        self._claims.live = False
        self.end_polls()
        await self._checker.close()
        await self._decider.close()
        for task in self._tasks:
            task.cancel()
        await self._catch_up.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if not self.failed.done():
            self.failed.cancel()
        self._waiters.wake_all()
        await self._transport.close()
        await self._flusher.flush()
        self._core.index.close()
        self._lock.close()

    # --- following the log --------------------------------------------------------

    async def _count_open(self) -> None:
        after: bytes | None = b""
        while after is not None:
            after = self._core.count_open(after)
            await asyncio.sleep(0)

    async def _take_role(self) -> None:
        """Become the one transaction service, and learn all that the last has done."""
        self._claims.live = False
        acquired = await self._broker.acquire(Acquire(ROLE))
        self._claims.token = acquired.token
        if self._follower.has_gap(acquired.log_start):
            log.warning(GAP, log_start=acquired.log_start)
        while self._core.position < acquired.log_end:
            await self._follower.follow(wait_ms=10)
        self._claims.give_up_all()
        self._claims.live = not self._closing
        self._claims.lost = False
        await self._load_all()
        self._checker.look()

    async def _follow(self) -> None:
        while True:
            try:
                if self._claims.lost:
                    await self._take_role()
                await self._follower.follow(FOLLOW_WAIT_MS)
            except UNSURE as error:
                if not self._claims.lost:
                    log.warning("broker lost, transactions wait", error=str(error))
                self._claims.lose()
                await asyncio.sleep(RETRY_S)

    async def _load_all(self) -> None:
        more = True
        while more:
            more = self._core.horizon.load(self._core.now_ms())
            await asyncio.sleep(0)

    async def settle(self) -> bool:
        """Check back what is due by now. True if there may be more to do, or somebody
        is still to answer. For a clock that is moved by hand."""
        await self._catch_up()
        await self._load_all()
        self._checker.look()
        return self._checker.is_busy or self._check_backs.are_awaited

    # --- decisions ------------------------------------------------------------------

    def _check(self) -> None:
        if self.failed.done():
            raise Unavailable(ROLE, SHUTTING_DOWN)
        if not self._claims.live:
            raise Unavailable(ROLE, "the transaction service is catching up")

    async def end(self, request: EndTransactions) -> Ended:
        return Ended(await self._decider.end(request.ends))

    async def add(self, request: AddMessages) -> Added:
        added = await self._decider.decide(lambda: decide_add(self._core, request))
        if isinstance(added, Command):
            return Added(request.first_index + len(request.records))
        return added

    async def resume(self, request: Resume) -> Transaction:
        decided = await self._decider.decide(lambda: decide_resume(self._core, request))
        status = self._core.status(request.transaction_id)
        if isinstance(decided, Status):
            status = decided
        assert status is not None
        return status.public(request.transaction_id)

    # --- check-backs ------------------------------------------------------------------

    async def poll_checks(self, request: PollChecks) -> PolledChecks:
        self._check()
        return await self._check_backs.poll(request)

    async def answer_checks(self, request: AnswerChecks) -> Ended:
        self._check()
        return await self._check_backs.answer(request)

    # --- questions --------------------------------------------------------------------

    async def get(self, request: GetTransaction) -> GotTransaction:
        transaction_id = request.transaction_id
        await self._catch_up()
        status = self._core.status(transaction_id)
        if status is None:
            return GotTransaction(None)
        found = status.public(transaction_id)
        if status.is_open:
            halves = self._core.halves(transaction_id, status.message_count)
            found.messages = [*map(head_of, halves)]
            self._core.tell_answer(found)
        return GotTransaction(found)

    async def list(self, request: ListTransactions) -> TransactionPage:
        await self._catch_up()
        listing = Listing(self._core.index, request)
        more = True
        while more:
            if self._closing:
                raise Unavailable(ROLE, SHUTTING_DOWN)
            more = listing.step()
            await asyncio.sleep(0)
        page = listing.page()
        for found in page.transactions:
            self._core.tell_answer(found)
        return page

    async def status(self, request: Empty) -> BrokerStatus:
        ready = self._claims.live and not self.failed.done()
        counters = {
            **self._core.counters(),
            **self._checker.counters(),
            **self._check_backs.counters(),
        }
        gauges = {
            "txn_service_ready": float(ready),
            **self._core.gauges(),
            **self._check_backs.gauges(),
        }
        return BrokerStatus(counters, gauges)

    # --- upkeep -----------------------------------------------------------------------

    async def _keep_house(self) -> None:
        flush_after = self._core.config.index_flush_ms / 1000
        flushed_at = self._loop.time()
        while True:
            await asyncio.sleep(0.5)
            more = True
            while more:
                more = self._core.forget(FORGET_COUNT)
                await asyncio.sleep(0)
            self._desk.tidy(self._core.is_asked)
            await self._load_all()
            self._checker.look()
            if self._loop.time() - flushed_at >= flush_after:
                flushed_at = self._loop.time()
                await self._flush()

    async def _flush(self) -> None:
        position = await self._flusher.flush()
        if position is None:
            return
        token = self._claims.token
        try:
            await self._broker.hold(Hold(ROLE, token, position))
        except UNSURE:
            self._claims.lose()
        except FenceLost as error:
            if token != self._claims.token:
                return  # we have taken the role anew meanwhile; the next flush tells
            if error.held and self._claims.live:
                raise
            self._claims.lose()
