"""The metadata database for asyncio: what administrative calls go through.

The SQL runs on one thread of its own, one call after the other; such calls are
rare. The data plane never comes here: it reads the `MetadataCache`.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from sqlalchemy import URL, Connection

from halfpast_api.metadata import rows
from halfpast_api.metadata.clock import system_now_ms
from halfpast_api.metadata.database import Database, parse_url, source_of
from halfpast_api.metadata.endpoint_settings import EndpointSettings
from halfpast_api.metadata.entry import (
    Changes,
    Entry,
    Key,
    Listing,
    Page,
    S,
    Written,
)
from halfpast_api.metadata.errors import (
    MetadataUnavailable,
    MigrationFailed,
    NewerSchema,
)
from halfpast_api.metadata.migrate import migrate
from halfpast_api.metadata.rows import (
    ENDPOINT,
    GROUP,
    PRODUCER_GROUP,
    TOPIC,
    Kind,
)
from halfpast_api.metadata.settings import (
    GroupSettings,
    ProducerGroupSettings,
    TopicSettings,
    check,
)

R = TypeVar("R")

CLOSE_PATIENCE_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreConfig:
    """How long to wait: for the answer to a call, and for one statement in it."""

    call_timeout_s: float = 5.0
    statement_timeout_s: float = 3.0


class MetadataStore:
    """Settings of topics and groups on SQLite or PostgreSQL.

    Every method may raise MetadataUnavailable; a write that ends so may still
    have happened. A put or delete takes the version that it expects to find: None
    for any, 0 for "there is none yet", and raises StaleVersion otherwise. A put
    that changes nothing leaves the entry and its version as they are.
    """

    def __init__(
        self, url: URL, config: StoreConfig, now_ms: Callable[[], int]
    ) -> None:
        statement_ms = int(config.statement_timeout_s * 1000)
        self._url = url
        self._config = config
        self._now_ms = now_ms
        self._database = Database(url, statement_ms=statement_ms)
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="metadata")
        self._is_migrated = False  # known to the worker only
        self._is_closed = False
        self._watchers: list[Callable[[Changes], None]] = []

    @classmethod
    async def open(
        cls,
        url: str,
        *,
        config: StoreConfig | None = None,
        now_ms: Callable[[], int] = system_now_ms,
    ) -> "MetadataStore":
        """Open the store and bring its schema up to date.

        If the database is away the store is open all the same: calls raise
        MetadataUnavailable until it is back, and the first one after that
        upgrades the schema. Raises UnsupportedUrl, NewerSchema, MigrationFailed.
        """
        store = cls(parse_url(url), config or StoreConfig(), now_ms)
        loop = asyncio.get_running_loop()
        try:
            with suppress(MetadataUnavailable):
                await loop.run_in_executor(store._worker, store._ensure_migrated)
        except BaseException:
            store._worker.shutdown(wait=False)
            raise
        return store

    async def close(self) -> None:
        """Let go of the database; calls that still wait for it are given up."""
        if self._is_closed:
            return
        self._is_closed = True
        loop = asyncio.get_running_loop()
        disposed = asyncio.Event()

        def dispose() -> None:
            self._database.dispose()
            with suppress(RuntimeError):  # the loop did not wait, and is gone
                loop.call_soon_threadsafe(disposed.set)

        self._worker.submit(dispose)
        self._worker.shutdown(wait=False)
        for _ in range(2):
            with suppress(TimeoutError):
                await asyncio.wait_for(disposed.wait(), CLOSE_PATIENCE_S)
                return
            self._database.interrupt()  # it is behind a call that hangs

    @property
    def source(self) -> str:
        """Which database this is, without user and password."""
        return source_of(self._url)

    def watch(self, watcher: Callable[[Changes], None]) -> None:
        """Have `watcher` called, in the event loop, after each write of ours."""
        self._watchers.append(watcher)

    def beside(self, config: StoreConfig) -> "MetadataStore":
        """The same database on a connection and a thread of its own, for calls that
        take long. Whoever asks for it closes it."""
        return MetadataStore(self._url, config, self._now_ms)

    async def read(self, work: Callable[[Connection], R]) -> R:
        """What `work` finds, in one transaction that changes nothing."""
        return await self._read(work)

    async def write(self, work: Callable[[Connection], R]) -> R:
        """What `work` gives, in one transaction that may change tables which have no
        versions; never settings."""
        return await self._write(work)

    def tell(self, changes: Changes) -> None:
        """Have the watchers hear of settings that `write` has written."""
        self._tell(changes)

    async def changes(self, since: int | None = None) -> Changes:
        """What changed after the version `since`; everything if that is None."""
        return await self._read(lambda connection: rows.changes(connection, since))

    async def topic(self, name: str) -> Entry[TopicSettings] | None:
        return await self._entry(TOPIC, (name,))

    async def topics(self, page: Page | None = None) -> Listing[TopicSettings]:
        return await self._page(TOPIC, page)

    async def put_topic(
        self, name: str, settings: TopicSettings, *, expected: int | None = None
    ) -> Written[TopicSettings]:
        written = await self._put(TOPIC, (name,), settings, expected)
        self._tell(Changes(version=written.entry.version, topics={name: settings}))
        return written

    async def delete_topic(self, name: str, *, expected: int | None = None) -> bool:
        """Back to the defaults; the messages stay. False if there was nothing."""
        version = await self._delete(TOPIC, (name,), expected)
        if version is None:
            return False
        self._tell(Changes(version=version, topics={name: None}))
        return True

    async def group(self, name: str) -> Entry[GroupSettings] | None:
        return await self._entry(GROUP, (name,))

    async def groups(self, page: Page | None = None) -> Listing[GroupSettings]:
        return await self._page(GROUP, page)

    async def put_group(
        self, name: str, settings: GroupSettings, *, expected: int | None = None
    ) -> Written[GroupSettings]:
        written = await self._put(GROUP, (name,), settings, expected)
        self._tell(Changes(version=written.entry.version, groups={name: settings}))
        return written

    async def delete_group(self, name: str, *, expected: int | None = None) -> bool:
        """Back to the defaults. False if there was nothing."""
        version = await self._delete(GROUP, (name,), expected)
        if version is None:
            return False
        self._tell(Changes(version=version, groups={name: None}))
        return True

    async def producer_group(self, name: str) -> Entry[ProducerGroupSettings] | None:
        return await self._entry(PRODUCER_GROUP, (name,))

    async def producer_groups(
        self, page: Page | None = None
    ) -> Listing[ProducerGroupSettings]:
        return await self._page(PRODUCER_GROUP, page)

    async def put_producer_group(
        self,
        name: str,
        settings: ProducerGroupSettings,
        *,
        expected: int | None = None,
    ) -> Written[ProducerGroupSettings]:
        written = await self._put(PRODUCER_GROUP, (name,), settings, expected)
        new = {name: settings}
        self._tell(Changes(version=written.entry.version, producer_groups=new))
        return written

    async def delete_producer_group(
        self, name: str, *, expected: int | None = None
    ) -> bool:
        """Back to the defaults, its secrets erased. False if there was nothing."""
        version = await self._delete(PRODUCER_GROUP, (name,), expected)
        if version is None:
            return False
        self._tell(Changes(version=version, producer_groups={name: None}))
        return True

    async def endpoint(self, name: str) -> Entry[EndpointSettings] | None:
        return await self._entry(ENDPOINT, (name,))

    async def endpoints(self, page: Page | None = None) -> Listing[EndpointSettings]:
        return await self._page(ENDPOINT, page)

    async def put_endpoint(
        self, name: str, settings: EndpointSettings, *, expected: int | None = None
    ) -> Written[EndpointSettings]:
        written = await self._put(ENDPOINT, (name,), settings, expected)
        self._tell(Changes(version=written.entry.version, endpoints={name: settings}))
        return written

    async def delete_endpoint(self, name: str, *, expected: int | None = None) -> bool:
        """No more deliveries, its secrets erased. False if there was none."""
        version = await self._delete(ENDPOINT, (name,), expected)
        if version is None:
            return False
        self._tell(Changes(version=version, endpoints={name: None}))
        return True

    async def _entry(self, kind: Kind[S], key: Key) -> Entry[S] | None:
        return await self._read(lambda connection: rows.read(connection, kind, key))

    async def _page(self, kind: Kind[S], page: Page | None) -> Listing[S]:
        wanted = page or Page()
        return await self._read(lambda connection: rows.page(connection, kind, wanted))

    async def _put(
        self, kind: Kind[S], key: Key, settings: S, expected: int | None
    ) -> Written[S]:
        check(settings)
        now_ms = self._now_ms()

        def put(connection: Connection) -> Written[S]:
            return rows.put(
                connection, kind, key, settings, expected=expected, now_ms=now_ms
            )

        return await self._write(put)

    async def _delete(
        self, kind: Kind[S], key: Key, expected: int | None
    ) -> int | None:
        now_ms = self._now_ms()

        def delete(connection: Connection) -> int | None:
            return rows.delete(connection, kind, key, expected=expected, now_ms=now_ms)

        return await self._write(delete)

    async def _read(self, work: Callable[[Connection], R]) -> R:
        def run() -> R:
            self._be_ready()
            with self._database.reading() as connection:
                return work(connection)

        return await self._call(run)

    async def _write(self, work: Callable[[Connection], R]) -> R:
        def run() -> R:
            self._be_ready()
            with self._database.writing() as connection:
                return work(connection)

        return await self._call(run)

    async def _call(self, run: Callable[[], R]) -> R:
        if self._is_closed:
            raise MetadataUnavailable("it is closed")
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._config.call_timeout_s):
                return await loop.run_in_executor(self._worker, run)
        except TimeoutError:
            # The oldest call that waits is the one that hangs: calls run in order.
            self._database.interrupt()
            reason = f"no answer within {self._config.call_timeout_s:g} s"
            raise MetadataUnavailable(reason) from None

    def _be_ready(self) -> None:
        """For callers a database that cannot be upgraded is one that is away."""
        if self._is_closed:
            raise MetadataUnavailable("it is being closed")
        try:
            self._ensure_migrated()
        except (NewerSchema, MigrationFailed) as error:
            raise MetadataUnavailable(str(error)) from error

    def _ensure_migrated(self) -> None:
        if not self._is_migrated:
            migrate(self._url)
            self._is_migrated = True

    def _tell(self, changes: Changes) -> None:
        for watcher in self._watchers:
            watcher(changes)
