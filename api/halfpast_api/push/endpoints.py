"""Administering endpoints: where messages are pushed to."""

import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import quote

from halfpast_api import headers
from halfpast_api.access.namespaced_names import names_in
from halfpast_api.answer import Answer
from halfpast_api.call import Call
from halfpast_api.metadata.endpoint_settings import (
    EARLIEST,
    ENABLED,
    PAUSED,
    EndpointSettings,
)
from halfpast_api.metadata.entry import Entry, Page
from halfpast_api.metadata.settings_store import SettingsStore
from halfpast_api.page_token import parse_name_token, render_token
from halfpast_api.problems import Refusal, refuse_field
from halfpast_api.push.endpoint_body import (
    EndpointBody,
    ReasonBody,
    RotateBody,
    settings_of,
)
from halfpast_api.push.endpoint_name import (
    GROUP_PREFIX,
    check_endpoint_name,
    stored_name,
)
from halfpast_api.push.endpoint_view import (
    DeletedEndpointView,
    EndpointListView,
    EndpointView,
    RotatedView,
    view_endpoint,
)
from halfpast_api.push.push_server import AskEndpoint, EndpointNow, PushServer
from halfpast_api.push.starting_place import begin_on
from halfpast_api.reading import Reader
from halfpast_api.topic_directory import TopicDirectory
from halfpast_api.transactions.check_secrets import check_secrets, new_secret
from halfpast_core_store.broker import Broker, Empty
from halfpast_core_store.errors import CoreError
from halfpast_txn.address_rules import AllowList

_DEPTH_MAX: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointParts:
    """What handlers of endpoints need, as one namespace sees it. `push` None: there is
    no push process that could be asked."""

    namespace: str
    broker: Broker
    directory: TopicDirectory
    metadata: SettingsStore
    push: PushServer | None
    allow: AllowList
    random_bytes: Callable[[int], bytes] = secrets.token_bytes


class EndpointHandlers:
    """Handlers for endpoints."""

    def __init__(self, parts: EndpointParts) -> None:
        self._parts = parts
        self._metadata = parts.metadata
        self._reader = Reader(EndpointBody, _DEPTH_MAX)
        self._reason_reader = Reader(ReasonBody, _DEPTH_MAX)
        self._rotate_reader = Reader(RotateBody, _DEPTH_MAX)

    async def list(self, call: Call) -> Answer:
        """GET /v1/endpoints"""
        query = call.query("limit", "page_token")
        limit = query.integer("limit", 100, 1, 1000)
        after = parse_name_token(query.text("page_token"))
        page = Page(after=(after,) if after else None, limit=limit)
        listing = await self._metadata.endpoints(page)
        views = [view_endpoint(self._outside(entry)) for entry in listing.entries]
        last = listing.next_after[0].encode() if listing.next_after else b""
        return call.answer(200, EndpointListView(views, render_token(last)))

    async def get(self, call: Call) -> Answer:
        """GET /v1/endpoints/{name}"""
        entry = await self._entry(call)
        return _answer(call, 200, view_endpoint(entry, await self._now(entry.name)))

    async def put(self, call: Call) -> Answer:
        """PUT /v1/endpoints/{name}"""
        name = _name(call)
        body = call.read(self._reader)
        expected = headers.if_match(call.headers)
        if headers.creates_only(call.headers):
            expected = 0
        found = await self._metadata.endpoint(name)
        before = self._outside(found) if found else None
        base = EndpointSettings()
        if before is not None:
            kept = before.settings
            base = replace(
                base,
                secrets=kept.secrets,
                state=kept.state,
                reason=kept.reason,
                start=kept.start,
            )
        return await self._write(call, name, body, base, before, expected)

    async def patch(self, call: Call) -> Answer:
        """PATCH /v1/endpoints/{name}"""
        body = call.read(self._reader)
        expected = headers.if_match(call.headers)
        before = await self._entry(call)
        base = before.settings
        return await self._write(call, before.name, body, base, before, expected)

    async def delete(self, call: Call) -> Answer:
        """DELETE /v1/endpoints/{name}

        Its attempts and dead letters stay for a while.
        """
        name = _name(call)
        expected = headers.if_match(call.headers)
        if not await self._metadata.delete_endpoint(name, expected=expected):
            raise _unknown(name)
        await self._tell()
        return call.answer(200, DeletedEndpointView(name))

    async def pause(self, call: Call) -> Answer:
        """POST /v1/endpoints/{name}:pause"""
        reason = call.read(self._reason_reader).reason if call.body else ""
        return await self._change_state(call, PAUSED, reason)

    async def resume(self, call: Call) -> Answer:
        """POST /v1/endpoints/{name}:resume · :enable"""
        if call.body:
            call.read(self._reason_reader)
        return await self._change_state(call, ENABLED, "")

    async def rotate_secret(self, call: Call) -> Answer:
        """POST /v1/endpoints/{name}:rotate-secret

        The secret before signs as well, until this is finished or done again.
        """
        body = call.read(self._rotate_reader) if call.body else RotateBody()
        entry = await self._entry(call)
        expected = headers.if_match(call.headers)
        if expected is None:
            expected = entry.version
        kept = entry.settings.secrets
        made: str | None = None
        if body.finish:
            if body.secret is not None:
                detail = "finish takes no new secret; give one of the two"
                raise refuse_field("invalid_request", "/finish", detail)
            live = kept[:1]
        else:
            made = body.secret or new_secret(self._parts.random_bytes)
            live = (made, *kept[:1])
            if body.secret is not None:
                check_secrets(live, "secret", "then one is made")
        settings = replace(entry.settings, secrets=live)
        written = await self._put(entry.name, settings, expected)
        view = RotatedView(entry.name, made, len(live), written.version)
        return call.answer(200, view, [("ETag", f'"{written.version}"')])

    async def _write(
        self,
        call: Call,
        name: str,
        body: EndpointBody,
        base: EndpointSettings,
        before: Entry[EndpointSettings] | None,
        expected: int | None,
    ) -> Answer:
        settings = settings_of(body, base, self._parts.allow)
        if before is not None and settings.start != before.settings.start:
            detail = (
                "where an endpoint begins is decided when it is made; to have what is "
                f"kept once more, move its group: PUT /v1/groups/{GROUP_PREFIX}{name}"
                f"/offsets; {EARLIEST!r} is for new ones"
            )
            raise refuse_field("invalid_settings", "/start", detail)
        made: list[str] = []
        if not settings.secrets:
            made = [new_secret(self._parts.random_bytes)]
            settings = replace(settings, secrets=tuple(made))
        if expected is None:  # or what was done meanwhile would be undone
            expected = before.version if before else 0
        was = before.settings if before else None
        if before is None or before.version == expected:
            for topic in settings.topics:
                if "*" not in topic:  # made where that is allowed, as a pop does
                    await self._parts.directory.to_read(topic)
            await begin_on(self._parts.broker, GROUP_PREFIX + name, settings, was)
        written = await self._put(name, settings, expected)
        view = view_endpoint(written)
        view.secrets = made or view.secrets
        return _answer(call, 201 if before is None else 200, view)

    async def _change_state(self, call: Call, state: str, reason: str) -> Answer:
        entry = await self._entry(call)
        expected = headers.if_match(call.headers)
        if expected is None:
            expected = entry.version
        settings = replace(entry.settings, state=state, reason=reason)
        written = await self._put(entry.name, settings, expected)
        return _answer(call, 200, view_endpoint(written, await self._now(entry.name)))

    async def _put(
        self, name: str, settings: EndpointSettings, expected: int
    ) -> Entry[EndpointSettings]:
        names = names_in(self._parts.namespace)
        topics = tuple(names.inside(topic) or topic for topic in settings.topics)
        stored = replace(settings, topics=topics)
        written = await self._metadata.put_endpoint(name, stored, expected=expected)
        await self._tell()
        return self._outside(written.entry)

    def _outside(self, entry: Entry[EndpointSettings]) -> Entry[EndpointSettings]:
        """With the topics as the namespace knows them."""
        return outside(entry, self._parts.namespace)

    async def _tell(self) -> None:
        """Have the push process look at once; without that it does so soon."""
        if self._parts.push is not None:
            with suppress(CoreError, OSError):
                await self._parts.push.heed_settings(Empty())

    async def _now(self, name: str) -> EndpointNow | None:
        if self._parts.push is None:
            return None
        with suppress(CoreError, OSError):
            asked = AskEndpoint(stored_name(self._parts.namespace, name))
            return await self._parts.push.endpoint_now(asked)
        return None

    async def _entry(self, call: Call) -> Entry[EndpointSettings]:
        return self._outside(await find_endpoint(self._metadata, call))


def outside(entry: Entry[EndpointSettings], namespace: str) -> Entry[EndpointSettings]:
    """An endpoint with its topics as the namespace knows them."""
    names, settings = names_in(namespace), entry.settings
    topics = tuple(names.outside(topic) or topic for topic in settings.topics)
    return replace(entry, settings=replace(settings, topics=topics))


async def find_endpoint(metadata: SettingsStore, call: Call) -> Entry[EndpointSettings]:
    """The endpoint of the path, as it is stored. Raises Refusal."""
    name = _name(call)
    entry = await metadata.endpoint(name)
    if entry is None:
        raise _unknown(name)
    return entry


def _name(call: Call) -> str:
    name = call.parameters[0]
    check_endpoint_name(name)
    return name


def _unknown(name: str) -> Refusal:
    return Refusal(
        "unknown_endpoint",
        f"there is no endpoint {name!r}; PUT /v1/endpoints/{name} makes it, and "
        "GET /v1/endpoints lists those that there are",
    )


def _answer(call: Call, status: int, view: EndpointView) -> Answer:
    extra: Sequence[tuple[str, str]] = [("ETag", f'"{view.version}"')]
    if status == 201:
        extra = [*extra, ("Location", f"/v1/endpoints/{quote(view.name)}")]
    return call.answer(status, view, extra)
