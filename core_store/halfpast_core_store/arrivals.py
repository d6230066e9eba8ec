"""Waking those who wait for something to arrive: long polls and followers.

A frame wakes every waiter of a topic once, however many messages it brings, and
costs nothing for topics that nobody waits for.
"""

import asyncio
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from .topics import USER_TOPIC_ID_MIN, family_of_topic

Waiter: TypeAlias = "asyncio.Future[bool]"


class Arrivals:
    """Waiters by topic, and by family of system records."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._topics: dict[int, set[Waiter]] = {}
        self._families: dict[Waiter, int] = {}
        self._closed = False

    def arrived(self, topic_ids: Sequence[int]) -> None:
        """Something became durable in these topics."""
        families = 0
        for topic_id in topic_ids:
            if topic_id < USER_TOPIC_ID_MIN:
                families |= family_of_topic(topic_id)
            elif topic_id in self._topics:
                finish(self._topics[topic_id], True)
        if families and self._families:
            wanted = [w for w, some in self._families.items() if some & families]
            finish(wanted, True)

    async def wait(self, topic_id: int, timeout_s: float) -> bool:
        """Wait for the topic; False when time is up or the broker closes."""
        if self._closed:
            return False
        waiter: Waiter = self._loop.create_future()
        waiters = self._topics.setdefault(topic_id, set())
        waiters.add(waiter)
        try:
            return await self._wait(waiter, timeout_s)
        finally:
            waiters.discard(waiter)
            if not waiters and self._topics.get(topic_id) is waiters:
                del self._topics[topic_id]

    async def wait_family(self, families: int, timeout_s: float) -> bool:
        """Wait for records of these families; False as for `wait`."""
        if self._closed:
            return False
        waiter: Waiter = self._loop.create_future()
        self._families[waiter] = families
        try:
            return await self._wait(waiter, timeout_s)
        finally:
            del self._families[waiter]

    async def _wait(self, waiter: Waiter, timeout_s: float) -> bool:
        alarm = self._loop.call_later(timeout_s, finish, [waiter], False)
        try:
            return await waiter
        finally:
            alarm.cancel()

    def close(self) -> None:
        """Send everybody home."""
        self._closed = True
        for waiters in list(self._topics.values()):
            finish(waiters, False)
        finish(self._families, False)


def finish(waiters: Iterable[Waiter], arrived: bool) -> None:
    """Let these go on."""
    for waiter in waiters:
        if not waiter.done():
            waiter.set_result(arrived)
