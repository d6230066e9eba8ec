"""Following the log: the broker's frames applied to a projection, in slices."""

import asyncio
from collections.abc import Callable, Sequence

from .broker import Broker, Follow, FollowedFrame
from .claim_waiters import ClaimWaiters
from .projection import Projection

OWN_WAIT_MS = 10
APPLY_COUNT = 100  # entries: a millisecond of work, in which the loop stands still

Cost = Callable[[bytes], int]


class Follower:
    """Brings the core up to the log. Any number may ask for that at a time."""

    def __init__(
        self,
        core: Projection,
        broker: Broker,
        waiters: ClaimWaiters,
        applied: Callable[[], None],
        families: int,
        cost: Cost,
        own_topic: int = 0,
    ) -> None:
        """`applied` is called when something new has been; `cost` tells how many
        entries of the index a record is about. Nobody else writes to `own_topic`, and
        nothing in it is urgent."""
        self._core = core
        self._broker = broker
        self._waiters = waiters
        self._applied = applied
        self._families = families
        self._cost = cost
        self._own_topic = own_topic
        self._applying = asyncio.Lock()
        self._applied_count = 0  # records of the frame at hand

    def has_gap(self, log_start: int) -> bool:
        """Whether the log does not reach back to what the projection knows."""
        return log_start > self._core.position == 0

    async def follow(self, wait_ms: int) -> int:
        """Apply what is new, waiting for it up to `wait_ms`; gives the log's end."""
        followed = await self._broker.follow(
            Follow(
                self._core.position,
                self._families,
                wait_ms,
                own_topic=self._own_topic,
                own_wait_ms=OWN_WAIT_MS,
            )
        )
        async with self._applying:
            for frame in followed.frames:
                await self._apply(frame)
            self._core.apply([], followed.next_position)
        if followed.frames:
            self._applied()
        return followed.log_end

    async def catch_up(self) -> None:
        """Apply everything that was durable when this was called."""
        target = await self.follow(0)
        while self._core.position < target:
            await self.follow(0)

    async def _apply(self, frame: FollowedFrame) -> None:
        """Apply a frame that may have been applied already, a slice at a time.

        Whoever does this may be cancelled between two slices; the next one goes on
        there. Beginning anew would release claims that others hold by now.
        """
        while frame.position >= self._core.position:
            start = self._applied_count
            stop = slice_end(frame.records, start, self._cost)
            released = self._core.apply_slice(frame, start, stop)
            self._applied_count = stop if stop < len(frame.records) else 0
            for claim in released:
                self._waiters.wake(claim)
            if self._applied_count:
                await asyncio.sleep(0)


def slice_end(records: Sequence[bytes], start: int, cost: Cost) -> int:
    """Where a slice that begins at `start` ends: at one record at least."""
    count = 0
    for at in range(start, len(records)):
        count += cost(records[at])
        if count >= APPLY_COUNT:
            return at + 1
    return len(records)
