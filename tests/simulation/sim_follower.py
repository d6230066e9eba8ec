"""How a simulated transaction service follows the log, and keeps its role.

What `service.py` and `follower.py` do on an event loop is done here a step at a time.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from tests.simulation.sim_connection import Connection
from tests.simulation.sim_settings import FORGETFUL_TXN, TXN

from halfpast_core_store.broker import Follow, FollowedFrame
from halfpast_core_store.claim_waiters import ClaimWaiters
from halfpast_core_store.errors import FenceLost, OffsetOutOfRange
from halfpast_core_store.follow import follow
from halfpast_core_store.memory_index import MemoryIndex
from halfpast_core_store.record import Family
from halfpast_core_store.rpc_errors import Unavailable
from halfpast_txn.claims import ROLE, Claims
from halfpast_txn.core import TransactionCore

if TYPE_CHECKING:
    from tests.simulation.sim_world import World

SEEN_MAX = 5


class SimWaiters(ClaimWaiters):
    """Calls that wait for a claim; they go on in the next step."""

    def __init__(self) -> None:
        self._calls: dict[bytes, list[Callable[[], None]]] = {}
        self.ready: list[Callable[[], None]] = []

    def then(self, claim: bytes, call: Callable[[], None]) -> None:
        self._calls.setdefault(claim, []).append(call)

    def wake(self, claim: bytes) -> None:
        self.ready += self._calls.pop(claim, ())


class TransactionFollower:
    """One process with the real core and the real rules for claims."""

    make_core: type[TransactionCore] = TransactionCore

    def __init__(self, world: "World", index: MemoryIndex) -> None:
        self._world = world
        self._random = world.random
        self.index = index
        config = FORGETFUL_TXN if world.forgets else TXN
        self.core = self.make_core(index, world.clock, config)
        after: bytes | None = b""
        while after is not None:
            after = self.core.count_open(after)
        self.waiters = SimWaiters()
        self.claims = Claims(self.core, self.waiters, self._fail)
        self.claims.lost = True
        self.connection = Connection(world)
        self.role_end = 0
        self._applied_count = 0  # records of the frame at hand
        self._seen: list[FollowedFrame] = []

    @property
    def failed(self) -> bool:
        return self.claims.failed

    @property
    def holds_role(self) -> bool:
        """Whether no other process has taken the role since."""
        return self.claims.token == self._world.transaction_token

    def _fail(self, error: BaseException) -> None:
        if not isinstance(error, FenceLost):
            raise error
        assert not self.holds_role, "nobody else has the role"
        self._give_in()

    def _give_in(self) -> None:
        self.claims.live = False
        self.claims.failed = True

    def take_role(self) -> None:
        """Shut out former instances; decide only when the log is caught up with."""
        self.claims.live = False
        self.claims.token, self.role_end = self._world.store.acquire(ROLE)
        self._world.transaction_token = self.claims.token
        self.claims.lost = False

    def follow(self) -> None:
        """Apply some of what is new, perhaps stopping amid a frame."""
        if self._seen and self._random.random() < 0.1:
            self.core.apply(self._seen, 0)  # two followed at once: passed over
        for frame in self._followed(2000):
            if not self._apply(frame, whole=False):
                return
        if self.failed:
            return
        if not self.claims.live and self.core.position >= self.role_end:
            self.claims.give_up_all()
            self.claims.live = True
        self.core.horizon.load(self.core.now_ms())

    def _followed(self, size_max: int) -> list[FollowedFrame]:
        request = Follow(self.core.position, Family.TRANSACTIONS, size_max=size_max)
        try:
            followed = follow(self._world.store.log, request)
        except OffsetOutOfRange:
            if self is self._world.transactions:
                raise
            self._give_in()  # the log waits for the other one only
            return []
        if not followed.frames:
            self.core.apply([], followed.next_position)
        return followed.frames

    def _apply(self, frame: FollowedFrame, *, whole: bool) -> bool:
        """Apply a frame in slices; perhaps not all of them now."""
        while frame.position >= self.core.position:
            start = self._applied_count
            count = self._random.choice((1, 1, 2, 40))
            stop = min(start + count, len(frame.records))
            released = self.core.apply_slice(frame, start, stop)
            self._applied_count = stop if stop < len(frame.records) else 0
            for claim in released:
                self.waiters.wake(claim)
            if self._applied_count and not whole and self._random.random() < 0.7:
                return False
        self._seen = [*self._seen, frame][-SEEN_MAX:]
        return True

    def catch_up(self) -> None:
        """Apply all that is durable. Raises Unavailable without a connection."""
        if not self.connection.is_up:
            raise Unavailable("broker", "no connection")
        while self.core.position < self._world.store.log.durable_end:
            for frame in self._followed(1 << 20):
                self._apply(frame, whole=True)
            if self.failed:
                raise Unavailable(ROLE, "it is stopping")

    def flush(self) -> None:
        """Upkeep: forget, make the index durable, let the log go."""
        while self.core.forget(10):
            pass
        position = self.core.save_position()
        self.index.flush()
        if not self.connection.is_up or self.failed:
            return
        try:
            self._world.store.hold(ROLE, self.claims.token, position)
        except FenceLost as error:
            if error.held and self.claims.live:
                self._fail(error)
            else:
                self.claims.lose()
