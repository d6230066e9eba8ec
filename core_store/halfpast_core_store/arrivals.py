"""Waking those who wait for something to arrive: long polls and followers.

Whoever reads a queue at an offset of its own is woken by every frame that brings
something for the topic. Of a consumer group only one waiter is woken, since it may
well take all there is; if it gets something, it wakes the next. A frame wakes once,
however many messages it brings, and costs nothing for topics that nobody waits for.
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from .topics import USER_TOPIC_ID_MIN, family_of_topic

Waiter: TypeAlias = "asyncio.Future[bool]"
EVERYBODY = ""  # the group of those who belong to none


@dataclass(slots=True)
class Wanted:
    """Families of system records that somebody waits for. What is in `own_topic` alone
    wakes him only `own_wait_ms` later: he knows what he has written himself."""

    families: int
    own_topic: int = 0
    own_wait_ms: int = 0
    alarm: asyncio.TimerHandle | None = None


class Arrivals:
    """Waiters by topic and group, and by family of system records."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._topics: dict[int, dict[str, dict[Waiter, None]]] = {}
        self._families: dict[Waiter, Wanted] = {}
        self._closed = False

    def arrived(self, topic_ids: Sequence[int]) -> None:
        """Something became durable in these topics, or can be taken again."""
        for topic_id in topic_ids:
            if topic_id < USER_TOPIC_ID_MIN:
                self._arrived_of_system(topic_id)
            elif topic_id in self._topics:
                for group, waiters in self._topics[topic_id].items():
                    wake(waiters, all_of_them=group == EVERYBODY)

    def _arrived_of_system(self, topic_id: int) -> None:
        family = family_of_topic(topic_id)
        for waiter, wanted in self._families.items():
            if not wanted.families & family:
                continue
            if topic_id != wanted.own_topic:
                finish([waiter], True)
            elif wanted.alarm is None:
                wait_s = wanted.own_wait_ms / 1000
                wanted.alarm = self._loop.call_later(wait_s, finish, [waiter], True)

    def pass_on(self, topic_id: int, group: str) -> None:
        """Whoever was woken got something, or cannot take it: wake the next."""
        waiters = self._topics.get(topic_id, {}).get(group)
        if waiters:
            wake(waiters, all_of_them=False)

    async def wait(
        self, topic_id: int, timeout_s: float, group: str = EVERYBODY
    ) -> bool:
        """Wait for the topic; False when time is up or the broker closes."""
        if self._closed:
            return False
        waiter: Waiter = self._loop.create_future()
        groups = self._topics.setdefault(topic_id, {})
        waiters = groups.setdefault(group, {})
        waiters[waiter] = None
        try:
            return await self._wait(waiter, timeout_s)
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled() and waiter.result():
                self.pass_on(topic_id, group)
            raise
        finally:
            del waiters[waiter]
            if not waiters and groups.get(group) is waiters:
                del groups[group]
                if not groups and self._topics.get(topic_id) is groups:
                    del self._topics[topic_id]

    async def wait_family(self, wanted: "Wanted", timeout_s: float) -> bool:
        """Wait for records of some families; False as for `wait`."""
        if self._closed:
            return False
        waiter: Waiter = self._loop.create_future()
        self._families[waiter] = wanted
        try:
            return await self._wait(waiter, timeout_s)
        finally:
            del self._families[waiter]
            if wanted.alarm is not None:
                wanted.alarm.cancel()

    async def _wait(self, waiter: Waiter, timeout_s: float) -> bool:
        alarm = self._loop.call_later(timeout_s, finish, [waiter], False)
        try:
            return await waiter
        finally:
            alarm.cancel()

    def close(self) -> None:
        """Send everybody home."""
        self._closed = True
        for groups in self._topics.values():
            for waiters in groups.values():
                finish(waiters, False)
        finish(self._families, False)


def wake(waiters: Iterable[Waiter], *, all_of_them: bool) -> None:
    """Wake the one who has waited longest and was not woken yet, or everybody."""
    for waiter in waiters:
        if not waiter.done():
            waiter.set_result(True)
            if not all_of_them:
                return


def finish(waiters: Iterable[Waiter], arrived: bool) -> None:
    """Let these go on."""
    for waiter in waiters:
        if not waiter.done():
            waiter.set_result(arrived)
