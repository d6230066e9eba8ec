"""Claims, ender and decider beside a `Line`, with appends that wait at gates."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from tests.unit.txn_line import Line

from halfpast_core_store.broker import Append, Appended
from halfpast_core_store.claim_waiters import ClaimWaiters
from halfpast_core_store.errors import FenceLost
from halfpast_core_store.rpc_errors import Unavailable
from halfpast_txn.claims import ROLE, Claims
from halfpast_txn.decider import Decider

Result = TypeVar("Result")


class Gate:
    """One append that is on its way."""

    def __init__(self, request: Append, loop: asyncio.AbstractEventLoop) -> None:
        self.request = request
        self.passed: asyncio.Future[None] = loop.create_future()

    def open(self) -> None:
        self.passed.set_result(None)

    def refuse(self, error: Exception) -> None:
        self.passed.set_exception(error)


class Deciding:
    """What `service.py` puts together, without broker and folders.

    `held` makes appends wait; the broker's fence is `token`.
    """

    def __init__(self, line: Line) -> None:
        self.line = line
        self.loop = asyncio.get_running_loop()
        self.waiters = ClaimWaiters(line.core, self.loop)
        self.failures: list[BaseException] = []
        self.claims = Claims(line.core, self.waiters, self.fail)
        self.claims.token = self.token = 1
        self.claims.live = True
        self.held = False
        self.gates: list[Gate] = []
        self.appended: list[Append] = []
        self.catch_ups = 0
        self.catch_up_error: Exception | None = None
        self.decider = Decider(
            line.core,
            self.claims,
            self.waiters,
            self.append,
            self.catch_up,
            self.check,
        )

    def fail(self, error: BaseException) -> None:
        self.failures.append(error)
        self.claims.live = False
        self.claims.failed = True
        self.waiters.wake_all()

    def check(self) -> None:
        if not self.claims.live:
            raise Unavailable(ROLE, "not live")

    async def append(self, request: Append) -> Appended:
        assert request.fence_role == ROLE
        if self.held:
            gate = Gate(request, self.loop)
            self.gates.append(gate)
            await gate.passed
        else:
            await asyncio.sleep(0)
        if request.fence_token != self.token:
            raise FenceLost(ROLE, True)
        self.appended.append(request)
        self.line.append(request)
        return Appended(0, 0)

    async def catch_up(self) -> None:
        self.catch_ups += 1
        await asyncio.sleep(0)
        if self.catch_up_error is not None:
            raise self.catch_up_error
        self.follow()

    def follow(self) -> None:
        for claim in self.line.follow():
            self.waiters.wake(claim)

    def take_role(self) -> None:
        """Take the role anew, as after a lost connection."""
        self.token += 1
        self.claims.token = self.token
        self.follow()
        self.claims.give_up_all()
        self.claims.live = True
        self.claims.lost = False


async def turns(until: Callable[[], object], count: int = 1_000) -> None:
    """Let the loop turn until something is true; fails if it never is."""
    for _ in range(count):
        if until():
            return
        await asyncio.sleep(0)
    raise AssertionError("it never came about")


async def soon(result: Awaitable[Result]) -> Result:
    """The result of what should not have to wait."""
    return await asyncio.wait_for(result, 20)
