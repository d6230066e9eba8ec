"""Taking turns: what is due, released fairly over topics.

Deficit round robin with a quantum of timers: each topic that has something due may
send so many before the next one's turn comes. A topic whose gate is shut steps aside
until it opens, and costs nothing meanwhile.
"""

from collections import deque
from heapq import heappop, heappush

from .gate import Gate
from .reach import NEVER, Reach

QUANTUM = 25
GONE_MIN = 64


class Turns:
    """The topics that have timers due."""

    def __init__(self) -> None:
        self._waiting: deque[Reach] = deque()
        self._limited: list[tuple[int, int, Reach]] = []  # heap; some have left it
        self._entered = 0
        self.drain = Gate()
        """Over all topics: how fast a backlog may go out."""

    def __bool__(self) -> bool:
        """Whether anything is due."""
        return bool(self._waiting or self._limited)

    @property
    def are_pressing(self) -> bool:
        """Whether a topic waits for its turn, and not for its gate."""
        return bool(self._waiting)

    def add(self, reach: Reach, key: bytes) -> None:
        """A timer of this topic is due."""
        if reach.due is None:
            reach.due = deque()
            self._waiting.append(reach)
        reach.due.append(key)

    def take(self, limit: int, now_ms: int) -> list[bytes]:
        """Up to `limit` timers: each topic's in their order, topics in turn.

        Some may have been discarded since they were due.
        """
        self._readmit(now_ms)
        limit = self.drain.take(now_ms, limit)
        taken: list[bytes] = []
        while self._waiting and len(taken) < limit:
            reach = self._waiting.popleft()
            due = reach.due
            assert due, "only topics with something due wait"
            wanted = min(QUANTUM, limit - len(taken), len(due))
            for _ in range(reach.gate.take(now_ms, wanted)):
                taken.append(due.popleft())
            if not due:
                reach.due = None
                reach.gone = 0
            elif reach.gate.next_ms(now_ms) > now_ms:
                self._step_aside(reach, now_ms)
            else:
                self._waiting.append(reach)
        self.drain.give_back(limit - len(taken))
        return taken

    def next_ms(self, now_ms: int) -> int:
        """When one may be taken: `now_ms` or later, NEVER if nothing is due."""
        next_ms = now_ms if self._waiting else NEVER
        if self._limited:
            next_ms = min(next_ms, max(now_ms, self._limited[0][0]))
        if next_ms == NEVER:
            return NEVER
        return max(next_ms, self.drain.next_ms(now_ms))

    def clear(self, reach: Reach) -> None:
        """Nothing of this topic is due any more."""
        if reach.due is not None and not reach.is_limited:
            self._waiting.remove(reach)
        reach.due = None
        reach.gone = 0
        reach.is_limited = False

    def reopen(self, reach: Reach) -> None:
        """Its gate has changed: it may be let through earlier."""
        if reach.is_limited:
            reach.is_limited = False
            self._waiting.append(reach)

    def reopen_all(self) -> None:
        """The clock was set: no time that was noted holds any more."""
        limited, self._limited = self._limited, []
        for _, _, reach in limited:
            self.reopen(reach)

    def lost_one(self, reach: Reach) -> None:
        """One that is due was discarded. Its place in the queue is given up when half
        of the places are those of such (or of one that has come back since)."""
        due = reach.due
        if due is None:
            return
        reach.gone += 1
        if reach.gone < max(GONE_MIN, len(due) // 2):
            return
        kept = deque(key for key in dict.fromkeys(due) if key in reach.handles)
        if kept:
            reach.due, reach.gone = kept, 0
        else:
            self.clear(reach)

    def _step_aside(self, reach: Reach, now_ms: int) -> None:
        reach.is_limited = True
        self._entered += 1
        entry = (reach.gate.next_ms(now_ms), self._entered, reach)
        heappush(self._limited, entry)

    def _readmit(self, now_ms: int) -> None:
        while self._limited and self._limited[0][0] <= now_ms:
            _, _, reach = heappop(self._limited)
            self.reopen(reach)
