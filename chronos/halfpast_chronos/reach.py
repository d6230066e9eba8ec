"""How far the timers of one topic are in memory, and which of them are due."""

from collections import deque
from dataclasses import dataclass

NEVER = 2**63 - 1


@dataclass(slots=True)
class Reach:
    """One topic's part of the near horizon.

    Every timer before the key `end` is in the wheel, or due, or on its way to the
    log; every one from there on is in the index only, and none of these is due before
    `behind_ms`. `count` is how many are in the wheel or due.
    """

    prefix: bytes
    end: bytes
    behind_ms: int = NEVER
    count: int = 0
    due: deque[bytes] | None = None
    """Made when something is due: most topics wait most of the time."""
