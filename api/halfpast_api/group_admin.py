"""Administering consumer groups: their settings, where they stand, moving them."""

import dataclasses
from typing import Annotated, Final
from urllib.parse import quote

import msgspec
from msgspec import Meta

from halfpast_api import headers
from halfpast_api.answer import Answer
from halfpast_api.call import Call
from halfpast_api.metadata.entry import Entry, Page
from halfpast_api.metadata.settings import GroupSettings
from halfpast_api.metadata.settings_store import SettingsStore
from halfpast_api.names import check_group, check_topic_to_read
from halfpast_api.page_token import parse_name_token, render_token
from halfpast_api.problems import Refusal, refuse_field
from halfpast_api.reading import Reader
from halfpast_api.times import render_instant
from halfpast_api.topic_directory import Settings
from halfpast_core_store.broker import Broker, CommitOffsets, ListGroups
from halfpast_core_store.group_standing import DescribeGroup, GroupDescription

_DEPTH_MAX: Final = 16
_BEHIND_ALL: Final = "~"  # sorts behind every character of a name

Offset = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Offsets = Annotated[dict[int, Offset], Meta(min_length=1)]


class GroupBody(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Settings to give; what is left out gets its default."""

    max_attempts: int | None = None
    backoff_initial_ms: int | None = None
    backoff_max_ms: int | None = None
    invisible_ms: int | None = None
    ordered: bool | None = None


class OffsetsBody(msgspec.Struct, forbid_unknown_fields=True):
    """Where the group is to continue, by queue."""

    topic: str
    offsets: Offsets


class GroupView(msgspec.Struct, omit_defaults=True):
    """A group. `version` is that of its settings, 0 if nobody has given any."""

    name: str
    max_attempts: int
    backoff_initial_ms: int
    backoff_max_ms: int
    invisible_ms: int
    ordered: bool
    version: int | None = None
    created_at: str | None = None
    updated_at: str | None = None


class GroupListView(msgspec.Struct):
    """A page of groups, in the order of their names."""

    groups: list[GroupView]
    next_page_token: str | None


class QueueLagView(msgspec.Struct):
    """`offset` is the next message that the group has not been given."""

    queue: int
    offset: int
    min_offset: int
    max_offset: int
    lag: int


class LagView(msgspec.Struct):
    """`lag` counts messages not settled: not given yet, and those in flight. Of these
    `held_back` wait for an earlier one of their key, in an ordered group."""

    group: str
    topic: str
    lag: int
    in_flight: int
    held_back: int
    queues: list[QueueLagView]


class GroupAdminHandlers:
    """Handlers for groups."""

    def __init__(
        self, broker: Broker, metadata: SettingsStore, settings: Settings
    ) -> None:
        self._broker = broker
        self._metadata = metadata
        self._settings = settings
        self._reader = Reader(GroupBody, _DEPTH_MAX)
        self._offsets_reader = Reader(OffsetsBody, _DEPTH_MAX)

    async def list(self, call: Call) -> Answer:
        """GET /v1/groups

        Groups that have consumed and groups that have settings.
        """
        query = call.query("limit", "page_token")
        limit = query.integer("limit", 100, 1, 1000)
        after = parse_name_token(query.text("page_token"))
        used = (await self._broker.list_groups(ListGroups(after, limit))).names
        page = Page(after=(after,) if after else None, limit=limit)
        entries = (await self._metadata.groups(page)).entries
        names = sorted({*used, *(entry.name for entry in entries)})[:limit]
        views = [self._cached_view(name) for name in names]
        last = names[-1].encode() if len(names) == limit else b""
        return call.answer(200, GroupListView(views, render_token(last)))

    async def get(self, call: Call) -> Answer:
        """GET /v1/groups/{group}"""
        name = call.parameters[0]
        check_group(name)
        entry = await self._metadata.group(name)
        if entry is None and not await self._is_used(name):
            raise _unknown(name)
        return _answer(call, 200, self._view(name, entry))

    async def put(self, call: Call) -> Answer:
        """PUT /v1/groups/{group}"""
        name = call.parameters[0]
        check_group(name)
        body = call.read(self._reader)
        expected = headers.if_match(call.headers)
        if headers.creates_only(call.headers):
            expected = 0
        given = msgspec.structs.asdict(body)
        new = {field: value for field, value in given.items() if value is not None}
        settings = dataclasses.replace(GroupSettings(), **new)
        written = await self._metadata.put_group(name, settings, expected=expected)
        status = 201 if written.created else 200
        return _answer(call, status, self._view(name, written.entry))

    async def lag(self, call: Call) -> Answer:
        """GET /v1/groups/{group}/lag"""
        group = call.parameters[0]
        check_group(group)
        topic = call.query("topic").text("topic")
        if topic is None:
            raise Refusal(
                "invalid_parameter", "say of which topic, such as ?topic=orders"
            )
        call.check_topic(topic)
        check_topic_to_read(topic)
        described = await self._describe(group, topic)
        if not described.known:
            raise _unknown(group)
        return call.answer(200, _lag_view(group, topic, described))

    async def put_offsets(self, call: Call) -> Answer:
        """PUT /v1/groups/{group}/offsets"""
        group = call.parameters[0]
        check_group(group)
        body = call.read(self._offsets_reader)
        call.check_topic(body.topic)
        check_topic_to_read(body.topic)
        if min(body.offsets) < 0:
            raise refuse_field(
                "invalid_request", "/offsets", "queues are counted from 0"
            )
        await self._broker.commit_offsets(
            CommitOffsets(group, body.topic, dict(body.offsets))
        )
        described = await self._describe(group, body.topic)
        return call.answer(200, _lag_view(group, body.topic, described))

    async def _describe(self, group: str, topic: str) -> GroupDescription:
        is_ordered = self._settings.group_settings(group).ordered
        request = DescribeGroup(group, topic, ordered=is_ordered)
        return await self._broker.describe_group(request)

    async def _is_used(self, name: str) -> bool:
        """Whether the log knows the group: whether it comes next behind the last
        name that could come before it."""
        before = name[:-1] + chr(ord(name[-1]) - 1) + _BEHIND_ALL
        found = await self._broker.list_groups(ListGroups(before, 1))
        return found.names == [name]

    def _cached_view(self, name: str) -> GroupView:
        view = self._view(name, None)
        view.version = None
        return view

    def _view(self, name: str, entry: Entry[GroupSettings] | None) -> GroupView:
        settings = entry.settings if entry else self._settings.group_settings(name)
        view = GroupView(
            name=name,
            max_attempts=settings.max_attempts,
            backoff_initial_ms=settings.backoff_initial_ms,
            backoff_max_ms=settings.backoff_max_ms,
            invisible_ms=settings.invisible_ms,
            ordered=settings.ordered,
            version=entry.version if entry else 0,
        )
        if entry is not None:
            view.created_at = render_instant(entry.created_at_ms)
            view.updated_at = render_instant(entry.updated_at_ms)
        return view


def _lag_view(group: str, topic: str, described: GroupDescription) -> LagView:
    queues = [
        QueueLagView(
            queue=it.queue,
            offset=it.offset,
            min_offset=it.offset_min,
            max_offset=it.offset_max,
            lag=it.offset_max - it.offset,
        )
        for it in described.queues
    ]
    lag = sum(it.lag for it in queues) + described.in_flight
    return LagView(group, topic, lag, described.in_flight, described.held_back, queues)


def _unknown(name: str) -> Refusal:
    return Refusal(
        "unknown_group",
        f"there is no group {name!r}: it has not consumed anything and has no "
        "settings; a first pop makes it, or PUT its settings",
    )


def _answer(call: Call, status: int, view: GroupView) -> Answer:
    extra = [("ETag", f'"{view.version}"')]
    if status == 201:
        extra.append(("Location", f"/v1/groups/{quote(view.name)}"))
    return call.answer(status, view, extra)
