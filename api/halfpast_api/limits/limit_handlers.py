"""Giving limits, taking them away, and looking at those of others."""

from typing import Final
from urllib.parse import quote

from halfpast_api import headers
from halfpast_api.access.door import unknown_namespace
from halfpast_api.access.key_store import KeyStore
from halfpast_api.access.namespaced_names import DEFAULT
from halfpast_api.answer import Answer
from halfpast_api.call import Call
from halfpast_api.limits.limit_bodies import (
    DeletedLimitsView,
    LimitsBody,
    LimitsPageView,
    limits_of,
    view_limits,
)
from halfpast_api.limits.limit_store import LimitEntry, LimitStore
from halfpast_api.limits.subject import Subject, parse_subject
from halfpast_api.page_token import parse_token, render_token
from halfpast_api.problems import Refusal
from halfpast_api.reading import Reader

_DEPTH_MAX: Final = 16
_LIMIT_MAX: Final = 1000


class LimitHandlers:
    """Handlers for the limits of keys, users and namespaces. Who is bound to a
    namespace sees and limits the keys of that one alone, and sees its own limits."""

    def __init__(self, store: LimitStore, keys: KeyStore) -> None:
        self._store = store
        self._keys = keys
        self._reader = Reader(LimitsBody, _DEPTH_MAX)

    async def list(self, call: Call) -> Answer:
        """GET /v1/limits/subjects"""
        query = call.query("limit", "page_token")
        limit = query.integer("limit", 100, 1, _LIMIT_MAX)
        after = parse_token(query.text("page_token")).decode("utf-8", "replace")
        found, behind = await self._store.page(after, limit)
        if not call.access.is_suite:
            found = [it for it in found if await self._is_seen(call, it.subject)]
        views = [view_limits(entry) for entry in found]
        return call.answer(200, LimitsPageView(views, render_token(behind.encode())))

    async def get(self, call: Call) -> Answer:
        """GET /v1/limits/subjects/{subject}"""
        subject = await self._subject(call, to_change=False)
        entry = await self._store.get(subject)
        if entry is None:
            raise _no_limits(subject)
        return _answer(call, 200, entry)

    async def put(self, call: Call) -> Answer:
        """PUT /v1/limits/subjects/{subject}"""
        subject = await self._subject(call, to_change=True)
        limits = limits_of(call.read(self._reader))
        expected = headers.if_match(call.headers)
        if headers.creates_only(call.headers):
            expected = 0
        if not limits.values():
            raise Refusal(
                "missing_field",
                "give at least one limit, such as requests_per_s; DELETE takes all "
                "away",
            )
        entry, is_new = await self._store.put(subject, limits, expected=expected)
        return _answer(call, 201 if is_new else 200, entry)

    async def delete(self, call: Call) -> Answer:
        """DELETE /v1/limits/subjects/{subject}"""
        subject = await self._subject(call, to_change=True)
        expected = headers.if_match(call.headers)
        if not await self._store.delete(subject, expected=expected):
            raise _no_limits(subject)
        return call.answer(200, DeletedLimitsView(str(subject)))

    async def _is_seen(self, call: Call, text: str) -> bool:
        try:
            await self._check(call, parse_subject(text), to_change=False)
        except Refusal:
            return False
        return True

    async def _subject(self, call: Call, *, to_change: bool) -> Subject:
        subject = parse_subject(call.parameters[0])
        await self._check(call, subject, to_change=to_change)
        return subject

    async def _check(self, call: Call, subject: Subject, *, to_change: bool) -> None:
        """Raise Refusal for what is not there, or is none of the caller's business."""
        access = call.access
        if subject.kind == "key" and not subject.is_every:
            key = await self._keys.get(subject.name)
            is_own = key is not None and (
                key.settings.namespace == access.namespace
                and not key.settings.all_namespaces
            )
            if key is None or not (access.is_suite or is_own):
                raise Refusal(
                    "unknown_key",
                    f"there is no key {subject.name!r}; list them with GET /v1/keys "
                    "(halfpast keys list)",
                )
            return
        is_here = subject == Subject("namespace", access.namespace)
        if subject.kind == "namespace" and not subject.is_every:
            exists = subject.name == DEFAULT or (
                (access.is_suite or is_here)
                and await self._keys.namespace(subject.name) is not None
            )
            if not exists or not (access.is_suite or is_here):
                raise unknown_namespace(subject.name)
        if not access.is_suite and (to_change or not is_here):
            raise Refusal(
                "forbidden",
                f"{access.actor} is bound to one namespace and limits the keys of that "
                "alone; use a key of the whole suite (halfpast keys create "
                "--all-namespaces)",
            )


def _no_limits(subject: Subject) -> Refusal:
    return Refusal(
        "no_limits",
        f"{subject} has no limits of its own; give it some with PUT, or list who has "
        "with GET /v1/limits/subjects (halfpast limits list)",
    )


def _answer(call: Call, status: int, entry: LimitEntry) -> Answer:
    extra = [("ETag", f'"{entry.version}"')]
    if status == 201:
        place = quote(entry.subject, safe=":@")
        extra.append(("Location", f"/v1/limits/subjects/{place}"))
    return call.answer(status, view_limits(entry), extra)
