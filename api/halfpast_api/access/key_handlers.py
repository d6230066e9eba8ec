"""Administering keys."""

from collections.abc import Callable
from typing import Final

from halfpast_api import headers
from halfpast_api.access.access import Access
from halfpast_api.access.door import unknown_namespace
from halfpast_api.access.key_bodies import (
    KEEP_OLD_MS_MAX,
    KeyBody,
    KeyChange,
    KeyListView,
    RotateBody,
    check_grant,
    settings_of,
    view_key,
    view_new_key,
    view_new_signing,
)
from halfpast_api.access.key_ring import system_now_ms
from halfpast_api.access.key_store import KeyEntry, KeyStore, NewKey
from halfpast_api.access.key_text import is_id
from halfpast_api.answer import Answer
from halfpast_api.call import Call
from halfpast_api.metadata.access_settings import KeySettings
from halfpast_api.metadata.entry import Page
from halfpast_api.page_token import parse_name_token, render_token
from halfpast_api.problems import Refusal, refuse_field
from halfpast_api.reading import Reader

_DEPTH_MAX: Final = 16
_LIMIT_MAX: Final = 1000
_ALL: Final = "*"
_NOT_STORED: Final = ("Cache-Control", "no-store")


class KeyHandlers:
    """Handlers for keys. A caller sees those of its own namespace; of the whole
    suite, all."""

    def __init__(
        self, store: KeyStore, now_ms: Callable[[], int] = system_now_ms
    ) -> None:
        self._store = store
        self._now_ms = now_ms
        self._reader = Reader(KeyBody, _DEPTH_MAX)
        self._change_reader = Reader(KeyChange, _DEPTH_MAX)
        self._rotate_reader = Reader(RotateBody, _DEPTH_MAX)

    async def create(self, call: Call) -> Answer:
        """POST /v1/keys"""
        body = call.read(self._reader)
        access, now_ms = call.access, self._now_ms()
        namespace = access.namespace if body.namespace is None else body.namespace
        await self._check_place(access, namespace, body.all_namespaces)
        base = KeySettings(
            namespace="" if body.all_namespaces else namespace,
            all_namespaces=body.all_namespaces,
            created_by=access.actor,
        )
        settings = settings_of(body, base, now_ms)
        check_grant(access, settings)
        new = await self._store.create(settings, signing=body.signing)
        location = ("Location", f"/v1/keys/{new.key.key_id}")
        return self._answer_new(call, 201, new, location)

    async def list(self, call: Call) -> Answer:
        """GET /v1/keys"""
        query = call.query("namespace", "limit", "page_token")
        limit = query.integer("limit", 100, 1, _LIMIT_MAX)
        after = parse_name_token(query.text("page_token"))
        page = Page(after=(after,) if after else None, limit=limit)
        namespace: str | None = call.access.namespace
        if call.access.is_suite:
            namespace = query.values.get("namespace", namespace or _ALL)
            namespace = None if namespace == _ALL else namespace
        elif query.values.get("namespace", namespace) != namespace:
            raise unknown_namespace(query.values["namespace"])
        keys, behind = await self._store.page(page, namespace)
        views = [view_key(key, self._now_ms()) for key in keys]
        token = render_token((behind or "").encode())
        return call.answer(200, KeyListView(views, token))

    async def get(self, call: Call) -> Answer:
        """GET /v1/keys/{id}"""
        return self._answer(call, await self._find(call))

    async def change(self, call: Call) -> Answer:
        """PATCH /v1/keys/{id}"""
        body = call.read(self._change_reader)
        expected = headers.if_match(call.headers)
        if body == KeyChange():
            raise Refusal("missing_field", "say what is to be changed, such as scopes")
        key = await self._find(call)
        _check_live(key)
        check_grant(call.access, key.settings)
        settings = settings_of(body, key.settings, self._now_ms())
        check_grant(call.access, settings)
        return self._answer(call, await self._store.change(key, settings, expected))

    async def rotate(self, call: Call) -> Answer:
        """POST /v1/keys/{id}:rotate"""
        keep_old_ms = self._keep_old_ms(call)
        key = await self._find_to_grant(call)
        return self._answer_new(call, 200, await self._store.rotate(key, keep_old_ms))

    async def rotate_signing(self, call: Call) -> Answer:
        """POST /v1/keys/{id}:rotate-signing"""
        keep_old_ms = self._keep_old_ms(call)
        key = await self._find_to_grant(call)
        new = await self._store.rotate_signing(key, keep_old_ms)
        view = view_new_signing(new, self._now_ms())
        etag = ("ETag", f'"{new.key.entry.version}"')
        return call.answer(200, view, [etag, _NOT_STORED])

    async def drop_signing(self, call: Call) -> Answer:
        """POST /v1/keys/{id}:drop-signing"""
        key = await self._find(call)
        if key.settings.signing_secrets:
            key = await self._store.drop_signing(key)
        return self._answer(call, key)

    async def revoke(self, call: Call) -> Answer:
        """POST /v1/keys/{id}:revoke"""
        key = await self._find(call)
        if not key.settings.revoked_at_ms:
            key = await self._store.revoke(key)
        return self._answer(call, key)

    def _keep_old_ms(self, call: Call) -> int:
        body = call.read(self._rotate_reader) if call.body else RotateBody()
        if not 0 <= body.keep_old_ms <= KEEP_OLD_MS_MAX:
            raise refuse_field(
                "invalid_settings",
                "/keep_old_ms",
                f"must be 0 to {KEEP_OLD_MS_MAX} (30 days)",
            )
        return body.keep_old_ms

    async def _find_to_grant(self, call: Call) -> KeyEntry:
        """A key that the caller may take over: a secret is as good as its key."""
        key = await self._find(call)
        _check_live(key)
        check_grant(call.access, key.settings)
        return key

    async def _find(self, call: Call) -> KeyEntry:
        """Raises Refusal, for a key of another namespace as for one that is not."""
        key_id = call.parameters[0]
        key = await self._store.get(key_id) if is_id(key_id) else None
        access = call.access
        if key is not None and (
            access.is_suite
            or (
                key.settings.namespace == access.namespace
                and not key.settings.all_namespaces
            )
        ):
            return key
        raise Refusal(
            "unknown_key",
            f"there is no key {key_id[:40]!r}; list them with GET /v1/keys (halfpast "
            "keys list)",
        )

    async def _check_place(self, access: Access, namespace: str, is_all: bool) -> None:
        if is_all and not access.is_suite:
            raise Refusal(
                "forbidden",
                f"{access.actor} is bound to one namespace, so the keys that it makes "
                "are too; leave all_namespaces out",
            )
        if namespace == access.namespace:
            return
        if not access.is_suite or (
            namespace and await self._store.namespace(namespace) is None
        ):
            raise unknown_namespace(namespace)

    def _answer(self, call: Call, key: KeyEntry) -> Answer:
        etag = ("ETag", f'"{key.entry.version}"')
        return call.answer(200, view_key(key, self._now_ms()), [etag])

    def _answer_new(
        self, call: Call, status: int, new: NewKey, *extra: tuple[str, str]
    ) -> Answer:
        etag = ("ETag", f'"{new.key.entry.version}"')
        view = view_new_key(new, self._now_ms())
        return call.answer(status, view, [etag, *extra, _NOT_STORED])


def _check_live(key: KeyEntry) -> None:
    if key.settings.revoked_at_ms:
        raise Refusal(
            "key_revoked",
            f"the key {key.key_id} is revoked, which is for good; make a new one",
        )
