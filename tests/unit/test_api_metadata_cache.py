"""The cache on a scripted store: fresh, stale, from a snapshot, never failing."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from halfpast_api.metadata import snapshot
from halfpast_api.metadata.cache import CacheConfig, MetadataCache
from halfpast_api.metadata.entry import Changes
from halfpast_api.metadata.errors import MetadataUnavailable
from halfpast_api.metadata.settings import (
    GroupSettings,
    ProducerGroupSettings,
    TopicSettings,
)
from halfpast_api.metadata.snapshot import Snapshot

NINE = TopicSettings(queues=9)
TEN = TopicSettings(queues=10)


class ScriptedStore:
    """Answers each `changes` with the next of `answers`; an error is raised."""

    source = "scripted:"

    def __init__(self, *answers: Changes | Exception) -> None:
        self.answers = list(answers)
        self.asked: list[int | None] = []
        self.watchers: list[Callable[[Changes], None]] = []

    async def changes(self, since: int | None = None) -> Changes:
        self.asked.append(since)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def watch(self, watcher: Callable[[Changes], None]) -> None:
        self.watchers.append(watcher)


class Clock:
    now = 1000

    def now_ms(self) -> int:
        return self.now


def _full(version: int, **topics: TopicSettings) -> Changes:
    return Changes(version=version, is_full=True, topics=topics)


AWAY = MetadataUnavailable("refused")


@pytest.mark.asyncio
async def test_names_that_nobody_administered_have_the_defaults() -> None:
    store = ScriptedStore(_full(3, orders=NINE))
    config = CacheConfig(topic_defaults=TEN, group_defaults=GroupSettings())
    cache = MetadataCache(store, config)
    assert cache.topic_settings("orders") == TEN  # before it was ever read
    assert await cache.refresh()
    assert cache.topic_settings("orders") == NINE
    assert cache.topic_settings("others") == TEN
    assert cache.group_settings("billing") == GroupSettings()
    assert not cache.limits()


@pytest.mark.asyncio
async def test_only_what_changed_is_asked_for() -> None:
    store = ScriptedStore(
        _full(3, a=NINE, b=NINE),
        Changes(version=5, topics={"b": None, "c": TEN}),
        Changes(version=5),
        _full(2, z=NINE),
        Changes(version=2),
    )
    cache = MetadataCache(store)
    for _ in range(3):
        await cache.refresh()
    assert cache.topic_settings("a") == NINE
    assert cache.topic_settings("b") == TopicSettings()
    assert cache.topic_settings("c") == TEN
    for _ in range(2):
        await cache.refresh()
    assert cache.topic_settings("a") == TopicSettings()
    assert cache.topic_settings("z") == NINE
    assert store.asked == [None, 3, 5, 5, 2]


@pytest.mark.asyncio
async def test_limits_come_and_go() -> None:
    two = {("all", "a"): 1, ("all", "b"): 2}
    store = ScriptedStore(
        Changes(version=1, is_full=True, limits=two),
        Changes(version=2, limits={("all", "a"): None, ("t", "a"): 0}),
    )
    cache = MetadataCache(store)
    await cache.refresh()
    assert cache.limits() == {"all": {"a": 1, "b": 2}}
    await cache.refresh()
    assert cache.limits() == {"all": {"b": 2}, "t": {"a": 0}}


@pytest.mark.asyncio
async def test_producer_groups_come_and_go(tmp_path: Path) -> None:
    path = tmp_path / "snapshot.json"
    ten = ProducerGroupSettings(check_max=10, check_secrets=("whsec_a",))
    both = {"shop": ten, "bank": ProducerGroupSettings()}
    store = ScriptedStore(
        Changes(version=1, is_full=True, producer_groups=both),
        Changes(version=2, producer_groups={"bank": None, "gone": ten}),
        Changes(version=1, is_full=True, producer_groups={"shop": ten}),
        AWAY,
    )
    config = CacheConfig(snapshot_path=path)
    cache = MetadataCache(store, config)
    assert not cache.has_producer_group("shop")
    assert cache.producer_group_settings("shop") == ProducerGroupSettings()
    await cache.refresh()
    assert cache.has_producer_group("bank")  # defaults, but somebody has given them
    assert cache.producer_group_settings("shop") == ten
    assert Changes(version=2, producer_groups={"bank": None})  # is not nothing
    await cache.refresh()
    assert not cache.has_producer_group("bank")
    assert cache.producer_group_settings("shop") == ten
    assert cache.has_producer_group("gone")
    await cache.refresh()  # of a database that was restored
    assert not cache.has_producer_group("gone")
    assert cache.has_producer_group("shop")
    await cache.stop()

    again = MetadataCache(store, config)
    await again.start()
    assert again.status.origin == "snapshot"
    assert again.producer_group_settings("shop") == ten
    assert not again.has_producer_group("bank")
    await again.stop()


@pytest.mark.asyncio
async def test_an_absent_database_is_told_and_its_settings_kept() -> None:
    clock = Clock()
    store = ScriptedStore(_full(3, a=NINE), AWAY, ValueError("a bug"), _full(3, a=NINE))
    cache = MetadataCache(store, now_ms=clock.now_ms)
    assert cache.stale_since_ms == 1000
    clock.now = 2000
    assert await cache.refresh()
    assert cache.stale_since_ms is None
    for clock.now in (3000, 4000):
        assert not await cache.refresh()
        assert cache.stale_since_ms == 2000
        assert cache.topic_settings("a") == NINE
        assert cache.status.origin == "database"
    assert cache.status.reason == "a bug"
    clock.now = 5000
    assert await cache.refresh()
    assert cache.stale_since_ms is None
    assert cache.status.reason == ""
    assert store.asked == [None, 3, None, None]  # all anew after an absence


@pytest.mark.asyncio
async def test_own_writes_are_seen_even_while_it_is_away() -> None:
    store = ScriptedStore(AWAY)
    cache = MetadataCache(store)
    await cache.refresh()
    [watcher] = store.watchers
    watcher(Changes(version=9, topics={"a": NINE}))
    assert cache.topic_settings("a") == NINE
    assert cache.stale_since_ms is not None


@pytest.mark.asyncio
async def test_a_start_without_the_database_takes_the_snapshot(tmp_path: Path) -> None:
    path = tmp_path / "snapshot.json"
    snapshot.save(path, _snapshot(a=NINE))
    cache = MetadataCache(ScriptedStore(AWAY), CacheConfig(snapshot_path=path))
    await cache.start()
    assert cache.topic_settings("a") == NINE
    assert cache.status.origin == "snapshot"
    assert cache.status.version == 7
    assert cache.stale_since_ms == 777
    assert "refused" in cache.status.reason
    await cache.stop()
    assert snapshot.load(path, "scripted:") == _snapshot(a=NINE)


@pytest.mark.asyncio
async def test_a_start_with_the_database_does_not(tmp_path: Path) -> None:
    path = tmp_path / "snapshot.json"
    snapshot.save(path, _snapshot(a=NINE, b=NINE))
    store = ScriptedStore(_full(8, a=TEN))
    cache = MetadataCache(store, CacheConfig(snapshot_path=path))
    await cache.start()
    assert cache.topic_settings("a") == TEN
    assert cache.topic_settings("b") == TopicSettings()
    await cache.stop()
    saved = snapshot.load(path, "scripted:")
    assert saved is not None
    assert (saved.version, saved.topics) == (8, {"a": TEN})


@pytest.mark.parametrize("content", [b"", b"{", b"null", b"\xff" * 100])
@pytest.mark.asyncio
async def test_a_broken_snapshot_is_as_good_as_none(
    tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "snapshot.json"
    path.write_bytes(content)
    cache = MetadataCache(ScriptedStore(AWAY), CacheConfig(snapshot_path=path))
    await cache.start()
    assert cache.status.origin == "defaults"
    assert cache.topic_settings("a") == TopicSettings()
    await cache.stop()
    assert path.read_bytes() == content  # defaults never replace it


@pytest.mark.asyncio
async def test_the_task_refreshes_and_saves_what_changed(tmp_path: Path) -> None:
    path = tmp_path / "snapshot.json"
    later = [Changes(version=2, topics={"a": TEN})]
    store = ScriptedStore(_full(1, a=NINE), *later)
    clock = Clock()
    config = CacheConfig(refresh_s=0, snapshot_path=path, snapshot_gap_s=10)
    cache = MetadataCache(store, config, now_ms=clock.now_ms)
    await cache.start()
    while store.answers:  # noqa: ASYNC110 - the task says nothing when it is done
        await asyncio.sleep(0)
    assert cache.topic_settings("a") == TEN
    await cache.stop()  # the gap is not over, but the end is the end
    saved = snapshot.load(path, "scripted:")
    assert saved is not None
    assert saved.topics == {"a": TEN}


@pytest.mark.asyncio
async def test_an_unwritable_snapshot_stops_nothing(tmp_path: Path) -> None:
    config = CacheConfig(snapshot_path=tmp_path / "nowhere" / "snapshot.json")
    cache = MetadataCache(ScriptedStore(_full(1, a=NINE)), config)
    await cache.start()
    await cache.stop()
    assert cache.topic_settings("a") == NINE


def _snapshot(**topics: TopicSettings) -> Snapshot:
    return Snapshot(
        source="scripted:",
        version=7,
        read_at_ms=777,
        topics=topics,
        groups={},
        limits={},
    )
