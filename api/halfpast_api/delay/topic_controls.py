"""Where the Delay Server learns what topics may release: out of the cache."""

from typing import Protocol

from halfpast_api.metadata.settings import TopicSettings
from halfpast_chronos.topic_controls import CLOSED, TopicControl


class TopicCache(Protocol):
    """What is needed of a `MetadataCache`."""

    @property
    def revision(self) -> int: ...

    def topic_settings(self, name: str) -> TopicSettings: ...

    async def refresh(self) -> bool: ...


class CachedTopicControls:
    """The `TopicControls` of the Delay Server."""

    def __init__(self, cache: TopicCache) -> None:
        self._cache = cache

    @property
    def revision(self) -> int:
        return self._cache.revision

    async def refresh(self) -> None:
        await self._cache.refresh()

    def topic_control(self, name: str) -> TopicControl:
        settings = self._cache.topic_settings(name)
        return TopicControl(
            is_paused=settings.paused,
            closed="" if settings.accepting else CLOSED,
            release_rate_per_s=settings.release_rate_per_s,
            body_size_max=settings.max_body_bytes,
        )
