"""Dead letters of all sources: looked at, redriven, discarded."""

from collections.abc import Callable
from typing import Annotated, Final, Literal, Protocol, TypeVar

import msgspec
from msgspec import Meta
from sqlalchemy import Connection

from halfpast_api.access.namespaced_names import names_in
from halfpast_api.answer import Answer
from halfpast_api.call import Call
from halfpast_api.delay.dead_letters import DeadLetterHandlers
from halfpast_api.event_id import id_text, parse_id
from halfpast_api.idempotency import REPLAYED, dedup_of
from halfpast_api.names import check_group, check_topic_to_read
from halfpast_api.page_token import parse_name_token, parse_token, render_token
from halfpast_api.problems import Refusal, refuse_field
from halfpast_api.publish import Source as IdSource
from halfpast_api.push import operation_store
from halfpast_api.push.dead_reading import count_dead, read_dead
from halfpast_api.push.dead_view import (
    DeadCountsView,
    DeadCountView,
    DeadMessagePageView,
    source_of,
    view_dead,
    view_operation,
)
from halfpast_api.push.endpoint_name import (
    GROUP_PREFIX,
    check_endpoint_name,
    stored_name,
)
from halfpast_api.push.operation import (
    EVER_MS,
    IDS_MAX,
    Action,
    Operation,
    Source,
    State,
    Wish,
)
from halfpast_api.reading import Reader
from halfpast_api.times import NS_PER_MS, BadTime, parse_instant
from halfpast_core_store.broker import Broker, ListTopics
from halfpast_core_store.errors import IdempotencyConflict
from halfpast_core_store.topics import DEAD_LETTER_PREFIX

_LIMIT_MAX: Final = 1000
_DEPTH_MAX: Final = 16
_FILTERS: Final = ("ids", "topic", "key", "tag", "dead_after", "dead_before")
R = TypeVar("R")


class Writes(Protocol):
    """What is needed of a `MetadataStore`."""

    async def write(self, work: Callable[[Connection], R]) -> R: ...


class DeadLettersBody(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Which dead letters; all that is given must be true of one. `all` is given where
    nothing else is, so that nobody means everything by mistake."""

    source: Literal["delay", "group", "endpoint"]
    group: str | None = None
    endpoint: str | None = None
    ids: Annotated[list[str], Meta(min_length=1, max_length=IDS_MAX)] | None = None
    topic: str | None = None
    key: str | None = None
    tag: str | None = None
    dead_after: str | None = None
    dead_before: str | None = None
    all: bool = False
    dry_run: bool = False


class DeadLetterPages:
    """Handlers for dead letters, of one namespace."""

    def __init__(
        self,
        namespace: str,
        broker: Broker,
        delayed: DeadLetterHandlers,
        rows: Writes,
        ids: IdSource,
    ) -> None:
        self._namespace = namespace
        self._broker = broker
        self._delayed = delayed
        self._rows = rows
        self._ids = ids
        self._reader = Reader(DeadLettersBody, _DEPTH_MAX)

    async def list(self, call: Call) -> Answer:
        """GET /v1/dead-letters"""
        names = ("source", "group", "endpoint", "topic", "limit", "page_token")
        query = call.query(*names)
        sources = [source.value for source in Source]
        source = query.choice("source", Source.DELAY.value, sources)
        if source == Source.DELAY:
            return await self._delayed.list(call)
        group = _group(source, query.text("group"), query.text("endpoint"))
        topic = query.text("topic")
        if topic is not None:
            check_topic_to_read(topic)
        limit = query.integer("limit", 100, 1, _LIMIT_MAX)
        token = parse_token(query.text("page_token"))
        number = int.from_bytes(token[:8], "big")
        page = await read_dead(self._broker, group, number, limit)
        views = [view_dead(it, group, self._namespace) for it in page.messages]
        if topic is not None:
            views = [view for view in views if view.topic == topic]
        last = b"" if page.next_number is None else page.next_number.to_bytes(8, "big")
        return call.answer(200, DeadMessagePageView(views, render_token(last)))

    async def counts(self, call: Call) -> Answer:
        """GET /v1/dead-letters/counts"""
        query = call.query("limit", "page_token")
        limit = query.integer("limit", 100, 1, _LIMIT_MAX)
        after = parse_name_token(query.text("page_token")) or DEAD_LETTER_PREFIX
        found = (await self._broker.list_topics(ListTopics(after, limit))).topics
        names = [it.name for it in found if it.name.startswith(DEAD_LETTER_PREFIX)]
        views: list[DeadCountView] = []
        for name in names:
            group = name.removeprefix(DEAD_LETTER_PREFIX)
            source, endpoint = source_of(group)
            count = await count_dead(self._broker, group)
            if count:
                view = DeadCountView(
                    source=source, group=group, endpoint=endpoint, dead_letters=count
                )
                views.append(view)
        is_full = len(found) == limit and len(names) == limit
        last = names[-1].encode() if is_full else b""
        return call.answer(200, DeadCountsView(views, render_token(last)))

    async def redrive(self, call: Call) -> Answer:
        """POST /v1/dead-letters:redrive"""
        return await self._begin(call, Action.REDRIVE)

    async def discard(self, call: Call) -> Answer:
        """POST /v1/dead-letters:discard"""
        return await self._begin(call, Action.DISCARD)

    async def _begin(self, call: Call, action: Action) -> Answer:
        body = call.read(self._reader)
        seed = self._ids.seed()
        wish = self._wish(body)
        dedup = dedup_of(call, f"dead-letters:{action.value}", seed)
        if dedup is not None:
            once, request = dedup.key.hex(), dedup.fingerprint.hex()
            wish = msgspec.structs.replace(wish, once=once, request=request)
        operation = Operation(
            id=id_text(self._ids.new_id()),
            namespace=self._namespace,
            action=action.value,
            state=State.RUNNING.value,
            dry_run=body.dry_run,
            wish=wish,
            created_at_ms=seed.accepted_ns // NS_PER_MS,
        )
        begun = await self._rows.write(
            lambda connection: operation_store.begin(connection, operation)
        )
        if begun is None:
            raise Refusal(
                "too_many_operations",
                f"{operation_store.RUNNING_MAX} operations on dead letters run "
                "already; wait until one has ended, or stop one with POST "
                "/v1/operations/{id}:cancel",
                headers=[("Retry-After", "1")],
            )
        if begun.wish.request != wish.request:
            raise IdempotencyConflict
        sent = [("Location", f"/v1/operations/{begun.id}")]
        if begun.id != operation.id:
            sent.append(REPLAYED)
        return call.answer(202, view_operation(begun), sent)

    def _wish(self, body: DeadLettersBody) -> Wish:
        given = [name for name in _FILTERS if getattr(body, name) is not None]
        if bool(given) == body.all:
            raise Refusal(
                "filter_required",
                "say which dead letters are meant: give at least one of "
                f'{", ".join(_FILTERS)}, or nothing but "all": true for all of them',
            )
        group = ""
        if body.source != "delay":
            group = _group(body.source, body.group, body.endpoint)
        elif body.group is not None or body.endpoint is not None:
            detail = "dead letters of the Delay Server have no group and no endpoint"
            raise refuse_field("invalid_request", "/source", detail)
        if body.topic is not None:
            check_topic_to_read(body.topic)
        return Wish(
            source=body.source,
            group=stored_name(self._namespace, group) if group else "",
            ids=[_id(index, it) for index, it in enumerate(body.ids or [])],
            topic=_stored_topic(self._namespace, body.topic),
            key=body.key,
            tag=body.tag,
            dead_after_ms=_instant("dead_after", body.dead_after, 0),
            dead_before_ms=_instant("dead_before", body.dead_before, EVER_MS),
        )


def _group(source: str, group: str | None, endpoint: str | None) -> str:
    """The group that is meant, by its name in the namespace. Raises Refusal."""
    wanted, other = group, endpoint
    if source == Source.ENDPOINT:
        wanted, other = endpoint, group
    if wanted is None or other is not None:
        raise Refusal(
            "invalid_parameter",
            f"say of which {source}, and nothing else: {source}=NAME; "
            "GET /v1/dead-letters/counts lists who has any",
        )
    if source == Source.ENDPOINT:
        check_endpoint_name(wanted)
        return GROUP_PREFIX + wanted
    check_group(wanted)
    return wanted


def _stored_topic(namespace: str, topic: str | None) -> str:
    return (names_in(namespace).inside(topic) or topic) if topic else ""


def _id(index: int, text: str) -> str:
    try:
        return id_text(parse_id(text))
    except Refusal as refusal:
        raise refuse_field(refusal.code, f"/ids/{index}", refusal.detail) from None


def _instant(name: str, value: str | None, default_ms: int) -> int:
    if value is None:
        return default_ms
    try:
        return min(max(parse_instant(value), 0), EVER_MS)
    except BadTime as error:
        raise refuse_field("invalid_time", f"/{name}", str(error)) from None
