"""Seeing decisions through: from a caller's wish to a durable record and back."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar

from halfpast_core_store.broker import Append, Appended
from halfpast_core_store.claim_waiters import ClaimWaiters
from halfpast_core_store.errors import CoreError, FenceLost
from halfpast_core_store.rpc_errors import ConnectionLost, Unavailable

from .claims import ROLE, STOPPED, TAKEN_ANEW, Claims
from .core import Busy, Ending, TransactionCore
from .decisions import Command
from .ender import CLOSE_S, Departure, Ender, result_of
from .errors import UnknownTransaction
from .transactions import End, EndResult

Decision = TypeVar("Decision")
CatchUp = Callable[[], Awaitable[None]]

SLICE_SIZE = 64 * 1024
DECISION_SIZE = 1024  # what one without messages counts for


@dataclass(slots=True)
class Decided:
    """Outcomes that were decided about at once, by their place in the request."""

    travelling: list[tuple[int, Ending, Departure]] = field(
        default_factory=list[tuple[int, Ending, Departure]]
    )
    busy: list[int] = field(default_factory=list[int])
    unknown: dict[int, EndResult] = field(default_factory=dict[int, EndResult])
    error: CoreError | None = None
    """Why the rest was not decided about."""


class Decider:
    """Decides on the latest state, and waits while somebody else does.

    `append` sends what is stamped; `check` raises while nothing may be decided;
    `catch_up` brings the core up to the log. Who ends what this service knows needs
    no catching up: outcomes come from here alone, so a transaction that is open here
    is open.
    """

    def __init__(
        self,
        core: TransactionCore,
        claims: Claims,
        waiters: ClaimWaiters,
        append: Callable[[Append], Awaitable[Appended]],
        catch_up: CatchUp,
        check: Callable[[], None],
    ) -> None:
        self._core = core
        self._claims = claims
        self._waiters = waiters
        self._append = append
        self._catch_up = catch_up
        self._check = check
        self._loop = asyncio.get_running_loop()
        self._ender = Ender(core, claims, append, self._loop)
        self._commands: set[asyncio.Task[None]] = set()

    async def end(self, ends: list[End]) -> list[EndResult]:
        """Give each of these outcomes, or say why not. Raises Unavailable and the like
        only if that is true of them all."""
        results: dict[int, EndResult] = {}
        waiting = list(range(len(ends)))
        caught_up = False
        try:
            while waiting:
                at_once = await self._decide_all(ends, waiting, results)
                for at, ending, departure in at_once.travelling:
                    error = await asyncio.shield(departure.done)
                    results[at] = result_of(ending, error)
                if at_once.error is not None:
                    raise at_once.error
                for at in at_once.busy:
                    self._check()  # else nobody may be left to release it
                    await self._waiters.released(ends[at].transaction_id)
                if at_once.unknown and not caught_up:
                    await self._catch_up()
                    caught_up = True
                    waiting = [*at_once.busy, *at_once.unknown]
                else:
                    results |= at_once.unknown
                    waiting = at_once.busy
        except CoreError as error:
            if not results:
                raise
            refusal = EndResult(code=error.code, detail=str(error))
            results = dict.fromkeys(range(len(ends)), refusal) | results
        return [results[at] for at in range(len(ends))]

    async def _decide_all(
        self, ends: list[End], waiting: list[int], results: dict[int, EndResult]
    ) -> "Decided":
        """Decide about each of these, a slice a turn of the loop."""
        decided = Decided()
        size = 0
        for at in waiting:
            if self._ender.is_full:
                await self._ender.room()
            if size >= SLICE_SIZE:
                await asyncio.sleep(0)
                size = 0
            try:
                self._check()
            except CoreError as error:
                decided.error = error
                break
            decision = self._core.decide(ends[at])
            size += DECISION_SIZE
            if isinstance(decision, Ending):
                size += decision.size
                decided.travelling.append((at, decision, self._ender.put(decision)))
            elif isinstance(decision, Busy):
                decided.busy.append(at)
            elif decision.code == UnknownTransaction.code:
                decided.unknown[at] = decision
            else:
                results[at] = decision
        return decided

    async def decide(
        self, decide: Callable[[], Decision | Busy | Command]
    ) -> Decision | Command:
        """Decide something else, and see the command through if there is one."""
        await self._catch_up()
        while True:
            self._check()
            decision = decide()
            if isinstance(decision, Busy):
                await self._waiters.released(decision.claim)
            elif isinstance(decision, Command):
                self._claims.stamp(decision.request)
                # Also if the caller goes: somebody must give up the claim.
                task = self._loop.create_task(self._carry_out(decision))
                self._commands.add(task)
                task.add_done_callback(self._commands.discard)
                await asyncio.shield(task)
                return decision
            else:
                return decision

    async def _carry_out(self, command: Command) -> None:
        request = command.request
        applied = self._waiters.next_release(command.claim)
        try:
            await self._append(request)
            await applied
        except CoreError as error:
            self._claims.refused([command.claim], request, error)
            if isinstance(error, FenceLost) and not self._claims.is_ours(request):
                raise Unavailable(ROLE, TAKEN_ANEW) from error
            raise
        except asyncio.CancelledError as stopped:  # by `close` alone
            raise ConnectionLost(ROLE, STOPPED) from stopped
        if self._claims.failed:
            raise ConnectionLost(ROLE, STOPPED)

    async def close(self) -> None:
        """Let what is on its way arrive."""
        await self._ender.close()
        tasks = [*self._commands]
        if tasks:
            await asyncio.wait(tasks, timeout=CLOSE_S)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
