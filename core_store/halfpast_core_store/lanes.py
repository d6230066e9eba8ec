"""Admission lanes: bounded queues in front of the log, served by weight.

RocketMQ gives sends and ends of transactions their own thread pools, so that a
flood of first phases cannot keep the second ones waiting. Here nothing in front
of the log takes long enough to need a thread; what is scarce is the space in the
next frame. So each lane has a bound of its own (a full one refuses, and only
those who use it), and when more waits than one frame takes, the frame is shared
out by weight: phase two gets four times what phase one gets.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from .broker import Lane
from .config import LanesConfig
from .errors import Overloaded

Item = TypeVar("Item")

NAMES: dict[int, str] = {
    Lane.SEND: "send",
    Lane.END_TRANSACTION: "end-transaction",
    Lane.CONSUME: "consume",
    Lane.SYSTEM: "system",
}


@dataclass(slots=True)
class LaneQueue(Generic[Item]):
    """What waits in one lane, oldest first, with its sizes in bytes."""

    weight: int
    items: deque[tuple[Item, int]] = field(default_factory=lambda: deque())
    size: int = 0
    refused: int = 0
    admitted: int = 0
    credit: int = 0
    """Bytes of frames that this lane is owed, or has had too many, while it waits."""


class Lanes(Generic[Item]):
    """Lanes by their number. Order within a lane is kept."""

    def __init__(self, config: LanesConfig) -> None:
        send = config.send_message_thread_pool_nums
        end = config.end_transaction_thread_pool_nums or 4 * send
        self._config = config
        self._lanes: list[LaneQueue[Item]] = [
            LaneQueue(weight) for weight in (send, end, 2 * send, 4 * send)
        ]
        self.size = 0

    def check(self, lane: int, size: int) -> None:
        """Raise Overloaded if `size` more bytes may not wait in this lane."""
        queue = self._lanes[lane]
        if len(queue.items) >= self._config.request_count_max or (
            queue.items and queue.size + size > self._config.size_max
        ):
            queue.refused += 1
            raise Overloaded(NAMES[lane])

    def put(self, lane: int, item: Item, size: int) -> None:
        """Let it wait. `check` has admitted it."""
        queue = self._lanes[lane]
        queue.items.append((item, size))
        queue.size += size
        queue.admitted += 1
        self.size += size

    def take(self, size_max: int) -> list[Item]:
        """What goes into the next frame: up to `size_max` bytes, at least one item;
        a larger one goes alone.

        A lane that got too little this time is owed the difference, so that large
        requests have their share too (deficit round robin).
        """
        if self.size <= size_max:
            return self.drain()
        waiting = [queue for queue in self._lanes if queue.items]
        total = sum(queue.weight for queue in waiting)
        for queue in waiting:
            queue.credit += max(1, size_max * queue.weight // total)
        waiting.sort(key=owed, reverse=True)
        taken: list[Item] = []
        room = size_max
        for queue in waiting:
            while queue.items and (
                not taken or (queue.credit > 0 and queue.items[0][1] <= room)
            ):
                room -= self._take_one(queue, taken)
            if not queue.items:
                queue.credit = 0
        return taken

    def _take_one(self, queue: LaneQueue[Item], taken: list[Item]) -> int:
        item, size = queue.items.popleft()
        queue.size -= size
        queue.credit -= size
        self.size -= size
        taken.append(item)
        return size

    def drain(self) -> list[Item]:
        """Everything that waits."""
        items = [item for queue in self._lanes for item, _ in queue.items]
        for queue in self._lanes:
            queue.items.clear()
            queue.size = queue.credit = 0
        self.size = 0
        return items

    def waiting(self) -> dict[str, tuple[int, int, int]]:
        """Per lane: requests, bytes, and how many were refused so far."""
        return {
            NAMES[lane]: (len(queue.items), queue.size, queue.refused)
            for lane, queue in enumerate(self._lanes)
        }

    def admitted(self) -> dict[str, int]:
        """Per lane: how many requests were let in so far."""
        return {NAMES[lane]: it.admitted for lane, it in enumerate(self._lanes)}

    def __bool__(self) -> bool:
        return self.size > 0


def owed(queue: LaneQueue[Item]) -> int:
    """Whose turn it is: the largest credit."""
    return queue.credit
