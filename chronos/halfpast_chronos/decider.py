"""Seeing decisions through: from a caller's wish to a durable record and back."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from halfpast_core_store.claim_waiters import ClaimWaiters
from halfpast_core_store.errors import CoreError
from halfpast_core_store.rpc_errors import UNSURE, ConnectionLost

from .decisions import Busy, Command
from .standing import ROLE, Standing

Decision = TypeVar("Decision")


class Decider:
    """Decides on the latest state, and waits while somebody else does."""

    def __init__(
        self,
        standing: Standing,
        waiters: ClaimWaiters,
        catch_up: Callable[[], Awaitable[None]],
        given_up: Callable[[], None],
    ) -> None:
        """`given_up` is called when timers may be back in the wheel."""
        self._standing = standing
        self._waiters = waiters
        self._catch_up = catch_up
        self._given_up = given_up
        self._loop = asyncio.get_running_loop()
        self._commands: set[asyncio.Task[None]] = set()

    async def decide(
        self, decide: Callable[[], Decision | Busy | Command]
    ) -> Decision | Command:
        """Decide on the latest state, and see a command through."""
        await self._catch_up()
        while True:
            self._standing.check()
            decision = decide()
            if isinstance(decision, Busy):
                await self._waiters.released(decision.claim)
            elif isinstance(decision, Command):
                await self.see_through(decision)
                return decision
            else:
                return decision

    async def see_through(self, command: Command) -> None:
        """Carry out, also if the caller goes: somebody must give up the claims."""
        task = self._loop.create_task(self._carry_out(command))
        self._commands.add(task)
        task.add_done_callback(self._commands.discard)
        await asyncio.shield(task)

    async def _carry_out(self, command: Command) -> None:
        applied = [self._waiters.next_release(claim) for claim in command.claims]
        try:
            await self._standing.append(command.request)
        except CoreError as error:
            self._standing.refused(command.claims, command.request, error)
            if not isinstance(error, UNSURE):
                self._given_up()
            raise
        await asyncio.gather(*applied)
        if self._standing.failed:
            raise ConnectionLost(ROLE, "it stopped before the outcome was known")

    async def close(self) -> None:
        """Let what is on its way arrive."""
        tasks = [*self._commands]
        if tasks:
            await asyncio.wait(tasks, timeout=5)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
