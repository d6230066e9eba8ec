"""A projection outside the store: state that is made from the log alone.

The Delay Server's timers and the transactions are such. A projection changes in one
way only, by records that are durable, in the order of the log; whoever decides
something writes a record and holds a *claim* until it comes back. Applying is
idempotent, since an index may be behind what it was when the process died.
"""

from collections.abc import Sequence
from typing import Protocol

from .broker import FollowedFrame
from .ports import Index


class Projection(Protocol):
    """What `follower.py`, `flusher.py` and `claim_waiters.py` need to know of one."""

    index: Index
    position: int
    """Everything in the log before this has been applied."""
    claims: set[bytes]
    """What somebody is deciding about."""

    def apply(
        self, frames: Sequence[FollowedFrame], next_position: int
    ) -> list[bytes]: ...

    def apply_slice(
        self, frame: FollowedFrame, start: int, stop: int
    ) -> list[bytes]: ...

    def save_position(self) -> int: ...
