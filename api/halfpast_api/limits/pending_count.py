"""How many events are pending in a namespace, as far as this process knows.

The Delay Server is asked at most once a second; what this process adds meanwhile is
counted on top.
"""

import time
from collections.abc import Callable
from typing import Final

from halfpast_api.access.owned_topics import OwnedTopics
from halfpast_api.problems import Refusal, refusal_of
from halfpast_chronos.delay_server import DelayServer
from halfpast_chronos.release_calls import AskTopics

_KNOWN_S: Final = 1.0


class PendingCount:
    """The count of one namespace."""

    def __init__(
        self,
        delay: DelayServer,
        owned: OwnedTopics,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._delay = delay
        self._owned = owned
        self._monotonic_s = monotonic_s
        self._count = 0
        self._at_s = -_KNOWN_S

    async def count(self) -> int:
        """How many there are. Raises what the services raise."""
        now_s = self._monotonic_s()
        if now_s - self._at_s >= _KNOWN_S:
            ids = await self._owned.ids()
            answer = await self._delay.pending_counts(AskTopics(ids))
            self._count, self._at_s = sum(answer.counts), now_s
        return self._count

    async def room(self, max_pending: int) -> int:
        """How many more may come; 0 or less if none."""
        return max_pending - await self.count()

    def add(self, count: int) -> None:
        """So many more are scheduled."""
        self._count += count

    def refusal(self, max_pending: int) -> Refusal:
        """What to say of one that is too many."""
        return refusal_of(
            "too_many_pending",
            f"the namespace has {self._count} pending events, and its max_pending is "
            f"{max_pending}",
        )
