"""Keys and namespaces in the metadata database: made, changed, revoked.

The same for the API and for the command line on the server's own machine, so both
obey the same rules, and both are on record.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from sqlalchemy import Connection, func, select, update

from halfpast_api.access.key_text import hint, new_id, new_key
from halfpast_api.access.secret_digest import digest, new_salt
from halfpast_api.metadata import access_schema, rows
from halfpast_api.metadata.access_settings import (
    SECRETS_MAX,
    KeySecret,
    KeySettings,
    NamespaceSettings,
    check_access,
)
from halfpast_api.metadata.entry import Changes, Entry, Listing, Page, Written
from halfpast_api.metadata.rows import KEY, NAMESPACE
from halfpast_api.metadata.store import MetadataStore

_ALL: Final = Page(limit=1000)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyEntry:
    """A key as stored, and when it was last used (0: never), to within some minutes."""

    entry: Entry[KeySettings]
    last_used_ms: int = 0

    @property
    def key_id(self) -> str:
        return self.entry.name

    @property
    def settings(self) -> KeySettings:
        return self.entry.settings


@dataclass(frozen=True, slots=True, kw_only=True)
class NewKey:
    """A key and its secret, which nobody can ask for again."""

    key: KeyEntry
    text: str

    def __repr__(self) -> str:
        return f"NewKey({self.key.key_id})"


class KeyStore:
    """Every method may raise MetadataUnavailable; those that change something raise
    StaleVersion if the entry is not at version `expected`."""

    def __init__(
        self,
        store: MetadataStore,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._store = store
        self._now_ms = now_ms

    # --- keys ---------------------------------------------------------------------

    async def create(self, settings: KeySettings) -> NewKey:
        """A new key with these settings. Raises InvalidSettings."""
        now_ms = self._now_ms()
        key_id = new_id()
        text = new_key(key_id)
        settings = replace(settings, secrets=(_secret(text, now_ms),))
        written = await self._put(key_id, settings, expected=0)
        return NewKey(key=KeyEntry(entry=written.entry), text=text)

    async def get(self, key_id: str) -> KeyEntry | None:
        def read(connection: Connection) -> KeyEntry | None:
            entry = rows.read(connection, KEY, (key_id,))
            if entry is None:
                return None
            used = _last_used(connection, [key_id])
            return KeyEntry(entry=entry, last_used_ms=used.get(key_id, 0))

        return await self._store.read(read)

    async def page(
        self, page: Page, namespace: str | None
    ) -> tuple[list[KeyEntry], str | None]:
        """Keys by id, of one namespace unless that is None; where to go on."""

        def read(connection: Connection) -> tuple[list[KeyEntry], str | None]:
            found: list[Entry[KeySettings]] = []
            after = page.after
            while True:
                listing = rows.page(connection, KEY, replace(page, after=after))
                found += [
                    it
                    for it in listing.entries
                    if namespace is None or _is_of(it.settings, namespace)
                ]
                if len(found) >= page.limit or listing.next_after is None:
                    break
                after = listing.next_after
            entries = found[: page.limit]
            used = _last_used(connection, [it.name for it in entries])
            keys = [
                KeyEntry(entry=it, last_used_ms=used.get(it.name, 0)) for it in entries
            ]
            has_more = len(found) > page.limit or listing.next_after is not None
            return keys, entries[-1].name if entries and has_more else None

        return await self._store.read(read)

    async def change(
        self, before: KeyEntry, settings: KeySettings, expected: int | None
    ) -> KeyEntry:
        """Other settings; its secrets stay. Raises InvalidSettings."""
        version = before.entry.version if expected is None else expected
        written = await self._put(before.key_id, settings, expected=version)
        return replace(before, entry=written.entry)

    async def rotate(self, before: KeyEntry, keep_old_ms: int) -> NewKey:
        """One more secret; the newest of those before it stays good for a while."""
        now_ms = self._now_ms()
        text = new_key(before.key_id)
        old = [
            it
            for it in before.settings.secrets
            if it.expires_at_ms == 0 or it.expires_at_ms > now_ms
        ][: SECRETS_MAX - 1]
        if keep_old_ms == 0:
            old = []
        until_ms = now_ms + keep_old_ms
        kept = [
            replace(it, expires_at_ms=min(it.expires_at_ms or until_ms, until_ms))
            for it in old
        ]
        secrets = (_secret(text, now_ms), *kept)
        settings = replace(before.settings, secrets=secrets)
        written = await self._put(
            before.key_id, settings, expected=before.entry.version
        )
        return NewKey(key=replace(before, entry=written.entry), text=text)

    async def revoke(self, before: KeyEntry) -> KeyEntry:
        """It never counts again, and its digests are forgotten."""
        settings = replace(before.settings, revoked_at_ms=self._now_ms(), secrets=())
        written = await self._put(
            before.key_id, settings, expected=before.entry.version
        )
        return replace(before, entry=written.entry)

    async def note_used(self, used: dict[str, int]) -> None:
        """Write down when keys were last used, as far as that is news."""

        def write(connection: Connection) -> None:
            table = access_schema.keys
            for key_id, at_ms in used.items():
                this = (table.c.id == key_id) & (table.c.last_used_ms < at_ms)
                connection.execute(update(table).where(this).values(last_used_ms=at_ms))

        await self._store.write(write)

    async def live_count(self) -> int:
        """How many keys let somebody in now."""
        now_ms = self._now_ms()
        table = access_schema.keys
        live = (
            table.c.deleted_at_ms.is_(None)
            & (table.c.revoked_at_ms == 0)
            & ((table.c.expires_at_ms == 0) | (table.c.expires_at_ms > now_ms))
        )
        counted = select(func.count()).select_from(table).where(live)
        return await self._store.read(
            lambda connection: int(connection.execute(counted).scalar_one())
        )

    # --- namespaces ---------------------------------------------------------------

    async def namespace(self, name: str) -> Entry[NamespaceSettings] | None:
        return await self._store.read(
            lambda connection: rows.read(connection, NAMESPACE, (name,))
        )

    async def namespaces(self, page: Page = _ALL) -> Listing[NamespaceSettings]:
        return await self._store.read(
            lambda connection: rows.page(connection, NAMESPACE, page)
        )

    async def put_namespace(
        self, name: str, settings: NamespaceSettings, *, expected: int | None = None
    ) -> Written[NamespaceSettings]:
        """Raises InvalidSettings."""
        check_access(settings)
        now_ms = self._now_ms()
        written = await self._store.write(
            lambda connection: rows.put(
                connection,
                NAMESPACE,
                (name,),
                settings,
                expected=expected,
                now_ms=now_ms,
            )
        )
        version = written.entry.version
        self._store.tell(Changes(version=version, namespaces={name: settings}))
        return written

    async def delete_namespace(self, name: str, *, expected: int | None = None) -> bool:
        """False if there was none. The caller has seen that nothing is in it."""
        now_ms = self._now_ms()
        version = await self._store.write(
            lambda connection: rows.delete(
                connection, NAMESPACE, (name,), expected=expected, now_ms=now_ms
            )
        )
        if version is None:
            return False
        self._store.tell(Changes(version=version, namespaces={name: None}))
        return True

    async def has_keys_in(self, namespace: str) -> bool:
        """Whether a key that is not revoked is bound to the namespace."""
        table = access_schema.keys
        bound = select(func.count()).where(
            (table.c.namespace == namespace)
            & (table.c.revoked_at_ms == 0)
            & table.c.deleted_at_ms.is_(None)
        )
        return await self._store.read(
            lambda connection: bool(connection.execute(bound).scalar_one())
        )

    async def _put(
        self, key_id: str, settings: KeySettings, *, expected: int
    ) -> Written[KeySettings]:
        check_access(settings)
        now_ms = self._now_ms()
        written = await self._store.write(
            lambda connection: rows.put(
                connection, KEY, (key_id,), settings, expected=expected, now_ms=now_ms
            )
        )
        version = written.entry.version
        self._store.tell(Changes(version=version, keys={key_id: settings}))
        return written


def _secret(text: str, now_ms: int) -> KeySecret:
    salt = new_salt()
    return KeySecret(
        digest=digest(text, salt), salt=salt, hint=hint(text), created_at_ms=now_ms
    )


def _is_of(settings: KeySettings, namespace: str) -> bool:
    return settings.namespace == namespace and not settings.all_namespaces


def _last_used(connection: Connection, key_ids: list[str]) -> dict[str, int]:
    table = access_schema.keys
    found = select(table.c.id, table.c.last_used_ms).where(table.c.id.in_(key_ids))
    return {row.id: row.last_used_ms for row in connection.execute(found)}
