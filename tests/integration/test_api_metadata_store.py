"""The store on both databases: round trips, versions, pages, changes."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

from halfpast_api.limits.caller_limits import CallerLimits
from halfpast_api.limits.limit_store import LimitStore
from halfpast_api.limits.subject import parse_subject
from halfpast_api.metadata.cache import CacheConfig, MetadataCache
from halfpast_api.metadata.database import Database, migration_engine, parse_url
from halfpast_api.metadata.entry import Changes, Page
from halfpast_api.metadata.errors import (
    InvalidSettings,
    MetadataUnavailable,
    NewerSchema,
    StaleVersion,
)
from halfpast_api.metadata.migrate import migrate
from halfpast_api.metadata.settings import (
    DELAY_MS_MAX,
    LIMIT_VALUE_MAX,
    GroupSettings,
    ProducerGroupSettings,
    TopicSettings,
)
from halfpast_api.metadata.store import MetadataStore

pytest_plugins = [
    "tests.integration.next_release",
    "tests.integration.postgres_server",
]

ALL = parse_subject("every-key")
LARGEST = TopicSettings(
    queues=1024,
    max_delay_ms=DELAY_MS_MAX,
    max_body_bytes=1,
    flush="async",
    description="Aufträge, 注文 \N{PACKAGE} 'quoted' \"twice\" %s :name",
)


SHOP = ProducerGroupSettings(
    check_url="https://shop.example/checks?a=%C3%A4",
    check_secrets=("whsec_bmV3", "whsec_b2xk+/="),
    check_after_ms=604_800_000,
    check_interval_ms=86_400_000,
    check_max=1000,
    check_timeout_ms=30_000,
    check_concurrency_max=100,
    description=LARGEST.description,
)


class StoppedClock:
    def __init__(self) -> None:
        self.now = 1_767_225_600_000

    def now_ms(self) -> int:
        return self.now


@pytest.fixture
def clock() -> StoppedClock:
    return StoppedClock()


@pytest_asyncio.fixture
async def store(database_url: str, clock: StoppedClock) -> AsyncIterator[MetadataStore]:
    store = await MetadataStore.open(database_url, now_ms=clock.now_ms)
    yield store
    await store.close()


@pytest.mark.asyncio
async def test_what_is_put_is_read(store: MetadataStore, clock: StoppedClock) -> None:
    assert await store.topic("orders") is None
    written = await store.put_topic("orders", LARGEST)
    assert written.created
    entry = await store.topic("orders")
    assert entry == written.entry
    assert entry is not None
    assert (entry.name, entry.settings, entry.version) == ("orders", LARGEST, 1)
    assert entry.created_at_ms == entry.updated_at_ms == clock.now

    clock.now += 5
    changed = await store.put_topic("orders", TopicSettings())
    assert not changed.created
    assert changed.entry.version == 2
    assert changed.entry.created_at_ms == clock.now - 5
    assert changed.entry.updated_at_ms == clock.now
    assert await store.topic("orders") == changed.entry


@pytest.mark.asyncio
async def test_groups_and_limits_too(store: MetadataStore) -> None:
    group = GroupSettings(max_attempts=3, invisible_ms=43_200_000)
    assert (await store.put_group("billing", group)).created
    entry = await store.group("billing")
    assert entry is not None
    assert entry.settings == group
    limits, acme = LimitStore(store), parse_subject("namespace:acme")
    largest = CallerLimits(requests_per_s=0.25, max_pending=LIMIT_VALUE_MAX)
    entry_, is_new = await limits.put(acme, largest)
    assert is_new
    assert await limits.get(acme) == entry_
    assert entry_.limits == largest
    assert await limits.get(parse_subject("namespace:other")) is None
    assert await store.topic("billing") is None


@pytest.mark.asyncio
async def test_producer_groups_too(store: MetadataStore, clock: StoppedClock) -> None:
    assert await store.producer_group("shop") is None
    written = await store.put_producer_group("shop", SHOP, expected=0)
    assert written.created
    entry = await store.producer_group("shop")
    assert entry == written.entry
    assert entry is not None
    assert (entry.name, entry.settings, entry.version) == ("shop", SHOP, 1)
    again = await store.put_producer_group("shop", SHOP)
    assert (again.created, again.entry) == (False, entry)
    with pytest.raises(StaleVersion, match="producer group shop is at version 1"):
        await store.put_producer_group("shop", SHOP, expected=7)
    plain = ProducerGroupSettings()  # without secrets, which is not one empty secret
    clock.now += 5
    changed = await store.put_producer_group("shop", plain, expected=1)
    assert changed.entry.settings == plain
    assert await store.producer_group("shop") == changed.entry
    for name in ("a", "b"):
        await store.put_producer_group(name, SHOP)
    first = await store.producer_groups(Page(limit=2))
    assert [entry.name for entry in first.entries] == ["a", "b"]
    second = await store.producer_groups(Page(after=first.next_after))
    assert [entry.settings for entry in second.entries] == [plain]
    assert (await store.groups()).entries == ()


@pytest.mark.asyncio
async def test_a_deleted_producer_group_leaves_no_secret(
    database_url: str, store: MetadataStore
) -> None:
    await store.put_producer_group("shop", SHOP)
    with pytest.raises(StaleVersion):
        await store.delete_producer_group("shop", expected=7)
    assert await store.delete_producer_group("shop", expected=1)
    assert not await store.delete_producer_group("shop")
    assert await store.producer_group("shop") is None
    with migration_engine(parse_url(database_url)).connect() as connection:
        rows = connection.execute(text("SELECT * FROM halfpast_producer_groups"))
        (row,) = rows.mappings()
    assert (row["name"], row["check_secrets"]) == ("shop", "")
    assert not any("whsec" in str(value) for value in row.values())
    assert (await store.put_producer_group("shop", SHOP, expected=0)).created


@pytest.mark.asyncio
async def test_errors_of_sql_tell_no_parameters(
    database_url: str, store: MetadataStore
) -> None:
    """Some are secrets, and what nobody expected is logged."""
    database = Database(parse_url(database_url))
    nameless = text("INSERT INTO halfpast_limits (scope) VALUES (:scope)")
    with (
        pytest.raises(IntegrityError, match="parameters hidden"),
        database.writing() as connection,
    ):
        connection.execute(nameless, {"scope": "hush"})
    database.dispose()


@pytest.mark.asyncio
async def test_a_put_of_the_same_changes_nothing(
    store: MetadataStore, clock: StoppedClock
) -> None:
    first = await store.put_topic("orders", LARGEST)
    clock.now += 5
    again = await store.put_topic("orders", LARGEST)
    assert again.entry == first.entry
    assert not again.created
    assert await store.changes(first.entry.version) == Changes(version=1)


@pytest.mark.asyncio
async def test_a_stale_version_is_refused(store: MetadataStore) -> None:
    with pytest.raises(StaleVersion, match="topic orders does not exist"):
        await store.put_topic("orders", LARGEST, expected=1)
    await store.put_topic("orders", LARGEST, expected=0)
    with pytest.raises(StaleVersion, match="exists already, at version 1"):
        await store.put_topic("orders", TopicSettings(), expected=0)
    await store.put_topic("orders", TopicSettings(), expected=1)
    with pytest.raises(StaleVersion, match="at version 2, not 1") as stale:
        await store.delete_topic("orders", expected=1)
    assert (stale.value.expected, stale.value.actual) == (1, 2)
    assert await store.delete_topic("orders", expected=2)
    assert not await store.delete_topic("orders")
    assert not await store.delete_topic("orders", expected=0)


@pytest.mark.asyncio
async def test_a_version_is_never_used_twice(store: MetadataStore) -> None:
    first = await store.put_group("billing", GroupSettings())
    await store.delete_group("billing")
    assert await store.group("billing") is None
    second = await store.put_group("billing", GroupSettings(), expected=0)
    assert second.created
    assert second.entry.version > first.entry.version
    with pytest.raises(StaleVersion):
        await store.put_group("billing", GroupSettings(), expected=1)


@pytest.mark.asyncio
async def test_of_many_writers_with_one_version_one_wins(
    database_url: str, store: MetadataStore
) -> None:
    """Each has a connection of its own, as processes have."""
    stores = [await MetadataStore.open(database_url) for _ in range(4)]
    first = await store.put_topic("orders", TopicSettings())
    puts = [
        other.put_topic(
            "orders", TopicSettings(queues=10 + number), expected=first.entry.version
        )
        for number, other in enumerate(stores)
    ]
    results = await asyncio.gather(*puts, return_exceptions=True)
    stale = [result for result in results if isinstance(result, StaleVersion)]
    assert len(stale) == len(stores) - 1, results
    for other in stores:
        await other.close()


@pytest.mark.asyncio
async def test_writers_of_different_names_count_in_one_row(
    database_url: str, store: MetadataStore
) -> None:
    stores = [await MetadataStore.open(database_url) for _ in range(4)]
    puts = [
        stores[number % 4].put_topic(f"topic-{number}", TopicSettings())
        for number in range(20)
    ]
    written = await asyncio.gather(*puts)
    versions = sorted(result.entry.version for result in written)
    assert versions == list(range(1, 21))
    for other in stores:
        await other.close()


@pytest.mark.asyncio
async def test_pages_are_in_the_order_of_code_points(store: MetadataStore) -> None:
    names = ["B", "a", "b-1", "b_1", "%", "Z", "a1", "aa", "_x"]
    for name in names:
        await store.put_topic(name, TopicSettings())
    await store.put_topic("deleted", TopicSettings())
    await store.delete_topic("deleted")
    listed: list[str] = []
    page = Page(limit=2)
    while True:
        listing = await store.topics(page)
        assert len(listing.entries) <= 2
        listed += [entry.name for entry in listing.entries]
        if listing.next_after is None:
            break
        page = Page(after=listing.next_after, limit=2)
    assert listed == sorted(names)
    assert len((await store.topics()).entries) == len(names)
    assert (await store.groups()).entries == ()


@pytest.mark.asyncio
async def test_limits_are_paged_by_subject(store: MetadataStore) -> None:
    limits = LimitStore(store)
    for name in ("b", "a", "c"):
        subject = parse_subject(f"namespace:{name}")
        await limits.put(subject, CallerLimits(max_delay_ms=5, bytes_per_s=7))
    assert await limits.delete(parse_subject("namespace:c"))
    first, behind = await limits.page("", 1)
    second, end = await limits.page(behind, 1)
    found = [entry.subject for entry in first + second]
    assert found == ["namespace:a", "namespace:b"]
    assert end == ""


@pytest.mark.asyncio
async def test_all_limits_of_a_subject_have_one_version(store: MetadataStore) -> None:
    limits, all_ = LimitStore(store), parse_subject("every-namespace")
    first, _ = await limits.put(all_, CallerLimits(max_delay_ms=5, bytes_per_s=7))
    less, is_new = await limits.put(
        all_, CallerLimits(bytes_per_s=7), expected=first.version
    )
    assert not is_new
    assert less.version > first.version
    same, _ = await limits.put(all_, CallerLimits(bytes_per_s=7))
    assert same == less
    with pytest.raises(StaleVersion):
        await limits.put(all_, CallerLimits(bytes_per_s=8), expected=first.version)
    with pytest.raises(StaleVersion):
        await limits.delete(all_, expected=first.version)
    assert await limits.get(all_) == less
    assert await limits.delete(all_, expected=less.version)
    assert not await limits.delete(all_)
    again, is_new = await limits.put(all_, CallerLimits(bytes_per_s=7), expected=0)
    assert is_new
    assert again.version > less.version


@pytest.mark.asyncio
async def test_changes_tell_what_is_new(store: MetadataStore) -> None:
    assert await store.changes() == Changes(version=0, is_full=True)
    await store.put_topic("a", TopicSettings())
    await store.put_topic("b", TopicSettings())
    await LimitStore(store).put(ALL, CallerLimits(requests_per_s=7))
    before = (await store.changes()).version
    await store.delete_topic("a")
    await store.put_group("g", GroupSettings())
    await LimitStore(store).delete(ALL)
    await store.put_producer_group("shop", SHOP)
    await store.put_producer_group("gone", SHOP)
    await store.delete_producer_group("gone")
    assert await store.changes(before) == Changes(
        version=9,
        topics={"a": None},
        groups={"g": GroupSettings()},
        producer_groups={"shop": SHOP, "gone": None},
        limits={("every-key", "requests_per_s"): None},
    )
    assert await store.changes() == Changes(
        version=9,
        is_full=True,
        topics={"b": TopicSettings()},
        groups={"g": GroupSettings()},
        producer_groups={"shop": SHOP},
    )
    ahead = await store.changes(10)  # of a database that was restored since
    assert ahead.is_full


@pytest.mark.asyncio
async def test_bad_settings_are_not_stored(store: MetadataStore) -> None:
    with pytest.raises(InvalidSettings):
        await store.put_topic("orders", TopicSettings(queues=0))
    assert await store.topic("orders") is None
    with pytest.raises(InvalidSettings):
        await store.put_producer_group("shop", replace(SHOP, check_max=0))
    assert await store.producer_group("shop") is None


@pytest.mark.asyncio
async def test_own_writes_are_in_the_cache_at_once(store: MetadataStore) -> None:
    cache = MetadataCache(store)
    await cache.start()
    await store.put_topic("orders", LARGEST)
    await store.put_group("billing", GroupSettings(max_attempts=3))
    await LimitStore(store).put(ALL, CallerLimits(requests_per_s=7))
    assert cache.topic_settings("orders") == LARGEST
    assert cache.group_settings("billing").max_attempts == 3
    assert cache.limits() == {"every-key": {"requests_per_s": 7}}
    assert not cache.has_producer_group("shop")
    await store.put_producer_group("shop", SHOP)
    assert cache.has_producer_group("shop")
    assert cache.producer_group_settings("shop") == SHOP
    await store.delete_producer_group("shop")
    assert not cache.has_producer_group("shop")
    assert cache.producer_group_settings("shop") == ProducerGroupSettings()
    await store.delete_topic("orders")
    await store.delete_group("billing")
    await LimitStore(store).delete(ALL)
    assert cache.topic_settings("orders") == TopicSettings()
    assert cache.group_settings("billing") == GroupSettings()
    assert not cache.limits()["every-key"]
    await cache.stop()


@pytest.mark.asyncio
async def test_writes_of_others_come_with_the_next_refresh(
    database_url: str, store: MetadataStore
) -> None:
    other = await MetadataStore.open(database_url)
    cache = MetadataCache(store, CacheConfig(refresh_s=0.02))
    await cache.start()
    await other.put_topic("orders", LARGEST)
    await _until(lambda: cache.topic_settings("orders") == LARGEST)
    await other.delete_topic("orders")
    await _until(lambda: cache.topic_settings("orders") == TopicSettings())
    assert cache.stale_since_ms is None
    await cache.stop()
    await other.close()


@pytest.mark.asyncio
async def test_settings_outlive_the_store(
    database_url: str, store: MetadataStore
) -> None:
    await store.put_topic("orders", LARGEST)
    again = await MetadataStore.open(database_url)
    entry = await again.topic("orders")
    assert entry is not None
    assert entry.settings == LARGEST
    await again.close()


@pytest.mark.asyncio
async def test_a_closed_store_says_so(store: MetadataStore) -> None:
    await store.close()
    await store.close()
    with pytest.raises(MetadataUnavailable, match="closed"):
        await store.topics()


@pytest.mark.asyncio
async def test_a_running_store_works_on_the_next_schema(
    database_url: str, store: MetadataStore, next_scripts: Path
) -> None:
    """One process after the other is upgraded; a start of an old one is refused."""
    await store.put_topic("orders", LARGEST)
    await asyncio.to_thread(migrate, database_url, scripts=next_scripts)
    await store.put_topic("orders", TopicSettings())
    await store.put_topic("more", LARGEST)
    assert len((await store.changes()).topics) == 2
    with pytest.raises(NewerSchema):
        await MetadataStore.open(database_url)


async def _until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not holds():  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0.01)
