"""What lies behind the reaches: which topic has to be loaded next, and when.

A topic that is full of loaded timers is set aside until half of them are gone, so that
looking for the next one passes over no others, and loads come in worthwhile slices.
While all topics together are too many, those that have any are set aside. A topic that
is held does not come in at all.
"""

from heapq import heapify, heappop, heappush

from .reach import NEVER, Reach

OUTDATED_MAX = 1_000


class Behind:
    """Topics by the time before which nothing behind their reach is due."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Reach]] = []  # may hold what is outdated
        self._entered = 0
        self._size_max = OUTDATED_MAX
        self._crowded: list[Reach] = []

    def note(self, reach: Reach, behind_ms: int) -> None:
        """Nothing behind this reach is due before then."""
        reach.behind_ms = behind_ms
        self._enter(reach)

    def opened(self, reach: Reach) -> None:
        """It is held no longer, or may hold more."""
        reach.room_at = -1
        self._enter(reach)

    def left(self, reach: Reach) -> None:
        """A timer has left this reach."""
        if len(reach.handles) <= reach.room_at:
            self.opened(reach)

    def first(self, is_crowded: bool) -> Reach | None:
        """The topic with the earliest of what lies behind, of those with room."""
        heap = self._heap
        if not is_crowded and self._crowded:
            self._readmit()
        while heap:
            behind_ms, _, reach = heap[0]
            if is_waiting(reach) and reach.behind_ms == behind_ms:
                count = len(reach.handles)
                if count >= reach.count_max:
                    reach.room_at = reach.count_max // 2
                elif count and is_crowded:
                    reach.room_at = 0
                    self._crowded.append(reach)
                else:
                    return reach
            heappop(heap)
        return None

    def _readmit(self) -> None:
        crowded, self._crowded = self._crowded, []
        for reach in crowded:
            if reach.room_at == 0:
                reach.room_at = -1
                self._enter(reach)

    def _enter(self, reach: Reach) -> None:
        if is_waiting(reach):
            self._entered += 1
            heappush(self._heap, (reach.behind_ms, self._entered, reach))
            if len(self._heap) > self._size_max:
                self._tidy()

    def _tidy(self) -> None:
        """Drop what is outdated or there twice."""
        self._heap = list(
            {
                id(reach): (behind_ms, entered, reach)
                for behind_ms, entered, reach in self._heap
                if is_waiting(reach) and reach.behind_ms == behind_ms
            }.values()
        )
        heapify(self._heap)
        self._size_max = 2 * len(self._heap) + OUTDATED_MAX


def is_waiting(reach: Reach) -> bool:
    """Whether it has something to load and is not set aside."""
    return reach.behind_ms != NEVER and not reach.is_held and reach.room_at < 0
