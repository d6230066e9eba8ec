"""Administering topics: their queues, which the log knows, and their settings."""

import dataclasses
from typing import Final
from urllib.parse import quote

import msgspec

from halfpast_api import headers
from halfpast_api.answer import Answer
from halfpast_api.call import Call
from halfpast_api.delay.release_view import (
    ReleaseView,
    heed_settings,
    pending_of,
    release_of,
)
from halfpast_api.metadata.entry import Entry
from halfpast_api.metadata.settings import FlushMode, TopicSettings, check
from halfpast_api.metadata.settings_store import SettingsStore
from halfpast_api.names import check_topic_to_read, check_topic_to_write
from halfpast_api.page_token import parse_name_token, render_token
from halfpast_api.problems import Refusal
from halfpast_api.reading import Reader
from halfpast_api.times import render_instant
from halfpast_api.topic_directory import Settings, TopicDirectory
from halfpast_chronos.delay_server import DelayServer
from halfpast_core_store.broker import (
    Broker,
    DescribeTopic,
    EnsureTopic,
    ListTopics,
    TopicDescription,
    TopicInfo,
)
from halfpast_core_store.errors import QueuesShrink, UnknownTopic

_DEPTH_MAX: Final = 16


class TopicBody(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Settings to give; what is left out gets its default, or stays with PATCH."""

    queues: int | None = None
    max_delay_ms: int | None = None
    max_body_bytes: int | None = None
    flush: FlushMode | None = None
    description: str | None = None
    paused: bool | None = None
    accepting: bool | None = None
    release_rate_per_s: int | None = None
    max_pending: int | None = None


class NewTopicBody(TopicBody, kw_only=True):
    """Settings and the name of a new topic."""

    name: str


class QueueView(msgspec.Struct):
    """What a queue holds; `max_offset` is the next one to be written."""

    queue: int
    min_offset: int
    max_offset: int


class TopicView(msgspec.Struct, omit_defaults=True):
    """A topic. `version` is that of its settings, 0 if nobody has given any. `pending`
    tells in lists how many events wait; `release` tells more of one topic."""

    name: str
    queues: int
    max_delay_ms: int
    max_body_bytes: int
    flush: str
    description: str
    paused: bool
    accepting: bool
    release_rate_per_s: int
    max_pending: int
    version: int | None = None
    created_at: str | None = None
    updated_at: str | None = None
    pending: int | None = None
    queue_offsets: list[QueueView] | None = None
    release: ReleaseView | None = None


class TopicListView(msgspec.Struct):
    """A page of topics, in the order of their names."""

    topics: list[TopicView]
    next_page_token: str | None


class TopicAdminHandlers:
    """Handlers for topics."""

    def __init__(
        self,
        broker: Broker,
        metadata: SettingsStore,
        settings: Settings,
        directory: TopicDirectory,
        delay: DelayServer,
    ) -> None:
        self._broker = broker
        self._delay = delay
        self._metadata = metadata
        self._settings = settings
        self._directory = directory
        self._reader = Reader(TopicBody, _DEPTH_MAX)
        self._new_reader = Reader(NewTopicBody, _DEPTH_MAX)

    async def list(self, call: Call) -> Answer:
        """GET /v1/topics"""
        query = call.query("limit", "page_token")
        limit = query.integer("limit", 100, 1, 1000)
        after = parse_name_token(query.text("page_token"))
        found = (await self._broker.list_topics(ListTopics(after, limit))).topics
        may = call.access.allows
        seen = [info for info in found if may(call.verb, info.name)]
        views = [self._cached_view(info) for info in seen]
        counts = await pending_of(self._delay, [info.id for info in seen])
        for view, count in zip(views, counts, strict=False):
            view.pending = count
        last = found[-1].name.encode() if len(found) == limit else b""
        return call.answer(200, TopicListView(views, render_token(last)))

    async def create(self, call: Call) -> Answer:
        """POST /v1/topics"""
        body = call.read(self._new_reader)
        call.check_topic(body.name)
        check_topic_to_write(body.name)
        if await self._describe(body.name) is not None:
            raise Refusal(
                "topic_exists",
                f"there is a topic {body.name!r} already; change it with PATCH",
            )
        return await self._put(call, body.name, body, TopicSettings(), None)

    async def get(self, call: Call) -> Answer:
        """GET /v1/topics/{topic}"""
        name = call.parameters[0]
        check_topic_to_read(name)
        described = await self._describe(name)
        if described is None:
            raise UnknownTopic(name)
        entry = await self._metadata.topic(name)
        view = _view(described, self._defaults(name), entry)
        view.release = await release_of(
            self._delay, described.topic.id, is_paused=view.paused
        )
        return _answer(call, 200, view)

    async def put(self, call: Call) -> Answer:
        """PUT /v1/topics/{topic}"""
        name = call.parameters[0]
        check_topic_to_write(name)
        body = call.read(self._reader)
        expected = headers.if_match(call.headers)
        if headers.creates_only(call.headers):
            expected = 0
        return await self._put(call, name, body, TopicSettings(), expected)

    async def patch(self, call: Call) -> Answer:
        """PATCH /v1/topics/{topic}"""
        name = call.parameters[0]
        check_topic_to_write(name)
        body = call.read(self._reader)
        expected = headers.if_match(call.headers)
        if await self._describe(name) is None:
            raise UnknownTopic(name)
        entry = await self._metadata.topic(name)
        base = entry.settings if entry else self._defaults(name)
        if expected is None and entry is not None:
            expected = entry.version  # or a change in between would be undone
        return await self._put(call, name, body, base, expected)

    async def _put(
        self,
        call: Call,
        name: str,
        body: TopicBody,
        base: TopicSettings,
        expected: int | None,
    ) -> Answer:
        described = await self._describe(name)
        settings = _changed(base, body)
        check(settings)
        if described is not None:
            count = described.topic.queue_count
            if body.queues is None:
                settings = dataclasses.replace(settings, queues=count)
            elif body.queues < count:
                raise QueuesShrink(name, count, body.queues)
        written = await self._metadata.put_topic(name, settings, expected=expected)
        await self._broker.ensure_topic(EnsureTopic(name, settings.queues))
        self._directory.forget(name)
        await heed_settings(self._delay)
        now = await self._broker.describe_topic(DescribeTopic(name))
        status = 201 if described is None else 200
        return _answer(call, status, _view(now, settings, written.entry))

    async def _describe(self, name: str) -> TopicDescription | None:
        try:
            return await self._broker.describe_topic(DescribeTopic(name))
        except UnknownTopic:
            return None

    def _defaults(self, name: str) -> TopicSettings:
        return self._settings.topic_settings(name)

    def _cached_view(self, info: TopicInfo) -> TopicView:
        settings = self._settings.topic_settings(info.name)
        return _view(TopicDescription(info, []), settings, None)


def _changed(base: TopicSettings, body: TopicBody) -> TopicSettings:
    names = [field.name for field in dataclasses.fields(TopicSettings)]
    given = {name: getattr(body, name) for name in names}
    new = {name: value for name, value in given.items() if value is not None}
    return dataclasses.replace(base, **new)


def _view(
    described: TopicDescription,
    settings: TopicSettings,
    entry: Entry[TopicSettings] | None,
) -> TopicView:
    if entry is not None:
        settings = entry.settings
    view = TopicView(
        name=described.topic.name,
        queues=described.topic.queue_count,
        max_delay_ms=settings.max_delay_ms,
        max_body_bytes=settings.max_body_bytes,
        flush=settings.flush,
        description=settings.description,
        paused=settings.paused,
        accepting=settings.accepting,
        release_rate_per_s=settings.release_rate_per_s,
        max_pending=settings.max_pending,
    )
    if described.queues:
        view.version = entry.version if entry else 0
        view.queue_offsets = [
            QueueView(it.queue, it.offset_min, it.offset_max) for it in described.queues
        ]
    if entry is not None:
        view.created_at = render_instant(entry.created_at_ms)
        view.updated_at = render_instant(entry.updated_at_ms)
    return view


def _answer(call: Call, status: int, view: TopicView) -> Answer:
    extra = [("ETag", f'"{view.version}"')]
    if status == 201:
        extra.append(("Location", f"/v1/topics/{quote(view.name)}"))
    return call.answer(status, view, extra)
