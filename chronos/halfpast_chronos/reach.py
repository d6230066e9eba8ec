"""How far the timers of one topic are in memory, and which of them are due."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from .gate import Gate
from .keys import BIG_U64

NEVER = 2**63 - 1
BEHIND_PREFIX = 24  # bytes of a key: the due time and the id


@dataclass(slots=True, eq=False)
class Reach:
    """One topic's part of the near horizon.

    Every timer before the key `end` is in the wheel, or due, or on its way to the
    log; every one from there on is in the index only, and none of these is due before
    `behind_ms`.
    """

    prefix: bytes
    end: bytes
    count_max: int
    """How many may be loaded; twice as many may come in before any are dropped."""
    gate: Gate
    behind_ms: int = NEVER
    handles: dict[bytes, int] = field(default_factory=dict[bytes, int])
    """What is in the wheel or due: keys and their handles."""
    due: deque[bytes] | None = None
    """Made when something is due: most topics wait most of the time."""
    gone: int = 0
    """How many in `due` have been discarded since they were queued."""
    dropping: list[bytes] | None = None
    """Keys to look at, while what lies behind `end` is dropped from memory."""
    is_held: bool = False
    """Whether nothing of it is to be in memory, since nothing may be released."""
    is_opening: bool = False
    """Whether it is held only until all that was in memory is dropped."""
    is_limited: bool = False
    """Whether it waits until its gate lets something through (see `turns.py`)."""
    room_at: int = -1
    """While it waits for room: how few timers must be left (see `behind.py`)."""

    @property
    def count(self) -> int:
        return len(self.handles)


def start_of(prefix: bytes) -> bytes:
    """Before every key with this prefix: due at no time at all."""
    return prefix + bytes(8)


def behind_all(prefix: bytes) -> bytes:
    """Behind every key with this prefix."""
    return (int.from_bytes(prefix, "big") + 1).to_bytes(len(prefix), "big")


def are_far(reaches: Mapping[bytes, Reach], new: Sequence[bytes], near_ms: int) -> bool:
    """Whether these timers are of one known topic, due after `near_ms`, and all behind
    the first that is not in memory: then nothing is to be done about them."""
    first, last = min(new, default=b""), max(new, default=b"")
    reach = reaches.get(first[:-BEHIND_PREFIX])
    if reach is None or not last.startswith(reach.prefix) or first < reach.end:
        return False
    due_ms = int(BIG_U64.unpack_from(first, len(reach.prefix))[0])
    return due_ms > near_ms and due_ms >= reach.behind_ms
