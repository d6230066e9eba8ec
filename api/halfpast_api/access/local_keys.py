"""Keys on the server's own machine, straight in the metadata database.

Whoever may write that database needs no key: this is how the first one is made, and
how one gets in again who has lost theirs. What is done is on the trail like all else.
"""

import getpass
import os
from collections.abc import Mapping
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Self

import msgspec

from halfpast_api.access.access import EVERYTHING, Access
from halfpast_api.access.key_bodies import (
    KeyBody,
    KeyView,
    NewKeyView,
    NewSigningView,
    check_grant,
    settings_of,
    view_key,
    view_new_key,
    view_new_signing,
)
from halfpast_api.access.key_ring import system_now_ms
from halfpast_api.access.key_store import KeyEntry, KeyStore
from halfpast_api.access.trail import Trail
from halfpast_api.metadata.access_settings import KeySettings
from halfpast_api.metadata.entry import Page
from halfpast_api.metadata.store import MetadataStore
from halfpast_api.problems import Refusal

_PAGE = 1000


class LocalKeys:
    """The same calls as `AccessCalls`; used inside `async with`. Raises Refusal and
    MetadataError."""

    def __init__(self, metadata_url: str) -> None:
        self._url = metadata_url
        self._stack = AsyncExitStack()
        self._access = Access(
            actor=f"local:{user_name()}",
            role="admin",
            scopes=EVERYTHING,
            may_view_payload=True,
            is_suite=True,
        )

    async def __aenter__(self) -> Self:
        metadata = await MetadataStore.open(self._url)
        self._stack.push_async_callback(metadata.close)
        self._keys = KeyStore(metadata)
        self._trail = Trail(metadata)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._stack.aclose()

    async def create(self, wanted: Mapping[str, Any]) -> NewKeyView:
        body = msgspec.convert(dict(wanted), KeyBody)
        namespace = body.namespace or ""
        if namespace and await self._keys.namespace(namespace) is None:
            raise Refusal(
                "unknown_namespace",
                f"there is no namespace {namespace!r}; make it first, with 'halfpast "
                f"namespaces create {namespace}'",
            )
        base = KeySettings(
            namespace="" if body.all_namespaces else namespace,
            all_namespaces=body.all_namespaces,
            created_by=self._access.actor,
        )
        settings = settings_of(body, base, system_now_ms())
        check_grant(self._access, settings)
        new = await self._keys.create(settings, signing=body.signing)
        await self._record("POST /v1/keys", None, new.key)
        return view_new_key(new, system_now_ms())

    async def keys(self) -> list[KeyView]:
        found: list[KeyView] = []
        page = Page(limit=_PAGE)
        while True:
            keys, behind = await self._keys.page(page, None)
            found += [view_key(key, system_now_ms()) for key in keys]
            if behind is None:
                return found
            page = Page(after=(behind,), limit=_PAGE)

    async def show(self, key_id: str) -> KeyView:
        return view_key(await self._find(key_id), system_now_ms())

    async def rotate(self, key_id: str, keep_old_ms: int) -> NewKeyView:
        before = await self._find_live(key_id)
        new = await self._keys.rotate(before, keep_old_ms)
        await self._record("POST /v1/keys/{id}:rotate", before, new.key)
        return view_new_key(new, system_now_ms())

    async def rotate_signing(self, key_id: str, keep_old_ms: int) -> NewSigningView:
        before = await self._find_live(key_id)
        new = await self._keys.rotate_signing(before, keep_old_ms)
        await self._record("POST /v1/keys/{id}:rotate-signing", before, new.key)
        return view_new_signing(new, system_now_ms())

    async def drop_signing(self, key_id: str) -> KeyView:
        before = await self._find(key_id)
        after = before
        if before.settings.signing_secrets:
            after = await self._keys.drop_signing(before)
            await self._record("POST /v1/keys/{id}:drop-signing", before, after)
        return view_key(after, system_now_ms())

    async def revoke(self, key_id: str) -> KeyView:
        before = await self._find(key_id)
        after = before
        if not before.settings.revoked_at_ms:
            after = await self._keys.revoke(before)
            await self._record("POST /v1/keys/{id}:revoke", before, after)
        return view_key(after, system_now_ms())

    async def _find_live(self, key_id: str) -> KeyEntry:
        key = await self._find(key_id)
        if key.settings.revoked_at_ms:
            raise Refusal("key_revoked", f"the key {key_id} is revoked; make a new one")
        return key

    async def _find(self, key_id: str) -> KeyEntry:
        key = await self._keys.get(key_id)
        if key is None:
            raise Refusal(
                "unknown_key",
                f"there is no key {key_id[:40]!r}; list them with 'halfpast keys list'",
            )
        return key

    async def _record(
        self, action: str, before: KeyEntry | None, after: KeyEntry
    ) -> None:
        now_ms = system_now_ms()
        shown = None if before is None else view_key(before, now_ms)
        await self._trail.record(
            self._access,
            action,
            after.key_id,
            before=msgspec.to_builtins(shown),
            after=msgspec.to_builtins(view_key(after, now_ms)),
        )


def user_name() -> str:
    """Who runs this program, as the machine knows them."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # no name for the number
        return str(os.getuid())
