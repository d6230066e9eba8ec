"""Outcomes on their way to the log: those that come at the same time travel together.

A few requests may be under way at once; what is decided meanwhile waits and leaves
as one request, so that a crowd of commits costs a few frames and not one each.
There is room for so many bytes of them; who decides more waits for `room`.
"""

import asyncio
from collections.abc import Awaitable, Callable

from halfpast_core_store.broker import Append, Appended
from halfpast_core_store.errors import CoreError
from halfpast_core_store.rpc_errors import ConnectionLost, Unavailable

from .claims import ROLE, SHUTTING_DOWN, STOPPED, TAKEN_ANEW, Claims
from .config import MIB
from .core import Ending, TransactionCore
from .transactions import EndResult

IN_FLIGHT_MAX = 4
SIZE_MAX = 32 * MIB
CLOSE_S = 5.0


class Departure:
    """Outcomes that travel together. `done` gives None, or why they were not stored.

    `token` is the role's as they were decided: they count only under that one.
    """

    def __init__(self, token: int, loop: asyncio.AbstractEventLoop) -> None:
        self.token = token
        self.endings: list[Ending] = []
        self.size = 0
        self.done: asyncio.Future[CoreError | None] = loop.create_future()


class Ender:
    """Appends outcomes, under the fence of the role."""

    def __init__(
        self,
        core: TransactionCore,
        claims: Claims,
        append: Callable[[Append], Awaitable[Appended]],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._core = core
        self._claims = claims
        self._append = append
        self._loop = loop
        self._waiting: list[Departure] = []
        self._under_way: dict[Departure, None] = {}  # and those that wait
        self._size = 0  # of them all
        self._woken = False
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def is_full(self) -> bool:
        """Whether to wait for `room` before anything else is decided."""
        return self._size >= SIZE_MAX

    async def room(self) -> None:
        """Wait until there is room again."""
        while self.is_full:
            await asyncio.wait([next(iter(self._under_way)).done])

    def put(self, ending: Ending) -> Departure:
        """Let an outcome leave with the next request."""
        last = self._waiting[-1] if self._waiting else None
        if (
            last is None
            or last.token != self._claims.token
            or last.size + ending.size > self._core.config.end_size
        ):
            last = Departure(self._claims.token, self._loop)
            self._waiting.append(last)
            self._under_way[last] = None
        last.endings.append(ending)
        last.size += ending.size
        self._size += ending.size
        if not self._woken:
            self._woken = True
            self._loop.call_soon(self._leave)
        return last

    def _leave(self) -> None:
        self._woken = False
        while self._waiting and len(self._tasks) < IN_FLIGHT_MAX:
            task = self._loop.create_task(self._travel(self._waiting.pop(0)))
            self._tasks.add(task)
            task.add_done_callback(self._arrived)

    def _arrived(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._claims.fail(error)
        self._leave()

    async def _travel(self, departure: Departure) -> None:
        error: CoreError | None = None
        request = self._core.end_request(departure.endings)
        self._claims.stamp(request)
        try:
            if departure.token != self._claims.token:
                # Their claims are given up, others may have decided meanwhile.
                raise Unavailable(ROLE, TAKEN_ANEW)
            await self._append(request)
            for ending in departure.endings:
                self._core.ended(ending)
                self._claims.wake(ending.transaction_id)
        except CoreError as refusal:
            error = refusal
            claims = [ending.transaction_id for ending in departure.endings]
            if departure.token == request.fence_token:
                self._claims.refused(claims, request, error)
        except BaseException:
            error = ConnectionLost(ROLE, STOPPED)
            raise
        finally:
            self._end(departure, error)

    def _end(self, departure: Departure, error: CoreError | None) -> None:
        del self._under_way[departure]
        self._size -= departure.size
        departure.done.set_result(error)

    async def close(self) -> None:
        """Let what is under way arrive; what has not left yet never will."""
        staying, self._waiting = self._waiting, []
        for departure in staying:
            for ending in departure.endings:
                self._core.give_up(ending.transaction_id)
            self._end(departure, Unavailable(ROLE, SHUTTING_DOWN))
        tasks = [*self._tasks]
        if tasks:
            await asyncio.wait(tasks, timeout=CLOSE_S)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def result_of(ending: Ending, error: CoreError | None) -> EndResult:
    """What to tell whoever gave this outcome."""
    if error is None:
        return ending.result
    return EndResult(code=error.code, detail=str(error))
