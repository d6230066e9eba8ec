"""Settings as one namespace sees them: the store, and the cache."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final, TypeVar

from halfpast_api.access.namespaced_names import Names
from halfpast_api.metadata.cache import MetadataCache
from halfpast_api.metadata.endpoint_settings import EndpointSettings
from halfpast_api.metadata.entry import Entry, Listing, Page, S, Written
from halfpast_api.metadata.settings import (
    GroupSettings,
    ProducerGroupSettings,
    TopicSettings,
)
from halfpast_api.metadata.settings_store import SettingsStore
from halfpast_api.problems import Refusal
from halfpast_core_store.errors import UnknownTopic

_BEHIND: Final = "~"  # sorts behind every character of a name
_PAGE: Final = Page()

R = TypeVar("R")


class NamespacedMetadata:
    """A `SettingsStore` with the names of one namespace."""

    def __init__(self, store: SettingsStore, names: Names) -> None:
        self._store = store
        self._names = names

    async def topic(self, name: str) -> Entry[TopicSettings] | None:
        return await self._one(name, self._store.topic)

    async def topics(self, page: Page | None = None) -> Listing[TopicSettings]:
        return await self._some(page, self._store.topics)

    async def put_topic(
        self, name: str, settings: TopicSettings, *, expected: int | None = None
    ) -> Written[TopicSettings]:
        stored = self._names.inside(name)
        if stored is None:
            raise UnknownTopic(name)
        written = await self._store.put_topic(stored, settings, expected=expected)
        return _named(written, name)

    async def group(self, name: str) -> Entry[GroupSettings] | None:
        return await self._one(name, self._store.group)

    async def groups(self, page: Page | None = None) -> Listing[GroupSettings]:
        return await self._some(page, self._store.groups)

    async def put_group(
        self, name: str, settings: GroupSettings, *, expected: int | None = None
    ) -> Written[GroupSettings]:
        stored = self._ours(name, "group")
        written = await self._store.put_group(stored, settings, expected=expected)
        return _named(written, name)

    async def producer_group(self, name: str) -> Entry[ProducerGroupSettings] | None:
        return await self._one(name, self._store.producer_group)

    async def producer_groups(
        self, page: Page | None = None
    ) -> Listing[ProducerGroupSettings]:
        return await self._some(page, self._store.producer_groups)

    async def put_producer_group(
        self,
        name: str,
        settings: ProducerGroupSettings,
        *,
        expected: int | None = None,
    ) -> Written[ProducerGroupSettings]:
        written = await self._store.put_producer_group(
            self._ours(name, "producer_group"), settings, expected=expected
        )
        return _named(written, name)

    async def delete_producer_group(
        self, name: str, *, expected: int | None = None
    ) -> bool:
        stored = self._names.inside(name)
        if stored is None:
            return False
        return await self._store.delete_producer_group(stored, expected=expected)

    async def endpoint(self, name: str) -> Entry[EndpointSettings] | None:
        return await self._one(name, self._store.endpoint)

    async def endpoints(self, page: Page | None = None) -> Listing[EndpointSettings]:
        return await self._some(page, self._store.endpoints)

    async def put_endpoint(
        self, name: str, settings: EndpointSettings, *, expected: int | None = None
    ) -> Written[EndpointSettings]:
        stored = self._ours(name, "endpoint")
        written = await self._store.put_endpoint(stored, settings, expected=expected)
        return _named(written, name)

    async def delete_endpoint(self, name: str, *, expected: int | None = None) -> bool:
        stored = self._names.inside(name)
        if stored is None:
            return False
        return await self._store.delete_endpoint(stored, expected=expected)

    async def _one(
        self, name: str, read: Callable[[str], Awaitable[Entry[S] | None]]
    ) -> Entry[S] | None:
        stored = self._names.inside(name)
        entry = None if stored is None else await read(stored)
        return None if entry is None else replace(entry, key=(name,))

    async def _some(
        self, page: Page | None, read: Callable[[Page], Awaitable[Listing[S]]]
    ) -> Listing[S]:
        """A page of what is ours, in as many steps as others' entries make of it."""
        page = page or _PAGE
        prefix = self._names.prefix
        after = prefix + (page.after[0] if page.after else "")
        found: list[Entry[S]] = []
        while True:
            wanted = Page(after=(after,) if after else None, limit=page.limit)
            listing = await read(wanted)
            for entry in listing.entries:
                name = self._names.outside(entry.name)
                if name is not None:
                    found.append(replace(entry, key=(name,)))
            if listing.next_after is None or len(found) > page.limit:
                break
            after = listing.next_after[0]
            if not after.startswith(prefix):
                break
            if self._names.outside(after) is None:  # skip the whole namespace
                after = after.partition("%")[0] + "%" + _BEHIND
        entries = tuple(found[: page.limit])
        # A full page may be the last one: then the next is empty.
        has_more = len(entries) == page.limit and (
            len(found) > page.limit or listing.next_after is not None
        )
        return Listing(
            entries=entries, next_after=entries[-1].key if has_more else None
        )

    def _ours(self, name: str, what: str) -> str:
        stored = self._names.inside(name)
        if stored is None:
            shown = what.replace("_", " ")
            raise Refusal(f"unknown_{what}", f"there is no {shown} {name!r}")
        return stored


class NamespacedSettings:
    """A cache with the names of one namespace. What is another's has the defaults."""

    def __init__(self, cache: MetadataCache, names: Names) -> None:
        self._cache = cache
        self._names = names

    def topic_settings(self, name: str) -> TopicSettings:
        return self._cache.topic_settings(self._stored(name))

    def group_settings(self, name: str) -> GroupSettings:
        return self._cache.group_settings(self._stored(name))

    def producer_group_settings(self, name: str) -> ProducerGroupSettings:
        return self._cache.producer_group_settings(self._stored(name))

    def has_producer_group(self, name: str) -> bool:
        return self._cache.has_producer_group(self._stored(name))

    def _stored(self, name: str) -> str:
        return self._names.inside(name) or ""  # which is the name of nothing


def _named(written: Written[S], name: str) -> Written[S]:
    return replace(written, entry=replace(written.entry, key=(name,)))
