"""Topics are asked for once, and anew when what is known of them is old."""

import pytest

from halfpast_api.config import ApiConfig
from halfpast_api.metadata.settings import GroupSettings, TopicSettings
from halfpast_api.problems import Refusal
from halfpast_api.topic_directory import TopicDirectory
from halfpast_core_store.broker import (
    Broker,
    ResolvedTopics,
    ResolveTopics,
    TopicInfo,
    TopicNames,
)
from halfpast_core_store.errors import UnknownTopic

pytestmark = pytest.mark.asyncio


class Topics:
    """As much of a broker as a directory needs."""

    def __init__(self) -> None:
        self.topics: dict[str, TopicInfo] = {}
        self.calls: list[ResolveTopics | TopicNames] = []

    async def resolve_topics(self, request: ResolveTopics) -> ResolvedTopics:
        self.calls.append(request)
        for name in request.names:
            if request.create and name not in self.topics:
                number = 1024 + len(self.topics)
                self.topics[name] = TopicInfo(number, name, request.queue_count)
        return ResolvedTopics([self.topics.get(name) for name in request.names])

    async def topics_by_id(self, request: TopicNames) -> ResolvedTopics:
        self.calls.append(request)
        by_id = {info.id: info for info in self.topics.values()}
        return ResolvedTopics([by_id.get(number) for number in request.ids])


class Settings:
    """Settings of two topics."""

    def topic_settings(self, name: str) -> TopicSettings:
        if name == "wide":
            return TopicSettings(queues=16, flush="async", max_delay_ms=5)
        return TopicSettings()

    def group_settings(self, name: str) -> GroupSettings:
        return GroupSettings()


class Clock:
    now_s = 100.0


class World:
    """A directory, the broker behind it, and the clock."""

    def __init__(self, *, auto_create: bool = True) -> None:
        self.broker = Topics()
        self.clock = Clock()
        broker: Broker = self.broker  # type: ignore[assignment]
        config = ApiConfig(auto_create_topics=auto_create, topic_cache_s=5)
        self.directory = TopicDirectory(
            broker, Settings(), config, lambda: self.clock.now_s
        )


async def test_a_topic_is_asked_for_once() -> None:
    world = World()
    first = await world.directory.to_write("orders")
    assert await world.directory.to_write("orders") is first
    assert len(world.broker.calls) == 1


async def test_old_knowledge_is_renewed_and_the_turn_goes_on() -> None:
    world = World()
    first = await world.directory.to_write("orders")
    first.next_queue()
    world.broker.topics["orders"] = TopicInfo(1024, "orders", 8)
    world.clock.now_s += 5.1
    second = await world.directory.to_write("orders")
    assert (second.queue_count, second.turn) == (8, 1)


async def test_settings_apply() -> None:
    topic = await World().directory.to_write("wide")
    assert (topic.queue_count, topic.is_durable, topic.max_delay_ms) == (16, False, 5)


async def test_topics_with_other_numbers_of_queues_are_created_apart() -> None:
    world = World()
    found, wrong = await world.directory.all_to_write(["a", "wide", "b"])
    assert {name: it.queue_count for name, it in found.items()} == {
        "a": 4,
        "b": 4,
        "wide": 16,
    }
    assert wrong == {}
    assert len(world.broker.calls) == 2


async def test_bad_names_are_told_beside_good_ones() -> None:
    found, wrong = await World().directory.all_to_write(["a", "a/b", "SYS_x"])
    assert list(found) == ["a"]
    assert set(wrong) == {"a/b", "SYS_x"}


async def test_an_unknown_topic_is_not_created_unless_allowed() -> None:
    world = World(auto_create=False)
    with pytest.raises(UnknownTopic):
        await world.directory.to_write("orders")
    with pytest.raises(UnknownTopic):
        await world.directory.to_read("orders")
    _, wrong = await world.directory.all_to_write(["orders"])
    assert isinstance(wrong["orders"], UnknownTopic)


async def test_a_bad_name_never_reaches_the_broker() -> None:
    world = World()
    for look_up in (world.directory.to_write, world.directory.to_read):
        for name in ("", "a/b", "SYS_SCHEDULE", "é"):
            with pytest.raises(Refusal):
                await look_up(name)
    assert world.broker.calls == []


async def test_consuming_dead_letters_creates_nothing() -> None:
    world = World()
    await world.directory.to_read("%DLQ%g")
    assert world.broker.topics == {}


async def test_names_are_found_by_id_and_kept() -> None:
    world = World()
    topic = await world.directory.to_write("orders")
    assert await world.directory.name_of(topic.id) == "orders"
    assert await world.directory.name_of(9999) == ""
    assert await world.directory.id_of("orders") == topic.id
    with pytest.raises(UnknownTopic):
        await world.directory.id_of("nosuch")
