"""The database goes away: the cache serves on, administration says 503, all heals."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import psycopg
import pytest
import pytest_asyncio
from sqlalchemy import text
from tests.integration.postgres_server import PostgresServer

from halfpast_api.limits.caller_limits import CallerLimits
from halfpast_api.limits.limit_store import LimitStore
from halfpast_api.limits.subject import parse_subject
from halfpast_api.metadata.cache import CacheConfig, MetadataCache
from halfpast_api.metadata.database import migration_engine, parse_url
from halfpast_api.metadata.errors import MetadataUnavailable
from halfpast_api.metadata.migrate import migrate
from halfpast_api.metadata.settings import GroupSettings, TopicSettings
from halfpast_api.metadata.store import MetadataStore, StoreConfig

pytest_plugins = [
    "tests.integration.next_release",
    "tests.integration.postgres_server",
]

SETTINGS = TopicSettings(queues=9)


@pytest.fixture
def config(tmp_path: Path) -> CacheConfig:
    return CacheConfig(refresh_s=0.02, snapshot_path=tmp_path / "snapshot.json")


@pytest_asyncio.fixture
async def store(postgres: PostgresServer) -> AsyncIterator[MetadataStore]:
    store = await MetadataStore.open(
        postgres.new_database(), config=StoreConfig(call_timeout_s=0.3)
    )
    yield store
    await store.close()


@pytest_asyncio.fixture
async def cache(
    store: MetadataStore, config: CacheConfig
) -> AsyncIterator[MetadataCache]:
    cache = MetadataCache(store, config)
    await cache.start()
    yield cache
    await cache.stop()


@pytest.mark.postgres
@pytest.mark.asyncio
async def test_the_server_stops_and_starts_again(
    postgres: PostgresServer, store: MetadataStore, cache: MetadataCache
) -> None:
    await store.put_topic("orders", SETTINGS)
    before_ms = time.time_ns() // 1_000_000
    postgres.stop()
    await _until(lambda: cache.stale_since_ms is not None)
    assert cache.stale_since_ms is not None
    assert 0 <= cache.stale_since_ms - before_ms + 60_000 <= 70_000
    assert cache.topic_settings("orders") == SETTINGS
    assert cache.topic_settings("others") == TopicSettings()
    assert cache.status.origin == "database"
    with pytest.raises(MetadataUnavailable):
        await store.put_topic("orders", TopicSettings())
    with pytest.raises(MetadataUnavailable):
        await store.topic("orders")
    assert cache.topic_settings("orders") == SETTINGS

    postgres.start()
    await _until(lambda: cache.stale_since_ms is None)
    await store.put_topic("orders", TopicSettings(queues=10))
    assert cache.topic_settings("orders") == TopicSettings(queues=10)


@pytest.mark.postgres
@pytest.mark.asyncio
async def test_a_restart_between_two_calls_is_not_noticed(
    postgres: PostgresServer, store: MetadataStore
) -> None:
    await store.put_topic("orders", SETTINGS)
    postgres.stop()
    postgres.start()
    entry = await store.topic("orders")
    assert entry is not None
    assert entry.settings == SETTINGS


@pytest.mark.postgres
@pytest.mark.asyncio
async def test_a_server_that_hangs_is_given_up_in_time(
    postgres: PostgresServer, store: MetadataStore, cache: MetadataCache
) -> None:
    await store.put_topic("orders", SETTINGS)
    postgres.freeze()
    try:
        began = time.monotonic()
        with pytest.raises(MetadataUnavailable, match="no answer within"):
            await store.put_group("billing", GroupSettings())
        assert time.monotonic() - began < 2
        await _until(lambda: cache.stale_since_ms is not None)
        assert cache.topic_settings("orders") == SETTINGS
    finally:
        postgres.thaw()
    await _until(lambda: cache.stale_since_ms is None)
    await store.put_group("billing", GroupSettings(max_attempts=2))
    assert cache.group_settings("billing").max_attempts == 2


@pytest.mark.postgres
@pytest.mark.asyncio
async def test_a_store_closes_while_its_server_hangs(postgres: PostgresServer) -> None:
    others = _worker_threads()
    store = await MetadataStore.open(
        postgres.new_database(), config=StoreConfig(call_timeout_s=0.3)
    )
    await store.topics()
    postgres.freeze()
    try:
        waiting = asyncio.create_task(store.topics())
        await asyncio.sleep(0.05)
        began = time.monotonic()
        await store.close()
        assert time.monotonic() - began < 2
        with pytest.raises(MetadataUnavailable):
            await waiting
        await _until(lambda: not (_worker_threads() - others))
    finally:
        postgres.thaw()


@pytest.mark.postgres
@pytest.mark.asyncio
async def test_a_restart_without_the_database_serves_the_snapshot(
    postgres: PostgresServer, config: CacheConfig
) -> None:
    url = postgres.new_database()
    first = await MetadataStore.open(url)
    cache = MetadataCache(first, config)
    await cache.start()
    await first.put_topic("orders", SETTINGS)
    await LimitStore(first).put(
        parse_subject("every-key"), CallerLimits(requests_per_s=7)
    )
    await cache.stop()
    await first.close()
    postgres.stop()

    second = await MetadataStore.open(url)
    cache = MetadataCache(second, config)
    await cache.start()
    assert cache.status.origin == "snapshot"
    assert cache.stale_since_ms is not None
    assert cache.topic_settings("orders") == SETTINGS
    assert cache.limits() == {"every-key": {"requests_per_s": 7}}
    with pytest.raises(MetadataUnavailable):
        await second.topics()

    postgres.start()
    await _until(lambda: cache.status.origin == "database")
    assert cache.stale_since_ms is None
    assert cache.topic_settings("orders") == SETTINGS
    await cache.stop()
    await second.close()


@pytest.mark.postgres
@pytest.mark.asyncio
async def test_a_first_start_without_the_database_upgrades_it_later(
    postgres: PostgresServer, config: CacheConfig
) -> None:
    url = postgres.new_database()
    postgres.stop()
    store = await MetadataStore.open(url)
    cache = MetadataCache(store, config)
    await cache.start()
    assert cache.status.origin == "defaults"
    assert cache.topic_settings("orders") == TopicSettings()

    postgres.start()
    await _until(lambda: cache.stale_since_ms is None)
    await store.put_topic("orders", SETTINGS)
    assert cache.topic_settings("orders") == SETTINGS
    await cache.stop()
    await store.close()


@pytest.mark.postgres
@pytest.mark.asyncio
async def test_a_database_that_comes_back_newer_is_left_alone(
    postgres: PostgresServer, config: CacheConfig, next_scripts: Path
) -> None:
    url = postgres.new_database()
    postgres.stop()
    store = await MetadataStore.open(url)
    cache = MetadataCache(store, config)
    await cache.start()
    postgres.start()
    migrate(url, scripts=next_scripts)
    with pytest.raises(MetadataUnavailable, match="newer release"):
        await store.topics()
    await _until(lambda: "newer release" in cache.status.reason)
    assert cache.topic_settings("orders") == TopicSettings()
    await cache.stop()
    await store.close()


@pytest.mark.postgres
@pytest.mark.asyncio
async def test_a_lock_held_by_others_ends_a_write_not_the_reads(
    postgres: PostgresServer,
) -> None:
    url = postgres.new_database()
    store = await MetadataStore.open(url, config=StoreConfig(statement_timeout_s=0.2))
    with psycopg.connect(url) as other:
        other.execute("SELECT version FROM halfpast_changes FOR UPDATE")
        with pytest.raises(MetadataUnavailable, match="statement timeout"):
            await store.put_topic("orders", SETTINGS)
        assert await store.topic("orders") is None
    await store.put_topic("orders", SETTINGS)
    await store.close()


@pytest.mark.asyncio
async def test_an_sqlite_file_goes_and_comes_back(
    tmp_path: Path, config: CacheConfig
) -> None:
    path = tmp_path / "metadata.sqlite"
    store = await MetadataStore.open(f"sqlite:///{path}")
    cache = MetadataCache(store, config)
    await cache.start()
    await store.put_topic("orders", SETTINGS)

    away = path.rename(tmp_path / "away.sqlite")
    with pytest.raises(MetadataUnavailable, match="unable to open"):
        await store.put_topic("orders", TopicSettings())
    assert not path.exists()
    await _until(lambda: cache.stale_since_ms is not None)
    assert cache.topic_settings("orders") == SETTINGS

    away.rename(path)
    await _until(lambda: cache.stale_since_ms is None)
    entry = await store.topic("orders")
    assert entry is not None
    assert entry.settings == SETTINGS
    await cache.stop()
    await store.close()


@pytest.mark.asyncio
async def test_a_restored_database_is_read_anew(
    database_url: str, config: CacheConfig
) -> None:
    """A backup is behind what was already seen, which must be forgotten."""
    store = await MetadataStore.open(database_url)
    cache = MetadataCache(store, config)
    await cache.start()
    for name in ("old", "new", "newest"):
        await store.put_topic(name, SETTINGS)
    await _until(lambda: cache.status.version == 3)

    with migration_engine(parse_url(database_url)).begin() as connection:
        connection.execute(text("DELETE FROM halfpast_topics WHERE version > 1"))
        connection.execute(text("UPDATE halfpast_changes SET version = 1"))
    await _until(lambda: cache.topic_settings("newest") == TopicSettings())
    assert cache.topic_settings("old") == SETTINGS
    assert cache.status.version == 1
    await cache.stop()
    await store.close()


@pytest.mark.asyncio
async def test_a_damaged_sqlite_file_is_an_absent_database(
    tmp_path: Path, config: CacheConfig
) -> None:
    path = tmp_path / "metadata.sqlite"
    path.write_bytes(b"this is no database at all" * 100)
    store = await MetadataStore.open(f"sqlite:///{path}")
    cache = MetadataCache(store, config)
    await cache.start()
    assert cache.topic_settings("orders") == TopicSettings()
    assert "not a database" in cache.status.reason
    with pytest.raises(MetadataUnavailable, match="not a database"):
        await store.topics()
    await cache.stop()
    await store.close()


def _worker_threads() -> set[threading.Thread]:
    return {it for it in threading.enumerate() if it.name.startswith("metadata")}


async def _until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not holds():  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0.01)
