"""Sending check-backs when they are due.

Each is first written to the log, so that its number survives whatever happens, and
then put on the desk of its producer group. From there a polling producer takes it,
or, where the group has an endpoint and nobody polls, a few callers of our own.
"""

import asyncio
from collections.abc import Awaitable, Callable

from halfpast_chronos.tick import tick_of
from halfpast_core_store.broker import Append, Appended
from halfpast_core_store.errors import CoreError
from halfpast_core_store.ports import Clock
from halfpast_core_store.real_clock import RealClock
from halfpast_core_store.rpc_errors import UNSURE

from .check_desk import CheckDesk, Question
from .claims import Claims
from .core import Checking, TransactionCore
from .producer_group import CheckEndpoint, ProducerGroups

RETRY_S = 0.1

Ask = Callable[[CheckEndpoint, Question], Awaitable[None]]


class Checker:
    """Watches the clock; `ask` takes one question to an endpoint."""

    def __init__(
        self,
        core: TransactionCore,
        claims: Claims,
        desk: CheckDesk,
        groups: ProducerGroups,
        append: Callable[[Append], Awaitable[Appended]],
        catch_up: Callable[[], Awaitable[None]],
        ask: Ask,
        clock: Clock | None = None,
    ) -> None:
        self._core = core
        self._claims = claims
        self._desk = desk
        self._groups = groups
        self._append = append
        self._catch_up = catch_up
        self._ask = ask
        self._loop = asyncio.get_running_loop()
        self._tick = tick_of(clock or RealClock(), self._loop, self.look)
        self._in_flight: set[asyncio.Task[None]] = set()
        self._callers: dict[str, set[asyncio.Task[None]]] = {}
        self._paused_until = 0.0
        self._closed = False
        self._sent = {"http": 0, "poll": 0, "nobody": 0}

    @property
    def is_busy(self) -> bool:
        """Whether a check-back is on its way, or due."""
        core = self._core
        is_due = core.horizon.idle_until(core.now_ms()) == 0
        return is_due or bool(self._in_flight) or bool(self._callers)

    def look(self) -> None:
        """Write what is due, or set the alarm for what comes next."""
        try:
            self._look()
        except Exception as error:  # nobody awaits a callback
            self._claims.fail(error)

    def _look(self) -> None:
        if self._closed or not self._claims.live:
            return
        if len(self._in_flight) >= self._core.config.check_in_flight:
            return
        if self._loop.time() < self._paused_until:
            return
        checking = self._core.check()
        if checking is not None:
            self._claims.stamp(checking.request)
            task = self._loop.create_task(self._write(checking))
            self._in_flight.add(task)
            task.add_done_callback(self._written)
            self._loop.call_soon(self.look)
            return
        now_ms = self._core.now_ms()
        if self._core.horizon.wants_load(now_ms):
            self._core.horizon.load(now_ms)
        self._tick.set(self._core.horizon.next_ms())

    def _written(self, task: "asyncio.Task[None]") -> None:
        self._in_flight.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._claims.fail(error)
        else:
            self.look()

    async def _write(self, checking: Checking) -> None:
        request = checking.request
        try:
            await self._append(request)
            await self._catch_up()
        except CoreError as error:
            if not isinstance(error, UNSURE):
                if self._claims.is_ours(request):
                    self._core.not_checked(checking)
                    for claim in checking.parked:
                        self._claims.wake(claim)
                self._pause(RETRY_S)
            self._claims.refused([], request, error)
        else:
            for transaction_id, check in checking.checks:
                self._dispatch(transaction_id, check)

    def _pause(self, seconds: float) -> None:
        self._paused_until = self._loop.time() + seconds
        self._loop.call_later(seconds + 0.001, self.look)

    def _dispatch(self, transaction_id: bytes, check: int) -> None:
        status = self._core.still_asked(transaction_id, check)
        if status is None:
            return
        group = status.group
        self._desk.put(group, transaction_id, check)
        if self._desk.has_poller(group):
            self._sent["poll"] += 1
            return
        endpoint = self._groups.check_endpoint(group)
        if endpoint is None:
            self._sent["nobody"] += 1
            return
        self._sent["http"] += 1
        callers = self._callers.setdefault(group, set())
        # One that has just ended found nothing, and takes nothing any more.
        if sum(not task.done() for task in callers) < endpoint.concurrency_max:
            task = self._loop.create_task(self._call(group))
            callers.add(task)
            task.add_done_callback(lambda task: self._called(group, task))

    async def _call(self, group: str) -> None:
        """Take what waits for this group to its endpoint, one after the other."""
        while taken := self._desk.take(group, 1):
            endpoint = self._groups.check_endpoint(group)
            if endpoint is None:
                self._desk.put(group, *taken[0])
                return
            await self._ask(endpoint, taken[0])

    def _called(self, group: str, task: "asyncio.Task[None]") -> None:
        callers = self._callers[group]
        callers.discard(task)
        if not callers:
            del self._callers[group]
        if not task.cancelled() and (error := task.exception()) is not None:
            self._claims.fail(error)

    def counters(self) -> dict[str, float]:
        return {
            f'checks_total{{transport="{name}"}}': float(count)
            for name, count in self._sent.items()
        }

    async def close(self) -> None:
        """Send nothing more; what is on its way may arrive."""
        self._closed = True
        self._tick.close()
        if self._in_flight:
            await asyncio.wait(self._in_flight, timeout=5)
        tasks = [*self._in_flight]
        tasks += [task for callers in self._callers.values() for task in callers]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
