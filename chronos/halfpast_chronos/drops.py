"""Dropping from memory what lies behind the ends of reaches, a slice at a time."""

from collections import deque
from collections.abc import Callable

from .reach import Reach


class Drops:
    """Reaches of which too much is in memory. `discard` takes out one timer, which
    is in the index anyway."""

    def __init__(self, discard: Callable[[bytes], None]) -> None:
        self._discard = discard
        self._reaches: deque[Reach] = deque()

    def __bool__(self) -> bool:
        return bool(self._reaches)

    def begin(self, reach: Reach) -> None:
        """Its end was drawn back."""
        if reach.dropping is None:
            self._reaches.append(reach)
        reach.dropping = list(reach.handles)

    def step(self, count: int) -> list[Reach]:
        """Look at `count` timers. Gives the reaches that are done."""
        done: list[Reach] = []
        while count > 0 and self._reaches:
            reach = self._reaches[0]
            keys = reach.dropping
            assert keys is not None, "begun, and not done"
            some = keys[-count:]
            del keys[-count:]
            for key in some:
                if key >= reach.end and key in reach.handles:
                    self._discard(key)
            count -= len(some)
            if not keys:
                self._reaches.popleft()
                reach.dropping = None
                done.append(reach)
        return done
