"""Questions that wait until somebody takes them to a producer.

One queue for each producer group, bounded, as they are together: of too many, the
oldest gives way and is asked again at its next check-back. A question is taken once;
if its taker dies with it, the next check-back asks again. Only ids wait here, so that
a question which has been answered meanwhile costs nothing; by and by it is dropped.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice

Question = tuple[bytes, int]
"""A transaction and the number of its check-back."""

POLLER_S = 5.0
"""So long after its last poll a producer is taken to be alive."""

TOTAL_MAX = 10
"""All groups together have so many times the room of one."""

TIDY_COUNT = 100
"""So many questions, and so many groups, are looked at in one go."""


@dataclass(slots=True)
class GroupDesk:
    """What waits for one producer group, and who waits for it."""

    waiting: dict[bytes, int] = field(default_factory=dict[bytes, int])
    pollers: list["asyncio.Future[None]"] = field(
        default_factory=list["asyncio.Future[None]"]
    )
    polled_at: float = float("-inf")


class CheckDesk:
    """The desks of all producer groups."""

    def __init__(self, count_max: int, loop: asyncio.AbstractEventLoop) -> None:
        self._count_max = count_max
        self._loop = loop
        self._desks: dict[str, GroupDesk] = {}
        self._groups: dict[bytes, str] = {}  # of what waits, oldest first
        self._tidying_questions: list[bytes] = []
        self._tidying_desks: list[str] = []
        self.dropped_count = 0

    def put(self, group: str, transaction_id: bytes, check: int) -> None:
        """A question for this group; an older one about the same is forgotten."""
        desk = self._desks.setdefault(group, GroupDesk())
        self._drop(transaction_id)
        desk.waiting[transaction_id] = check
        self._groups[transaction_id] = group
        if len(desk.waiting) > self._count_max:
            self._drop(next(iter(desk.waiting)))
            self.dropped_count += 1
        elif len(self._groups) > TOTAL_MAX * self._count_max:
            self._drop(next(iter(self._groups)))
            self.dropped_count += 1
        self._wake(desk)

    def _drop(self, transaction_id: bytes) -> None:
        group = self._groups.pop(transaction_id, None)
        if group is not None:
            del self._desks[group].waiting[transaction_id]

    def has_poller(self, group: str) -> bool:
        """Whether a producer of this group polls, or did a moment ago."""
        desk = self._desks.get(group)
        if desk is None:
            return False
        return bool(desk.pollers) or self._loop.time() - desk.polled_at < POLLER_S

    @property
    def has_work_for_poller(self) -> bool:
        """Whether something waits that a live producer will take."""
        return any(
            desk.waiting and self.has_poller(group)
            for group, desk in self._desks.items()
        )

    def take(self, group: str, count: int) -> list[Question]:
        """Up to `count` questions, oldest first; they wait no longer."""
        desk = self._desks.get(group)
        if desk is None:
            return []
        taken = [*islice(desk.waiting.items(), count)]
        for transaction_id, _ in taken:
            self._drop(transaction_id)
        return taken

    async def arrival(self, group: str, wait_s: float) -> None:
        """Wait until there is something for this group, or the time is over."""
        desk = self._desks.setdefault(group, GroupDesk())
        poller: asyncio.Future[None] = self._loop.create_future()
        desk.pollers.append(poller)
        try:
            async with asyncio.timeout(wait_s):
                await poller
        except TimeoutError:
            pass
        except asyncio.CancelledError:
            if poller.done() and not poller.cancelled():  # it was woken in vain
                self._wake(desk)
            raise
        finally:
            if poller in desk.pollers:
                desk.pollers.remove(poller)

    def polled(self, group: str) -> None:
        """A producer of this group has polled."""
        self._desks.setdefault(group, GroupDesk()).polled_at = self._loop.time()

    def tidy(self, is_asked: Callable[[bytes, int], bool]) -> None:
        """Forget some questions that want no answer any more, and some desks at which
        nothing waits and nobody polls: all of them by and by."""
        if not self._tidying_questions:
            self._tidying_questions = list(self._groups)
        for transaction_id in self._tidying_questions[-TIDY_COUNT:]:
            group = self._groups.get(transaction_id)
            if group is not None:
                check = self._desks[group].waiting[transaction_id]
                if not is_asked(transaction_id, check):
                    self._drop(transaction_id)
        del self._tidying_questions[-TIDY_COUNT:]
        if not self._tidying_desks:
            self._tidying_desks = list(self._desks)
        for group in self._tidying_desks[-TIDY_COUNT:]:
            desk = self._desks.get(group)
            if desk is not None and not desk.waiting and not self.has_poller(group):
                del self._desks[group]
        del self._tidying_desks[-TIDY_COUNT:]

    def wake_all(self) -> None:
        """Send all pollers home: the service stops."""
        for desk in self._desks.values():
            while desk.pollers:
                self._wake(desk)

    @property
    def waiting_count(self) -> int:
        return len(self._groups)

    def _wake(self, desk: GroupDesk) -> None:
        while desk.pollers:
            poller = desk.pollers.pop(0)
            if not poller.done():
                poller.set_result(None)
                return
