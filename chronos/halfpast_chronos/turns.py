"""Taking turns: what is due, released fairly over topics.

Deficit round robin with a quantum of timers: each topic that has something due may
send so many before the next one's turn comes. A topic that is held back keeps its
place and sends nothing.
"""

from collections import deque

from .reach import Reach

QUANTUM = 25


class Turns:
    """The topics that have timers due."""

    def __init__(self) -> None:
        self._waiting: deque[Reach] = deque()

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, reach: Reach, key: bytes) -> None:
        """A timer of this topic is due."""
        if reach.due is None:
            reach.due = deque()
            self._waiting.append(reach)
        reach.due.append(key)

    def take(self, limit: int) -> list[bytes]:
        """Up to `limit` timers: each topic's in their order, topics in turn."""
        taken: list[bytes] = []
        while self._waiting and len(taken) < limit:
            reach = self._waiting.popleft()
            due = reach.due
            assert due, "only topics with something due wait"
            for _ in range(min(QUANTUM, limit - len(taken), len(due))):
                taken.append(due.popleft())
            if due:
                self._waiting.append(reach)
            else:
                reach.due = None
        return taken
