"""Administering producer groups: when and where they are asked for an outcome."""

import dataclasses
import secrets
from collections.abc import Callable, Sequence
from typing import Final
from urllib.parse import quote

import msgspec

from halfpast_api import headers
from halfpast_api.answer import Answer
from halfpast_api.call import Call
from halfpast_api.metadata.entry import Entry, Page
from halfpast_api.metadata.settings import ProducerGroupSettings
from halfpast_api.metadata.settings_store import SettingsStore
from halfpast_api.names import check_producer_group
from halfpast_api.page_token import parse_name_token, render_token
from halfpast_api.problems import Refusal
from halfpast_api.reading import Reader
from halfpast_api.times import render_instant
from halfpast_api.transactions.check_secrets import check_secrets, new_secret
from halfpast_api.transactions.check_url import check_url
from halfpast_txn.address_rules import AllowList

_DEPTH_MAX: Final = 16


class ProducerGroupBody(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Settings to give; what is left out gets its default, but for the secrets."""

    check_url: str | None = None
    check_secrets: list[str] | None = None
    check_after_ms: int | None = None
    check_interval_ms: int | None = None
    check_max: int | None = None
    check_timeout_ms: int | None = None
    check_concurrency_max: int | None = None
    description: str | None = None


class ProducerGroupView(msgspec.Struct, omit_defaults=True):
    """A producer group. `check_secrets` counts them, and is the secret itself in the
    one answer to the request that had it made."""

    name: str
    check_secrets: int | list[str]
    check_after_ms: int
    check_interval_ms: int
    check_max: int
    check_timeout_ms: int
    check_concurrency_max: int
    description: str
    version: int
    created_at: str
    updated_at: str
    check_url: str = ""


class ProducerGroupListView(msgspec.Struct):
    """A page of producer groups, in the order of their names."""

    producer_groups: list[ProducerGroupView]
    next_page_token: str | None


class DeletedView(msgspec.Struct):
    """The producer group has its defaults again."""

    name: str
    outcome: str = "deleted"


class ProducerGroupHandlers:
    """Handlers for producer groups. `allow_list`: what is not public and may still
    be a check_url."""

    def __init__(
        self,
        metadata: SettingsStore,
        allow_list: AllowList,
        random_bytes: Callable[[int], bytes] = secrets.token_bytes,
    ) -> None:
        self._metadata = metadata
        self._allow_list = allow_list
        self._random_bytes = random_bytes
        self._reader = Reader(ProducerGroupBody, _DEPTH_MAX)

    async def list(self, call: Call) -> Answer:
        """GET /v1/producer-groups

        Those that have settings.
        """
        query = call.query("limit", "page_token")
        limit = query.integer("limit", 100, 1, 1000)
        after = parse_name_token(query.text("page_token"))
        page = Page(after=(after,) if after else None, limit=limit)
        listing = await self._metadata.producer_groups(page)
        views = [_view(entry) for entry in listing.entries]
        last = listing.next_after[0].encode() if listing.next_after else b""
        return call.answer(200, ProducerGroupListView(views, render_token(last)))

    async def get(self, call: Call) -> Answer:
        """GET /v1/producer-groups/{group}"""
        name = call.parameters[0]
        check_producer_group(name)
        entry = await self._metadata.producer_group(name)
        if entry is None:
            raise _unknown(name)
        return _answer(call, 200, _view(entry))

    async def put(self, call: Call) -> Answer:
        """PUT /v1/producer-groups/{group}

        Secrets cannot be read again, so whoever changes something else leaves them
        out and they stay; one is made where a check_url has none.
        """
        name = call.parameters[0]
        check_producer_group(name)
        body = call.read(self._reader)
        expected = headers.if_match(call.headers)
        if headers.creates_only(call.headers):
            expected = 0
        settings = self._settings(body)
        made: list[str] = []
        if settings.check_url and not settings.check_secrets:
            before = await self._metadata.producer_group(name)
            if expected is None:  # or a secret given meanwhile would be undone
                expected = before.version if before else 0
            kept = before.settings.check_secrets if before else ()
            if not kept:
                made = [new_secret(self._random_bytes)]
            settings = dataclasses.replace(settings, check_secrets=kept or tuple(made))
        written = await self._metadata.put_producer_group(
            name, settings, expected=expected
        )
        view = _view(written.entry)
        view.check_secrets = made or view.check_secrets
        return _answer(call, 201 if written.created else 200, view)

    async def delete(self, call: Call) -> Answer:
        """DELETE /v1/producer-groups/{group}

        Its open transactions stay, with the policy that they began with.
        """
        name = call.parameters[0]
        check_producer_group(name)
        expected = headers.if_match(call.headers)
        if not await self._metadata.delete_producer_group(name, expected=expected):
            raise _unknown(name)
        return call.answer(200, DeletedView(name))

    def _settings(self, body: ProducerGroupBody) -> ProducerGroupSettings:
        """What the request asks for. Raises Refusal."""
        if body.check_url is not None:
            check_url(body.check_url, self._allow_list)
        given = msgspec.structs.asdict(body)
        if body.check_secrets is not None:
            check_secrets(body.check_secrets)
            given["check_secrets"] = tuple(body.check_secrets)
        new = {field: value for field, value in given.items() if value is not None}
        return dataclasses.replace(ProducerGroupSettings(), **new)


def _view(entry: Entry[ProducerGroupSettings]) -> ProducerGroupView:
    settings = entry.settings
    return ProducerGroupView(
        name=entry.name,
        check_url=settings.check_url,
        check_secrets=len(settings.check_secrets),
        check_after_ms=settings.check_after_ms,
        check_interval_ms=settings.check_interval_ms,
        check_max=settings.check_max,
        check_timeout_ms=settings.check_timeout_ms,
        check_concurrency_max=settings.check_concurrency_max,
        description=settings.description,
        version=entry.version,
        created_at=render_instant(entry.created_at_ms),
        updated_at=render_instant(entry.updated_at_ms),
    )


def _unknown(name: str) -> Refusal:
    return Refusal(
        "unknown_producer_group",
        f"the producer group {name!r} has no settings; PUT /v1/producer-groups/{name} "
        "gives it some (transactions may begin without, and then have the defaults)",
    )


def _answer(call: Call, status: int, view: ProducerGroupView) -> Answer:
    extra: Sequence[tuple[str, str]] = [("ETag", f'"{view.version}"')]
    if status == 201:
        location = f"/v1/producer-groups/{quote(view.name)}"
        extra = [*extra, ("Location", location)]
    return call.answer(status, view, extra)
