"""Roles: who may write for a projection outside the store, and what it still needs.

A role (`chronos`, `txn`) has one holder at a time. Acquiring it gives a fence token,
which every append in that role carries; those of a former holder are refused. The
holder also tells how far its own index is flushed, and the log is kept from there.
"""

from . import keys
from .errors import FenceLost
from .ports import Index, IndexBatch, Rng
from .record import Family

ALWAYS = "chronos"
"""Needs the log from the start on, also before it has ever asked."""
ON_USE = {Family.TRANSACTIONS: "txn"}
"""Need it from the first frame on that has something for them."""


class Roles:
    """The fences, which live as long as the process, and the holds, which stay."""

    def __init__(self, index: Index, rng: Rng) -> None:
        self._index = index
        self._rng = rng
        self._fences: dict[str, int] = {}
        self._holds = {ALWAYS: 0}
        for key, value in index.scan(b"H", b"I", 1000):
            self._holds[key[1:].decode()] = keys.read_u64(value)

    def acquire(self, role: str) -> int:
        """A new fence token; the former holder's is worth nothing any more."""
        token = self._rng.bits(63) | 1
        self._fences[role] = token
        return token

    def check(self, role: str, token: int) -> None:
        """Raises FenceLost unless `token` is the latest one of the role."""
        if self._fences.get(role) != token:
            raise FenceLost(role, role in self._fences)

    def holds(self, role: str) -> bool:
        """Whether the log is kept for this role already, from anywhere on."""
        return role in self._holds

    def hold(self, role: str, token: int, position: int) -> None:
        """Keep the log from `position` on for this role. Raises FenceLost."""
        self.check(role, token)
        batch = self._index.batch()
        self._put(batch, role, position)
        self._index.write(batch)

    def keep_from(self) -> int:
        """Nothing from here on may be deleted."""
        return min(self._holds.values())

    def apply(self, batch: IndexBatch, families: int, position: int) -> None:
        """A frame for these families is applied, the first one for some role."""
        for family, role in ON_USE.items():
            if families & family and role not in self._holds:
                self._put(batch, role, position)

    def _put(self, batch: IndexBatch, role: str, position: int) -> None:
        self._holds[role] = position
        batch.put(b"H" + role.encode(), keys.U64.pack(position))
