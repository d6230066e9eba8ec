"""The standing of one Delay Server towards the log: live, lost, or failed.

refused, certainly      claims are given up, their timers go back into the wheel
outcome unknown         the role is taken anew; claims live until the log tells
another instance        the process ends
"""

from collections.abc import Callable, Iterable

from halfpast_core_store.broker import Append, Appended, Broker
from halfpast_core_store.claim_waiters import ClaimWaiters
from halfpast_core_store.errors import CoreError, FenceLost
from halfpast_core_store.rpc_errors import UNSURE, Unavailable

from .core import DelayCore

ROLE = "chronos"


class Standing:
    """Whether the role is ours, and what to do when an append says that it is not.

    `fail` ends the process.
    """

    def __init__(
        self,
        core: DelayCore,
        broker: Broker,
        waiters: ClaimWaiters,
        fail: Callable[[BaseException], None],
    ) -> None:
        self._core = core
        self._broker = broker
        self._waiters = waiters
        self.fail = fail
        self.token = 0
        self.live = False
        """Whether the role is ours and the log is caught up with."""
        self.lost = False
        """Whether the role has to be taken anew."""
        self.failed = False
        """Whether the service has failed for good."""

    async def append(self, request: Append) -> Appended:
        """Append in our role."""
        request.fence_role, request.fence_token = ROLE, self.token
        return await self._broker.append(request)

    def is_ours(self, request: Append) -> bool:
        """Whether the role was not taken anew since this request was made; if it was,
        that gave up all claims."""
        return request.fence_token == self.token

    def lose(self) -> None:
        """The broker is away: decide and fire nothing until the role is ours anew."""
        self.lost = True
        self.live = False

    def check(self) -> None:
        """Raises Unavailable while nothing may be decided."""
        if self.failed:
            raise Unavailable(ROLE, "the delay server is shutting down")
        if not self.live:
            raise Unavailable(ROLE, "the delay server is catching up")

    def refused(
        self, claims: Iterable[bytes], request: Append, error: CoreError
    ) -> None:
        """An append ended with this error."""
        if isinstance(error, UNSURE):
            self.lose()
            return
        if not self.is_ours(request):
            return
        if isinstance(error, FenceLost):
            self.fail(error) if error.held else self.lose()
        for claim in claims:
            self.give_up(claim)

    def give_up(self, claim: bytes) -> None:
        """The record that it was for is not in the log, and never will be."""
        self._core.release([claim])
        self._core.return_to_wheel(claim)  # does nothing for an own key
        self._waiters.wake(claim)
