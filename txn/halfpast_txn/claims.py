"""What becomes of claims when an append fails: the rules that all decisions share.

refused, certainly      the claims are given up, the transaction is as it was
outcome unknown         the role is taken anew; claims live until the log tells
another instance        the process ends
"""

from collections.abc import Callable, Iterable

from halfpast_core_store.broker import Append
from halfpast_core_store.claim_waiters import ClaimWaiters
from halfpast_core_store.errors import CoreError, FenceLost
from halfpast_core_store.rpc_errors import UNSURE

from .core import TransactionCore

ROLE = "txn"
STOPPED = "it stopped before the outcome was known"
SHUTTING_DOWN = "the transaction service is shutting down"
TAKEN_ANEW = "it has taken its role anew, and nothing was stored"


class Claims:
    """The claims of one service, with its standing: live, lost, or failed."""

    def __init__(
        self,
        core: TransactionCore,
        waiters: ClaimWaiters,
        fail: Callable[[BaseException], None],
    ) -> None:
        self._core = core
        self._waiters = waiters
        self.fail = fail
        self.token = 0
        self.live = False
        """Whether the role is ours and the log is caught up with."""
        self.lost = False
        """Whether the role has to be taken anew."""
        self.failed = False
        """Whether the service has failed for good."""

    def wake(self, claim: bytes) -> None:
        """A claim has been released."""
        self._waiters.wake(claim)

    def lose(self) -> None:
        """The broker is away: decide nothing until the role is taken anew."""
        self.lost = True
        self.live = False

    def stamp(self, request: Append) -> None:
        """To be called with the decision: this request counts only as long as nobody
        takes the role, not even we ourselves, since that gives up all claims."""
        request.fence_role, request.fence_token = ROLE, self.token

    def is_ours(self, request: Append) -> bool:
        """Whether the role was not taken anew since this request was made."""
        return request.fence_token == self.token

    def refused(
        self, claims: Iterable[bytes], request: Append, error: CoreError
    ) -> None:
        """An append ended with this error."""
        if not self.is_ours(request):
            return  # taking the role anew has given up all claims
        if isinstance(error, UNSURE):
            self.lose()
            return
        if isinstance(error, FenceLost):
            if error.held:
                self.fail(error)
            else:
                self.lose()
        for claim in claims:
            self._core.give_up(claim)
            self.wake(claim)

    def give_up_all(self) -> None:
        """The log has been caught up with, and has told what it had to tell."""
        claims = sorted(self._core.claims)
        self._core.give_up_all()
        for claim in claims:
            self.wake(claim)
