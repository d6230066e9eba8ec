"""Keys and namespaces in the metadata database: made, changed, revoked.

The same for the API and for the command line on the server's own machine, so both
obey the same rules, and both are on record.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from sqlalchemy import Connection, func, select, update

from halfpast_api.access.key_text import hint, new_id, new_key, new_signing_secret
from halfpast_api.access.secret_digest import digest, new_salt
from halfpast_api.metadata import access_schema, rows
from halfpast_api.metadata.access_settings import (
    SECRETS_MAX,
    KeySecret,
    KeySettings,
    NamespaceSettings,
    SigningSecret,
    check_access,
)
from halfpast_api.metadata.entry import Changes, Entry, Listing, Page, Written
from halfpast_api.metadata.rows import KEY, NAMESPACE
from halfpast_api.metadata.store import MetadataStore

_ALL: Final = Page(limit=1000)

R = TypeVar("R", KeySecret, SigningSecret)


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
    """A key and its new secret, which nobody can ask for again. `signing`: the secret
    with which its owner signs, if one was made with it."""

    key: KeyEntry
    text: str
    signing: str = ""

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

    async def create(self, settings: KeySettings, *, signing: bool = False) -> NewKey:
        """A new key with these settings; `signing`: it can sign. Raises
        InvalidSettings."""
        now_ms = self._now_ms()
        key_id = new_id()
        text = new_key(key_id)
        settings = replace(settings, secrets=(_secret(text, now_ms),))
        signing_text = new_signing_secret(key_id) if signing else ""
        if signing:
            made = SigningSecret(text=signing_text, created_at_ms=now_ms)
            settings = replace(settings, signing_secrets=(made,))
        written = await self._put(key_id, settings, expected=0)
        entry = KeyEntry(entry=written.entry)
        return NewKey(key=entry, text=text, signing=signing_text)

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
        kept = _kept(before.settings.secrets, now_ms, keep_old_ms)
        secrets = (_secret(text, now_ms), *kept)
        key = await self._replace(before, replace(before.settings, secrets=secrets))
        return NewKey(key=key, text=text)

    async def rotate_signing(self, before: KeyEntry, keep_old_ms: int) -> NewKey:
        """A signing secret: its first one, or one more, as `rotate` does."""
        now_ms = self._now_ms()
        text = new_signing_secret(before.key_id)
        kept = _kept(before.settings.signing_secrets, now_ms, keep_old_ms)
        secrets = (SigningSecret(text=text, created_at_ms=now_ms), *kept)
        settings = replace(before.settings, signing_secrets=secrets)
        return NewKey(key=await self._replace(before, settings), text=text)

    async def drop_signing(self, before: KeyEntry) -> KeyEntry:
        """Nobody signs with this key any more; all else goes on."""
        return await self._replace(before, replace(before.settings, signing_secrets=()))

    async def revoke(self, before: KeyEntry) -> KeyEntry:
        """It never counts again, and its digests and secrets are forgotten."""
        revoked = replace(
            before.settings,
            revoked_at_ms=self._now_ms(),
            secrets=(),
            signing_secrets=(),
        )
        return await self._replace(before, revoked)

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

    async def _replace(self, before: KeyEntry, settings: KeySettings) -> KeyEntry:
        """Raises StaleVersion if it has changed since it was `before`."""
        version = before.entry.version
        written = await self._put(before.key_id, settings, expected=version)
        return replace(before, entry=written.entry)

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


def _kept(secrets: tuple[R, ...], now_ms: int, keep_old_ms: int) -> list[R]:
    """What stays beside a new secret: the newest that is live, for a while."""
    if keep_old_ms == 0:
        return []
    until_ms = now_ms + keep_old_ms
    live = [it for it in secrets if it.expires_at_ms == 0 or it.expires_at_ms > now_ms]
    return [
        replace(it, expires_at_ms=min(it.expires_at_ms or until_ms, until_ms))
        for it in live[: SECRETS_MAX - 1]
    ]


def _is_of(settings: KeySettings, namespace: str) -> bool:
    return settings.namespace == namespace and not settings.all_namespaces


def _last_used(connection: Connection, key_ids: list[str]) -> dict[str, int]:
    table = access_schema.keys
    found = select(table.c.id, table.c.last_used_ms).where(table.c.id.in_(key_ids))
    return {row.id: row.last_used_ms for row in connection.execute(found)}
