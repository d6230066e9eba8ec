"""Seeing decisions through: from a caller's wish to a durable record and back."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from halfpast_core_store.broker import Append, Appended
from halfpast_core_store.claim_waiters import ClaimWaiters
from halfpast_core_store.errors import CoreError
from halfpast_core_store.rpc_errors import ConnectionLost

from .claims import Claims
from .core import Busy, Ending, TransactionCore
from .decisions import Command
from .ender import Departure, Ender, result_of
from .errors import UnknownTransaction
from .transactions import End, EndResult

Decision = TypeVar("Decision")
CatchUp = Callable[[], Awaitable[None]]


class Decider:
    """Decides on the latest state, and waits while somebody else does.

    `check` raises while nothing may be decided; `catch_up` brings the core up to the
    log. Who ends what this service knows needs no catching up: outcomes come from
    here alone, so a transaction that is open here is open.
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
        """Give each of these outcomes. Raises Unavailable while nothing is decided."""
        results: dict[int, EndResult] = {}
        waiting = list(range(len(ends)))
        caught_up = False
        while waiting:
            self._check()
            travelling: list[tuple[int, Ending, Departure]] = []
            busy: list[int] = []
            unknown: list[int] = []
            for at in waiting:
                decision = self._core.decide(ends[at])
                if isinstance(decision, Ending):
                    travelling.append((at, decision, self._ender.put(decision)))
                elif isinstance(decision, Busy):
                    busy.append(at)
                elif decision.code == UnknownTransaction.code and not caught_up:
                    unknown.append(at)
                else:
                    results[at] = decision
            for at, ending, departure in travelling:
                error = await asyncio.shield(departure.done)
                results[at] = result_of(ending, error)
            for at in busy:
                await self._waiters.released(ends[at].transaction_id)
            if unknown:
                await self._catch_up()
                caught_up = True
            waiting = busy + unknown
        return [results[at] for at in range(len(ends))]

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
                # Also if the caller goes: somebody must give up the claim.
                task = self._loop.create_task(self._carry_out(decision))
                self._commands.add(task)
                task.add_done_callback(self._commands.discard)
                await asyncio.shield(task)
                return decision
            else:
                return decision

    async def _carry_out(self, command: Command) -> None:
        applied = self._waiters.next_release(command.claim)
        try:
            await self._append(command.request)
        except CoreError as error:
            self._claims.refused([command.claim], command.request, error)
            raise
        await applied
        if self._claims.failed:
            raise ConnectionLost("txn", "it stopped before the outcome was known")

    async def close(self) -> None:
        """Let what is on its way arrive."""
        await self._ender.close()
        tasks = [*self._commands]
        if tasks:
            await asyncio.wait(tasks, timeout=5)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
