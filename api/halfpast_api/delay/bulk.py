"""Changing many events at once: operations are begun, looked at and stopped."""

from collections.abc import Sequence
from typing import Final

from halfpast_api.answer import Answer
from halfpast_api.call import Call
from halfpast_api.delay.bulk_bodies import (
    STATES,
    BulkBody,
    BulkRescheduleBody,
    OperationPageView,
    view_operation,
)
from halfpast_api.due_time import due_ms
from halfpast_api.event_id import id_text, parse_id
from halfpast_api.idempotency import REPLAYED, dedup_of
from halfpast_api.metadata.settings import TopicSettings
from halfpast_api.page_token import parse_token, render_token
from halfpast_api.problems import Refusal, refuse_field
from halfpast_api.publish import Source
from halfpast_api.reading import Reader
from halfpast_api.times import NS_PER_MS, BadTime, parse_instant
from halfpast_api.topic_directory import Settings, TopicDirectory
from halfpast_chronos.delay_server import DelayServer
from halfpast_chronos.operation import (
    EVER_MS,
    BeginBulk,
    Bulk,
    BulkAction,
    CancelOperation,
    EventFilter,
    GetOperation,
    ListOperations,
    Operation,
)

_LIMIT_MAX: Final = 1000
_DEPTH_MAX: Final = 16
FAILED: Final = "failed"
_FILTERS: Final = ("topic", "key", "tag", "due_after", "due_before")


class BulkHandlers:
    """Handlers for operations."""

    def __init__(
        self,
        delay: DelayServer,
        directory: TopicDirectory,
        settings: Settings,
        source: Source,
    ) -> None:
        self._delay = delay
        self._directory = directory
        self._settings = settings
        self._source = source
        self._reader = Reader(BulkBody, _DEPTH_MAX)
        self._reschedule_reader = Reader(BulkRescheduleBody, _DEPTH_MAX)

    async def cancel_events(self, call: Call) -> Answer:
        """POST /v1/events:cancel"""
        body = call.read(self._reader)
        call.check_topic(body.topic)
        wanted = await self._filter(body)
        bulk = Bulk(BulkAction.CANCEL, wanted, body.dry_run)
        return await self._begin(call, bulk)

    async def reschedule_events(self, call: Call) -> Answer:
        """POST /v1/events:reschedule"""
        body = call.read(self._reschedule_reader)
        call.check_topic(body.topic)
        wanted = await self._filter(body)
        settings = TopicSettings()
        if body.topic is not None:
            settings = self._settings.topic_settings(body.topic)
        max_delay_ms = call.delay_max_ms(settings.max_delay_ms)
        if (body.shift_ms is None) == (body.deliver_at is None):
            raise Refusal(
                "several_times" if body.deliver_at else "missing_field",
                "give exactly one of shift_ms (by how much) and deliver_at (to when)",
            )
        moment_ms: int | None = None
        if body.deliver_at is not None:
            now_ns = self._source.now_ns()
            moment_ms = due_ms(body.deliver_at, None, None, now_ns, max_delay_ms)
        elif body.shift_ms is not None:
            _check_shift(body.shift_ms, max_delay_ms)
        bulk = Bulk(
            BulkAction.RESCHEDULE, wanted, body.dry_run, moment_ms, body.shift_ms
        )
        return await self._begin(call, bulk)

    async def get(self, call: Call) -> Answer:
        """GET /v1/operations/{id}"""
        operation_id = _parse_operation_id(call.parameters[0])
        found = await self._delay.get_operation(GetOperation(operation_id))
        return await self._answer(call, 200, found)

    async def page(self, call: Call) -> OperationPageView:
        """GET /v1/operations, of those on scheduled events"""
        query = call.query("state", "limit", "page_token")
        state = query.choice("state", "", operation_states())
        if state == FAILED:
            return OperationPageView([], None)
        page = await self._delay.list_operations(
            ListOperations(
                STATES[state] if state else 0,
                query.integer("limit", 100, 1, _LIMIT_MAX),
                parse_token(query.text("page_token")),
            )
        )
        topics = {it.bulk.filter.topic_id for it in page.operations} - {0}
        names = await self._directory.names_of(topics)
        views = [
            view_operation(it, names.get(it.bulk.filter.topic_id, ""))
            for it in page.operations
        ]
        token = render_token(page.next_token)
        return OperationPageView(views, token)

    async def cancel(self, call: Call) -> Answer:
        """POST /v1/operations/{id}:cancel"""
        operation_id = _parse_operation_id(call.parameters[0])
        stopped = await self._delay.cancel_operation(CancelOperation(operation_id))
        return await self._answer(call, 200, stopped)

    async def _begin(self, call: Call, bulk: Bulk) -> Answer:
        seed = self._source.seed()
        dedup = dedup_of(call, "bulk", seed)
        begun = await self._delay.begin_bulk(
            BeginBulk(
                self._source.new_id(),
                bulk,
                seed.accepted_ns // NS_PER_MS,
                dedup.key if dedup else b"",
                dedup.fingerprint if dedup else b"",
            )
        )
        shown = id_text(begun.operation.operation_id)
        extra = [("Location", f"/v1/operations/{shown}")]
        if begun.replayed:
            extra.append(REPLAYED)
        return await self._answer(call, 202, begun.operation, extra)

    async def _answer(
        self,
        call: Call,
        status: int,
        operation: Operation,
        extra: Sequence[tuple[str, str]] = (),
    ) -> Answer:
        topic_id = operation.bulk.filter.topic_id
        topic = await self._directory.name_of(topic_id) if topic_id else ""
        return call.answer(status, view_operation(operation, topic), extra)

    async def _filter(self, body: BulkBody) -> EventFilter:
        """Raises Refusal, UnknownTopic."""
        given = [name for name in _FILTERS if getattr(body, name) is not None]
        if bool(given) == body.all:
            raise Refusal(
                "filter_required",
                "say which events are meant: give at least one of "
                f'{", ".join(_FILTERS)}, or nothing but "all": true for every '
                "scheduled event",
            )
        topic_id = 0
        if body.topic is not None:
            topic_id = await self._directory.id_of(body.topic)
        return EventFilter(
            topic_id,
            _text("key", body.key),
            _text("tag", body.tag),
            _instant("due_after", body.due_after, 0),
            _instant("due_before", body.due_before, EVER_MS),
        )


def operation_states() -> list[str]:
    """What may be asked for; those on dead letters can fail as a whole."""
    return ["", *sorted({*STATES, FAILED})]


def _text(name: str, value: str | None) -> bytes | None:
    if value == "":
        raise refuse_field(
            f"invalid_{name}", f"/{name}", "is empty; leave it out to mean any"
        )
    return None if value is None else value.encode()


def _instant(name: str, value: str | None, default_ms: int) -> int:
    if value is None:
        return default_ms
    try:
        return min(max(parse_instant(value), 0), EVER_MS)
    except BadTime as error:
        raise refuse_field("invalid_time", f"/{name}", str(error)) from None


def _check_shift(shift_ms: int, max_delay_ms: int) -> None:
    if shift_ms == 0:
        raise refuse_field("invalid_time", "/shift_ms", "0 would change nothing")
    if abs(shift_ms) > max_delay_ms:
        raise refuse_field(
            "delay_too_long",
            "/shift_ms",
            f"{shift_ms} ms is more than max_delay_ms, {max_delay_ms}",
        )


def _parse_operation_id(text: str) -> bytes:
    try:
        return parse_id(text)
    except Refusal:
        shown = text if len(text) <= 40 else text[:40] + "…"
        raise Refusal(
            "invalid_operation_id",
            f"{shown!r} is not the id of an operation; take it from the answer that "
            "began one, or from GET /v1/operations",
        ) from None
