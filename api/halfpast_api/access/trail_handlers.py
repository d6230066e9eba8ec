"""Looking at oneself, and at the trail."""

from typing import Any, Final

import msgspec

from halfpast_api.access.access import Access
from halfpast_api.access.door import Door, unknown_namespace
from halfpast_api.access.trail import Trail
from halfpast_api.access.trail_rows import TrailEntry, TrailFilter
from halfpast_api.answer import Answer
from halfpast_api.call import Call
from halfpast_api.page_token import parse_name_token, render_token
from halfpast_api.query import Query
from halfpast_api.times import render_instant

_LIMIT_MAX: Final = 1000
_MS_MAX: Final = 2**53
_ALL: Final = "*"


class WhoView(msgspec.Struct, kw_only=True):
    """Who the caller is, and what that allows. `mode`: open | keys."""

    actor: str
    kind: str
    role: str
    namespace: str
    all_namespaces: bool
    scopes: list[str]
    view_payload: bool
    key_id: str
    mode: str


class TrailEntryView(msgspec.Struct, kw_only=True):
    """One act. `before` and `after` leave out secrets and payload."""

    id: str
    at: str
    actor: str
    namespace: str
    action: str
    object: str
    request_id: str
    status: int
    before: Any
    after: Any


class TrailPageView(msgspec.Struct):
    """A page of the trail, the newest first."""

    entries: list[TrailEntryView]
    next_page_token: str | None


class TrailHandlers:
    """The handlers."""

    def __init__(self, trail: Trail, door: Door) -> None:
        self._trail = trail
        self._door = door

    async def who(self, call: Call) -> Answer:
        """GET /v1/whoami"""
        access = call.access
        view = WhoView(
            actor=access.actor,
            kind=access.kind,
            role=access.role,
            namespace=access.namespace,
            all_namespaces=access.is_suite,
            scopes=list(access.scopes.texts),
            view_payload=access.may_view_payload,
            key_id=access.key_id,
            mode="open" if self._door.is_open else "keys",
        )
        return call.answer(200, view)

    async def list(self, call: Call) -> Answer:
        """GET /v1/trail"""
        query = call.query(
            *("actor", "action", "object", "namespace", "after", "before"),
            *("limit", "page_token"),
        )
        limit = query.integer("limit", 100, 1, _LIMIT_MAX)
        behind = parse_name_token(query.text("page_token"))
        wanted = TrailFilter(
            namespace=_namespace(call.access, query),
            actor=query.text("actor"),
            action=query.text("action"),
            object=query.text("object"),
            after_ms=_moment(query, "after"),
            before_ms=_moment(query, "before"),
        )
        entries = await self._trail.page(wanted, limit, behind)
        last = entries[-1].id.encode() if len(entries) == limit else b""
        views = [view_entry(entry) for entry in entries]
        return call.answer(200, TrailPageView(views, render_token(last)))


def view_entry(entry: TrailEntry) -> TrailEntryView:
    return TrailEntryView(
        id=entry.id,
        at=render_instant(entry.at_ms),
        actor=entry.actor,
        namespace=entry.namespace,
        action=entry.action,
        object=entry.object,
        request_id=entry.request_id,
        status=entry.status,
        before=_decoded(entry.before),
        after=_decoded(entry.after),
    )


def _namespace(access: Access, query: Query) -> str | None:
    """Which namespace's entries; None for all. Raises Refusal."""
    if not access.is_suite:
        given = query.values.get("namespace", access.namespace)
        if given != access.namespace:
            raise unknown_namespace(given)
        return access.namespace
    given = query.values.get("namespace", access.namespace or _ALL)
    return None if given == _ALL else given


def _moment(query: Query, name: str) -> int | None:
    if query.text(name) is None:
        return None
    return min(max(query.instant(name, 0), 0), _MS_MAX)


def _decoded(text: str) -> Any:
    return msgspec.json.decode(text) if text else None
