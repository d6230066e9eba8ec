"""Topics by name and by id, made when they are wanted: calls of the broker."""

import asyncio
from collections.abc import Awaitable, Callable

from .broker import (
    Append,
    Appended,
    EnsureTopic,
    Lane,
    ResolvedTopics,
    ResolveTopics,
    Run,
    TopicInfo,
    TopicNames,
)
from .registry import Registry
from .topics import SYS_TOPICS


class TopicCalls:
    """Two who want the same new topic at a time share its making."""

    def __init__(
        self,
        registry: Registry,
        append: Callable[[Append], Awaitable[Appended]],
        topic: Callable[[str], TopicInfo],
        now_ms: Callable[[], int],
    ) -> None:
        """`topic` finds one by name, and raises UnknownTopic."""
        self._registry = registry
        self._append = append
        self._topic = topic
        self._now_ms = now_ms
        self._creating: dict[str, asyncio.Future[None]] = {}

    async def resolve(self, request: ResolveTopics) -> ResolvedTopics:
        found: list[TopicInfo | None] = []
        for name in request.names:
            info = self._registry.topic(name)
            if info is None and request.create:
                info = await self.ensure(EnsureTopic(name, request.queue_count))
            found.append(info)
        return ResolvedTopics(found)

    async def by_id(self, request: TopicNames) -> ResolvedTopics:
        return ResolvedTopics([self._registry.topic_by_id(i) for i in request.ids])

    async def ensure(self, request: EnsureTopic) -> TopicInfo:
        name = request.name
        while (pending := self._creating.get(name)) is not None:
            await asyncio.wait([pending])
        now_ms = self._now_ms()
        record = self._registry.draft_topic(name, request.queue_count, now_ms)
        if record is not None:
            loop = asyncio.get_running_loop()
            created = self._creating[name] = loop.create_future()
            try:
                await self._append(Append([Run(SYS_TOPICS, 0, [record])], Lane.SYSTEM))
            finally:
                del self._creating[name]
                created.set_result(None)
        return self._topic(name)
