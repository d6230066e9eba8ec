"""Bulk operations on the event loop: begun, looked at, stopped, and carried out.

The operations that run take turns, a slice each; within a slice others get the loop
every few hundred rows. Only one frame of an operation is on its way at a time, and the
operation is claimed meanwhile, so that nobody stops it amid a change.
"""

import asyncio
from collections.abc import Callable

from halfpast_core_store.claim_waiters import ClaimWaiters
from halfpast_core_store.errors import CoreError, RequestTooLarge
from halfpast_core_store.follower import Follower
from halfpast_core_store.rpc_errors import UNSURE

from .bulk import CHANGED_MAX, BulkSlice
from .bulk_records import BulkRecords
from .core import DelayCore
from .decider import Decider
from .decisions import Command
from .due_query import DueQuery
from .operation import (
    BeginBulk,
    Begun,
    Bulk,
    CancelOperation,
    GetOperation,
    ListOperations,
    Operation,
    OperationPage,
)
from .operations import Operations
from .standing import Standing

RETRY_S = 0.1
SAVE_S = 1.0  # progress that changes nothing is saved this often


class BulkService:
    """All operations of one Delay Server. `given_up` is called when timers may be back
    in the wheel."""

    def __init__(
        self,
        core: DelayCore,
        standing: Standing,
        waiters: ClaimWaiters,
        decider: Decider,
        follower: Follower,
        given_up: Callable[[], None],
    ) -> None:
        self._records = BulkRecords(core)
        self._core = core
        self._standing = standing
        self._waiters = waiters
        self._decider = decider
        self._follower = follower
        self._given_up = given_up
        self._operations = Operations(core)
        self._loop = asyncio.get_running_loop()
        self._begun = asyncio.Event()
        self._changed_max = CHANGED_MAX
        self._save_at: dict[bytes, float] = {}

    # --- calls --------------------------------------------------------------------

    async def begin(self, request: BeginBulk) -> Begun:
        decision = await self._decider.decide(
            lambda: self._operations.decide_begin(request, self._expected(request.bulk))
        )
        self._begun.set()
        if isinstance(decision, Command):
            return Begun(self._operations.get(decision.event_id))
        return decision

    async def get(self, request: GetOperation) -> Operation:
        await self._follower.catch_up()
        return self._operations.get(request.operation_id)

    async def list(self, request: ListOperations) -> OperationPage:
        await self._follower.catch_up()
        return self._operations.page(request)

    async def cancel(self, request: CancelOperation) -> Operation:
        decision = await self._decider.decide(
            lambda: self._operations.decide_cancel(request)
        )
        if isinstance(decision, Command):
            return self._operations.get(decision.event_id)
        return decision

    @property
    def is_busy(self) -> bool:
        """Whether an operation runs."""
        return bool(self._operations.running())

    def gauges(self) -> dict[str, float]:
        """The present state, as the metrics show it."""
        return {"operations_running": len(self._operations.running())}

    def forget(self, history_ms: int) -> None:
        """Delete operations that ended before that long."""
        self._operations.forget(self._core.now_ms() - history_ms)

    def _expected(self, bulk: Bulk) -> int:
        """How many events have to be looked at, about; 0 if that is not known."""
        if bulk.filter.key:
            return 0
        counts, wanted = self._core.due_counts, bulk.filter
        topics = [wanted.topic_id] if wanted.topic_id else list(wanted.topic_ids)
        topics = topics or counts.topic_ids()
        span = (wanted.due_after_ms, wanted.due_before_ms)
        query = DueQuery(self._core.index, counts, topics, *span, 2**63)
        return query.estimate()

    # --- carrying out -------------------------------------------------------------

    async def run(self) -> None:
        """Carry out whatever has been begun, for ever."""
        while True:
            running = self._operations.running()
            if not running:
                self._save_at.clear()
                self._begun.clear()
                await self._begun.wait()
            for operation in running:
                await self._advance(operation.operation_id)
            await asyncio.sleep(0)

    def wake(self) -> None:
        """The log has been followed: perhaps something was begun by a former one."""
        self._begun.set()

    async def _advance(self, operation_id: bytes) -> None:
        """Carry out one slice."""
        standing, claims = self._standing, self._core.claims
        if not standing.live:
            await asyncio.sleep(RETRY_S)
            return
        await self._waiters.released(operation_id)
        operation = self._operations.get(operation_id)
        if operation_id in claims or not operation.is_running or not standing.live:
            return
        claims.add(operation_id)
        token = standing.token
        made = BulkSlice(self._core, self._records, operation, self._changed_max)
        while made.step():
            await asyncio.sleep(0)
            if not standing.live or standing.token != token:
                return  # whoever takes the role anew gives up all claims
        if made.changed or made.is_last or self._should_save(operation_id):
            await self._carry_out(made.command(self._operations))
        else:
            self._operations.show(made.progress())
            self._core.release([operation_id])
            self._waiters.wake(operation_id)
        if made.busy is not None and standing.live:
            await self._waiters.released(made.busy)

    def _should_save(self, operation_id: bytes) -> bool:
        now = self._loop.time()
        if now < self._save_at.setdefault(operation_id, now + SAVE_S):
            return False
        self._save_at[operation_id] = now + SAVE_S
        return True

    async def _carry_out(self, command: Command) -> None:
        """Make it durable, and wait until it is applied."""
        released = self._waiters.next_release(command.event_id)
        try:
            await self._standing.append(command.request)
        except CoreError as error:
            self._refused(command, error)
            await asyncio.sleep(RETRY_S)
        else:
            await released

    def _refused(self, command: Command, error: CoreError) -> None:
        self._standing.refused(command.claims, command.request, error)
        if isinstance(error, UNSURE):
            return  # the log will tell
        if isinstance(error, RequestTooLarge):
            self._changed_max = max(1, self._changed_max // 2)
        self._given_up()
