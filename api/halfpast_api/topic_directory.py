"""Topics by name and by id, kept for a few seconds so that most requests ask nobody.

What a topic is in the log (its id, its queues) comes from the broker, what is
administered from the metadata cache. Both may change in another process, so what
is known of a topic is asked for anew when it is older than `config.topic_cache_s`.
"""

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Final, Protocol

from halfpast_api.config import ApiConfig
from halfpast_api.metadata.settings import GroupSettings, TopicSettings
from halfpast_api.names import check_topic_to_read, check_topic_to_write
from halfpast_api.problems import Refusal
from halfpast_core_store.broker import Broker, ResolveTopics, TopicInfo, TopicNames
from halfpast_core_store.errors import UnknownTopic

_SIZE_MAX: Final = 10_000


class Settings(Protocol):
    """Settings in memory: what the API needs of a `MetadataCache`."""

    def topic_settings(self, name: str) -> TopicSettings: ...

    def group_settings(self, name: str) -> GroupSettings: ...


@dataclass(slots=True)
class Topic:
    """A topic that may be published to. `turn` spreads requests over its queues."""

    name: str
    id: int
    queue_count: int
    max_delay_ms: int
    max_body_bytes: int
    is_durable: bool
    stale_at_s: float
    turn: int = 0
    is_accepting: bool = True
    max_pending: int = 0

    def next_queue(self) -> int:
        """The queue for the messages without a key of one request."""
        self.turn += 1
        return self.turn % self.queue_count

    def bounded(self, max_delay_ms: int) -> "Topic":
        """The same for a caller who may not schedule as far ahead as others."""
        self.turn += 1  # those copies take turns too
        return replace(self, max_delay_ms=max_delay_ms)


class TopicDirectory:
    """Look-ups of topics; `to_write` is the one that every publish makes."""

    def __init__(
        self,
        broker: Broker,
        settings: Settings,
        config: ApiConfig,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._broker = broker
        self._settings = settings
        self._config = config
        self._monotonic_s = monotonic_s
        self._topics: dict[str, Topic] = {}
        self._names: dict[int, str] = {}

    def known(self, name: str) -> Topic | None:
        """The topic, if it can be told without asking anybody."""
        topic = self._topics.get(name)
        if topic is None or topic.stale_at_s < self._monotonic_s():
            return None
        return topic

    async def to_write(self, name: str) -> Topic:
        """A topic to publish to, created where the configuration allows that.

        Raises Refusal for a name or topic that users may not publish to,
        UnknownTopic.
        """
        topic = self.known(name)
        if topic is None:
            topic = (await self._resolve([name]))[name]
        if not topic.is_accepting:
            raise _closed(name)
        return topic

    async def all_to_write(
        self, names: Collection[str]
    ) -> tuple[Mapping[str, Topic], Mapping[str, Exception]]:
        """The same for many names; what is wrong with a name is given, not raised."""
        now_s = self._monotonic_s()
        topics: dict[str, Topic] = {}
        wrong: dict[str, Exception] = {}
        missing: list[str] = []
        for name in names:
            topic = self._topics.get(name)
            if topic is not None and topic.stale_at_s >= now_s:
                topics[name] = topic
                continue
            try:
                check_topic_to_write(name)
            except Exception as error:
                wrong[name] = error
            else:
                missing.append(name)
        if missing:
            found = await self._ask(missing)
            topics.update(found)
            for name in missing:
                if name not in found:
                    wrong[name] = UnknownTopic(name)
        for name in [name for name, topic in topics.items() if not topic.is_accepting]:
            wrong[name] = _closed(name)
            del topics[name]
        return topics, wrong

    async def to_read(self, name: str) -> None:
        """Make sure that a topic may be consumed and exists; it is created where
        that is allowed, so that a consumer can start before the first publish."""
        if name in self._topics:
            return
        check_topic_to_read(name)
        if not name.startswith("%"):
            await self._resolve([name])

    async def id_of(self, name: str) -> int:
        """The id of a topic that exists. Raises UnknownTopic, Refusal."""
        topic = self._topics.get(name)
        if topic is not None:
            return topic.id
        check_topic_to_read(name)
        answer = await self._broker.resolve_topics(ResolveTopics(names=[name]))
        if answer.topics[0] is None:
            raise UnknownTopic(name)
        return answer.topics[0].id

    async def names_of(self, ids: Collection[int]) -> Mapping[int, str]:
        """Names by id. An id that nobody knows is missing."""
        unknown = [number for number in ids if number not in self._names]
        if unknown:
            answer = await self._broker.topics_by_id(TopicNames(ids=unknown))
            for info in answer.topics:
                if info is not None:
                    self._remember_name(info)
        return self._names

    async def name_of(self, topic_id: int) -> str:
        """One name; empty for an id that nobody knows."""
        return (await self.names_of([topic_id])).get(topic_id, "")

    def forget(self, name: str) -> None:
        """Ask anew at the next look-up: the topic was changed."""
        self._topics.pop(name, None)

    async def _resolve(self, names: list[str]) -> Mapping[str, Topic]:
        for name in names:
            check_topic_to_write(name)
        found = await self._ask(names)
        for name in names:
            if name not in found:
                raise UnknownTopic(name)
        return found

    async def _ask(self, names: list[str]) -> dict[str, Topic]:
        """In one call for all names that are to have equally many queues."""
        by_queues: dict[int, list[str]] = {}
        for name in names:
            queues = self._settings.topic_settings(name).queues
            by_queues.setdefault(queues, []).append(name)
        found: dict[str, Topic] = {}
        for queues, some in by_queues.items():
            answer = await self._broker.resolve_topics(
                ResolveTopics(
                    names=some,
                    create=self._config.auto_create_topics,
                    queue_count=queues,
                )
            )
            for info in answer.topics:
                if info is not None:
                    found[info.name] = self._remember(info)
        return found

    def _remember(self, info: TopicInfo) -> Topic:
        settings = self._settings.topic_settings(info.name)
        if len(self._topics) >= _SIZE_MAX:
            self._topics.clear()
        before = self._topics.get(info.name)
        topic = Topic(
            name=info.name,
            id=info.id,
            queue_count=info.queue_count,
            max_delay_ms=settings.max_delay_ms,
            max_body_bytes=settings.max_body_bytes,
            is_durable=settings.flush == "sync",
            stale_at_s=self._monotonic_s() + self._config.topic_cache_s,
            turn=before.turn if before else 0,
            is_accepting=settings.accepting,
            max_pending=settings.max_pending,
        )
        self._topics[info.name] = topic
        self._remember_name(info)
        return topic

    def _remember_name(self, info: TopicInfo) -> None:
        if len(self._names) >= _SIZE_MAX:
            self._names.clear()
        self._names[info.id] = info.name


def _closed(name: str) -> Refusal:
    return Refusal(
        "topic_closed",
        f"the topic {name!r} takes no events; PATCH /v1/topics/{name} with "
        '{"accepting": true} opens it',
    )
