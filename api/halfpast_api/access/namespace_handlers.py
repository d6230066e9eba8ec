"""Administering namespaces."""

from typing import Final

import msgspec

from halfpast_api import headers
from halfpast_api.access.door import unknown_namespace
from halfpast_api.access.key_store import KeyStore
from halfpast_api.access.namespace_use import NamespaceUse
from halfpast_api.access.namespaced_names import check_namespace
from halfpast_api.answer import Answer
from halfpast_api.call import Call
from halfpast_api.limits.limit_store import LimitStore
from halfpast_api.limits.subject import Subject
from halfpast_api.metadata.access_settings import NamespaceSettings
from halfpast_api.metadata.entry import Entry, Page
from halfpast_api.page_token import parse_name_token, render_token
from halfpast_api.problems import Refusal
from halfpast_api.reading import Reader
from halfpast_api.times import render_instant

_DEPTH_MAX: Final = 16
_LIMIT_MAX: Final = 1000


class NamespaceBody(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Settings to give; what is left out gets its default."""

    description: str = ""
    suspended: bool = False


class NamespaceView(msgspec.Struct):
    """A namespace. `suspended`: its keys let nobody in, and nothing is deleted."""

    name: str
    description: str
    suspended: bool
    version: int
    created_at: str
    updated_at: str


class NamespaceListView(msgspec.Struct):
    """A page of namespaces, by name; the default one has none, and is not listed."""

    namespaces: list[NamespaceView]
    next_page_token: str | None


class DeletedNamespaceView(msgspec.Struct):
    """It is gone, and its name is free."""

    name: str
    outcome: str = "deleted"


class NamespaceHandlers:
    """Handlers for namespaces. Who is bound to one sees that alone."""

    def __init__(self, store: KeyStore, use: NamespaceUse, limits: LimitStore) -> None:
        self._store = store
        self._limits = limits
        self._use = use
        self._reader = Reader(NamespaceBody, _DEPTH_MAX)

    async def list(self, call: Call) -> Answer:
        """GET /v1/namespaces"""
        query = call.query("limit", "page_token")
        limit = query.integer("limit", 100, 1, _LIMIT_MAX)
        after = parse_name_token(query.text("page_token"))
        if not call.access.is_suite:
            own = await self._store.namespace(call.access.namespace)
            return call.answer(
                200, NamespaceListView([_view(own)] if own and not after else [], None)
            )
        page = Page(after=(after,) if after else None, limit=limit)
        listing = await self._store.namespaces(page)
        views = [_view(entry) for entry in listing.entries]
        behind = listing.next_after[0].encode() if listing.next_after else b""
        return call.answer(200, NamespaceListView(views, render_token(behind)))

    async def get(self, call: Call) -> Answer:
        """GET /v1/namespaces/{name}"""
        entry = await self._store.namespace(self._name(call))
        if entry is None:
            raise unknown_namespace(call.parameters[0])
        return _answer(call, 200, entry)

    async def put(self, call: Call) -> Answer:
        """PUT /v1/namespaces/{name}"""
        name = self._name(call)
        _check_suite(call)
        check_namespace(name)
        body = call.read(self._reader)
        expected = headers.if_match(call.headers)
        if headers.creates_only(call.headers):
            expected = 0
        if await self._store.namespace(name) is None:
            found = await self._use.found(name)
            if found:
                raise Refusal(
                    "namespace_in_use",
                    f"the default namespace has names that begin with {name + '%'!r}, "
                    f"such as {found}, which the namespace would take over; choose "
                    "another name",
                )
        settings = NamespaceSettings(
            description=body.description, suspended=body.suspended
        )
        written = await self._store.put_namespace(name, settings, expected=expected)
        return _answer(call, 201 if written.created else 200, written.entry)

    async def delete(self, call: Call) -> Answer:
        """DELETE /v1/namespaces/{name}

        Only an empty one: whoever gets the name next must not find anything.
        """
        name = self._name(call)
        _check_suite(call)
        expected = headers.if_match(call.headers)
        if await self._store.namespace(name) is None:
            raise unknown_namespace(name)
        found = await self._use.keys_found(name) or await self._use.found(name)
        if found:
            raise Refusal(
                "namespace_in_use",
                f"there is {found} in the namespace {name!r}, and topics and groups "
                'stay; revoke its keys, or PUT {"suspended": true} to let nobody in',
            )
        if not await self._store.delete_namespace(name, expected=expected):
            raise unknown_namespace(name)
        await self._limits.delete(Subject("namespace", name))
        return call.answer(200, DeletedNamespaceView(name))

    def _name(self, call: Call) -> str:
        """Raises Refusal for what is none of the caller's business."""
        name = call.parameters[0]
        if not call.access.is_suite and name != call.access.namespace:
            raise unknown_namespace(name)
        return name


def _check_suite(call: Call) -> None:
    if not call.access.is_suite:
        raise Refusal(
            "forbidden",
            f"{call.access.actor} is bound to this namespace and may not change it; "
            "use a key of the whole suite (halfpast keys create --all-namespaces)",
        )


def _view(entry: Entry[NamespaceSettings]) -> NamespaceView:
    return NamespaceView(
        name=entry.name,
        description=entry.settings.description,
        suspended=entry.settings.suspended,
        version=entry.version,
        created_at=render_instant(entry.created_at_ms),
        updated_at=render_instant(entry.updated_at_ms),
    )


def _answer(call: Call, status: int, entry: Entry[NamespaceSettings]) -> Answer:
    extra = [("ETag", f'"{entry.version}"')]
    if status == 201:
        extra.append(("Location", f"/v1/namespaces/{entry.name}"))
    return call.answer(status, _view(entry), extra)
