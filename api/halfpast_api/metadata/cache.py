"""The settings in memory: all that the data plane ever reads of the metadata.

    database ──every second──> cache ──when it changed──> snapshot file
        ^                        |
    own writes ──at once────────>|──> topic_settings("orders")

Look-ups never wait and never fail. While the database is away they give the last
known settings, and `status` tells since when those may be out of date.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol, TypeVar

import structlog

from halfpast_api.metadata import snapshot
from halfpast_api.metadata.access_settings import KeySettings, NamespaceSettings
from halfpast_api.metadata.clock import system_now_ms
from halfpast_api.metadata.endpoint_settings import EndpointSettings
from halfpast_api.metadata.entry import Changes
from halfpast_api.metadata.errors import MetadataError, SnapshotUnusable
from halfpast_api.metadata.settings import (
    GroupSettings,
    ProducerGroupSettings,
    TopicSettings,
)
from halfpast_api.metadata.snapshot import Snapshot

K = TypeVar("K")
V = TypeVar("V")


class SettingsSource(Protocol):
    """What the cache needs of a `MetadataStore`.

    Answers to `changes` and calls to the watcher come in the order in which the
    database did the work.
    """

    @property
    def source(self) -> str: ...

    async def changes(self, since: int | None = None) -> Changes: ...

    def watch(self, watcher: Callable[[Changes], None]) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheConfig:
    """How often to look, what to keep, and what applies to names not administered.

    `snapshot_gap_s`: a change is saved at once, but no two saves are closer than
    this, so that many changes do not write a large file again and again.
    """

    refresh_s: float = 1.0
    snapshot_path: Path | None = None
    snapshot_gap_s: float = 10.0
    topic_defaults: TopicSettings = field(default_factory=TopicSettings)
    group_defaults: GroupSettings = field(default_factory=GroupSettings)
    producer_group_defaults: ProducerGroupSettings = field(
        default_factory=ProducerGroupSettings
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheStatus:
    """Where the settings come from and whether they are up to date.

    `stale_since_ms`: when they were last known to be right, if the database does
    not answer now; None if it does. `reason`: why it does not.
    """

    origin: Literal["database", "snapshot", "defaults"]
    version: int
    stale_since_ms: int | None
    reason: str


class MetadataCache:
    """The settings in memory, kept fresh by a task between `start` and `stop`."""

    def __init__(
        self,
        store: SettingsSource,
        config: CacheConfig | None = None,
        *,
        now_ms: Callable[[], int] = system_now_ms,
    ) -> None:
        self._store = store
        self._config = config or CacheConfig()
        self._now_ms = now_ms
        self._log = structlog.get_logger("halfpast.metadata")
        self._topics: dict[str, TopicSettings] = {}
        self._groups: dict[str, GroupSettings] = {}
        self._producer_groups: dict[str, ProducerGroupSettings] = {}
        self._endpoints: dict[str, EndpointSettings] = {}
        self._limits: dict[str, dict[str, float]] = {}
        self._keys: dict[str, KeySettings] = {}
        self._namespaces: dict[str, NamespaceSettings] = {}
        self._version: int | None = None  # None: read everything
        self.revision = 0
        """Another number whenever any of the settings may have changed."""
        self._status = CacheStatus(
            origin="defaults", version=0, stale_since_ms=now_ms(), reason="not started"
        )
        self._is_away = False
        self._refreshed_at_ms = now_ms()
        self._is_unsaved = False
        self._saved_at_ms = 0
        self._refreshing = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        store.watch(self._apply)

    async def start(self) -> None:
        """Read everything, or the snapshot if the database is away; never fails."""
        assert self._task is None
        if not await self.refresh():
            await self._load_snapshot()
        self._task = asyncio.create_task(self._keep_fresh(), name="metadata-cache")

    async def stop(self) -> None:
        """End the task, and save what has not been saved."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None
        await self._save()

    def topic_settings(self, name: str) -> TopicSettings:
        """The settings of the topic; the defaults if nobody has given any."""
        return self._topics.get(name, self._config.topic_defaults)

    def group_settings(self, name: str) -> GroupSettings:
        """The settings of the group; the defaults if nobody has given any."""
        return self._groups.get(name, self._config.group_defaults)

    def producer_group_settings(self, name: str) -> ProducerGroupSettings:
        """The settings of the producer group; the defaults if it has none."""
        return self._producer_groups.get(name, self._config.producer_group_defaults)

    def has_producer_group(self, name: str) -> bool:
        """Whether somebody has given the producer group settings."""
        return name in self._producer_groups

    def endpoints(self) -> Mapping[str, EndpointSettings]:
        """All endpoints, by name."""
        return self._endpoints

    def limits(self) -> Mapping[str, Mapping[str, float]]:
        """All limits, by scope and name. A scope may have lost its last one."""
        return self._limits

    def key_settings(self, key_id: str) -> KeySettings | None:
        """The API key, also if it is revoked; None if there is none."""
        return self._keys.get(key_id)

    def has_keys(self) -> bool:
        """Whether a key was ever made."""
        return bool(self._keys)

    def namespaces(self) -> Mapping[str, NamespaceSettings]:
        """All namespaces but the default one, by name."""
        return self._namespaces

    @property
    def status(self) -> CacheStatus:
        return self._status

    @property
    def stale_since_ms(self) -> int | None:
        """None while the database answers; see `CacheStatus`."""
        return self._status.stale_since_ms

    async def refresh(self) -> bool:
        """Ask the database what has changed. False if it is away."""
        async with self._refreshing:
            try:
                changes = await self._store.changes(self._version)
            except Exception as error:  # whatever it is, the data plane goes on
                self._mark_stale(error)
                return False
            # Nothing is awaited between the answer and its use: see SettingsSource.
            self._apply(changes)
            self._mark_fresh(changes.version)
        return True

    async def _keep_fresh(self) -> None:
        while True:
            await asyncio.sleep(self._config.refresh_s)
            await self.refresh()
            if self._now_ms() - self._saved_at_ms >= self._config.snapshot_gap_s * 1000:
                await self._save()

    def _apply(self, changes: Changes) -> None:
        if changes.is_full:
            self._topics, self._groups = {}, {}
            self._producer_groups, self._endpoints, self._limits = {}, {}, {}
            self._keys, self._namespaces = {}, {}
        _merge(self._topics, changes.topics)
        _merge(self._groups, changes.groups)
        _merge(self._producer_groups, changes.producer_groups)
        _merge(self._endpoints, changes.endpoints)
        _merge(self._keys, changes.keys)
        _merge(self._namespaces, changes.namespaces)
        for (scope, name), value in changes.limits.items():
            _merge(self._limits.setdefault(scope, {}), {name: value})
        self._is_unsaved = self._is_unsaved or bool(changes)
        self.revision += bool(changes)

    def _mark_fresh(self, version: int) -> None:
        if self._is_away:
            self._log.info("metadata_back", version=version)
        self._is_away = False
        self._version = version
        self._refreshed_at_ms = self._now_ms()
        self._status = CacheStatus(
            origin="database", version=version, stale_since_ms=None, reason=""
        )

    def _mark_stale(self, error: Exception) -> None:
        if not self._is_away:  # once an outage, not once a second
            is_ours = isinstance(error, MetadataError)
            log = self._log.warning if is_ours else self._log.exception
            log("metadata_away", reason=str(error))
        self._is_away = True
        # All is read again afterwards: the database may come back restored.
        self._version = None
        self._status = CacheStatus(
            origin=self._status.origin,
            version=self._status.version,
            stale_since_ms=self._refreshed_at_ms,
            reason=str(error) or repr(error),
        )

    async def _load_snapshot(self) -> None:
        path = self._config.snapshot_path
        if path is None:
            return
        try:
            found = await asyncio.to_thread(snapshot.load, path, self._store.source)
        except SnapshotUnusable as error:
            self._log.warning("metadata_snapshot_unusable", reason=str(error))
            return
        if found is None or self._status.origin == "database":
            return
        self._topics, self._groups = found.topics, found.groups
        self._producer_groups, self._limits = found.producer_groups, found.limits
        self._endpoints = found.endpoints
        self._keys, self._namespaces = found.keys, found.namespaces
        self.revision += 1
        self._refreshed_at_ms = found.read_at_ms
        self._status = CacheStatus(
            origin="snapshot",
            version=found.version,
            stale_since_ms=found.read_at_ms,
            reason=self._status.reason,
        )

    async def _save(self) -> None:
        """Only what came from the database: defaults must not replace a snapshot."""
        path = self._config.snapshot_path
        if path is None or not self._is_unsaved or self._status.origin != "database":
            return
        self._is_unsaved = False
        self._saved_at_ms = self._now_ms()
        taken = Snapshot(
            source=self._store.source,
            version=self._status.version,
            read_at_ms=self._refreshed_at_ms,
            topics=dict(self._topics),
            groups=dict(self._groups),
            producer_groups=dict(self._producer_groups),
            endpoints=dict(self._endpoints),
            keys=dict(self._keys),
            namespaces=dict(self._namespaces),
            limits={scope: dict(limits) for scope, limits in self._limits.items()},
        )
        try:
            await asyncio.to_thread(snapshot.save, path, taken)
        except OSError as error:
            self._is_unsaved = True
            self._log.warning("metadata_snapshot_unsaved", reason=str(error))


def _merge(known: dict[K, V], changed: Mapping[K, V | None]) -> None:
    for key, value in changed.items():
        if value is None:
            known.pop(key, None)
        else:
            known[key] = value
