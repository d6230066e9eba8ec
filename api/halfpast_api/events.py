"""Scheduled events: look, reschedule, deliver now, cancel, list."""

import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, TypeVar

import msgspec

from halfpast_api import headers
from halfpast_api.answer import Answer
from halfpast_api.call import Call
from halfpast_api.due_time import TIME_FIELDS, due_ms
from halfpast_api.event_body import RescheduleBody
from halfpast_api.event_id import id_text, parse_id
from halfpast_api.event_view import (
    STATES,
    EventPageView,
    EventView,
    view_event,
    view_in_transaction,
    view_stored,
)
from halfpast_api.page_token import parse_token, render_token
from halfpast_api.problems import Refusal, as_refusal
from halfpast_api.reading import Reader
from halfpast_api.times import NS_PER_MS
from halfpast_api.topic_directory import Settings, TopicDirectory
from halfpast_api.transactions.owner import OwnerLookup
from halfpast_chronos.delay_server import (
    Cancel,
    Cancelled,
    DelayServer,
    Event,
    GetEvent,
    Happening,
    ListEvents,
    Reschedule,
)
from halfpast_chronos.errors import AlreadyDelivered, UnknownEvent
from halfpast_chronos.release_calls import Redrive
from halfpast_core_store.broker import Broker, FindEvent, FoundEvent
from halfpast_core_store.record import Record, RecordKind, decode_record
from halfpast_txn.transactions import Transactions, TransactionState

R = TypeVar("R")

_LIMIT_MAX: Final = 1000
_MS_MAX: Final = 2**63 - 1
_WITHOUT_CONTENT: Final = ("cancelled", "delivered")


class CancelledView(msgspec.Struct, omit_defaults=True):
    """The answer to a cancel that took effect, now or earlier."""

    outcome: str
    id: str
    cancelled_at: str | None = None


class EventHandlers:
    """Handlers for events that are there already."""

    def __init__(
        self,
        broker: Broker,
        delay: DelayServer,
        transactions: Transactions,
        directory: TopicDirectory,
        settings: Settings,
        *,
        depth_max: int,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._broker = broker
        self._delay = delay
        self._directory = directory
        self._settings = settings
        self._owners = OwnerLookup(transactions)
        self._now_ns = now_ns
        self._reader = Reader(RescheduleBody, depth_max)

    async def get(self, call: Call) -> Answer:
        """GET /v1/events/{id}"""
        event_id = parse_id(call.parameters[0])
        try:
            return await self._get(call, event_id)
        except UnknownEvent:
            owner = await self._owners.find(event_id)
            if owner is None:
                raise
        if owner.state == TransactionState.COMMITTED:  # while we looked, perhaps
            return await self._get(call, event_id)
        names = await self._directory.names_of({it.topic_id for it in owner.messages})
        view = view_in_transaction(event_id, owner, names)
        call.check_topic(view.topic or None)
        return call.answer(200, view, [_etag(view.version)])

    async def reschedule(self, call: Call) -> Answer:
        """PATCH /v1/events/{id}"""
        event_id = parse_id(call.parameters[0])
        body = call.read(self._reader)
        expected = headers.if_match(call.headers)
        if body == RescheduleBody():
            raise Refusal(
                "missing_field", f"give the new time as one of {', '.join(TIME_FIELDS)}"
            )
        event = await self._scheduled(call, event_id)
        topic = await self._directory.name_of(event.topic_id)
        due = due_ms(
            body.deliver_at,
            body.delay,
            body.delay_ms,
            self._now_ns(),
            call.delay_max_ms(self._settings.topic_settings(topic).max_delay_ms),
        )
        changed = await self._delay.reschedule(Reschedule(event_id, due, expected))
        return await self._answer(call, changed)

    async def deliver_now(self, call: Call) -> Answer:
        """POST /v1/events/{id}:deliver-now"""
        event_id = parse_id(call.parameters[0])
        expected = headers.if_match(call.headers)
        await self._scheduled(call, event_id)
        now_ms = self._now_ns() // NS_PER_MS
        changed = await self._delay.reschedule(
            Reschedule(event_id, now_ms, expected, deliver_now=True)
        )
        return await self._answer(call, changed)

    async def redrive(self, call: Call) -> Answer:
        """POST /v1/events/{id}:redrive"""
        event_id = parse_id(call.parameters[0])
        expected = headers.if_match(call.headers)
        await self._scheduled(call, event_id)
        changed = await self._delay.redrive(Redrive(event_id, expected))
        return await self._answer(call, changed)

    async def cancel(self, call: Call) -> Answer:
        """DELETE /v1/events/{id}"""
        event_id = parse_id(call.parameters[0])
        request = Cancel(event_id, headers.if_match(call.headers))
        if not call.access.allows(call.verb):
            await self._check(call, event_id)
        try:
            cancelled = await self._look(event_id, lambda: self._cancel(request))
        except UnknownEvent as error:
            raise _with_outcome(error, "not_found") from None
        view = CancelledView(cancelled.outcome, id_text(event_id))
        if cancelled.event is not None:
            at = view_event(cancelled.event, "", None, None).cancelled_at
            view.cancelled_at = at
        return call.answer(200, view)

    async def list(self, call: Call) -> Answer:
        """GET /v1/events"""
        query = call.query(
            *("topic", "key", "tag", "state"),
            *("due_after", "due_before", "limit", "page_token", "data"),
        )
        with_data = query.choice("data", "false", ["false", "true"]) == "true"
        form = call.answer_form if with_data else None
        if with_data and not call.access.may_view_payload:
            raise Refusal(
                "forbidden",
                f"{call.access.actor} may not view payload; leave data=true out, or "
                "use a key with view_payload",
            )
        topic_id = 0
        call.check_topic(query.text("topic"))
        if (name := query.text("topic")) is not None:
            topic_id = await self._directory.id_of(name)
        key, tag = query.text("key"), query.text("tag")
        state = query.choice("state", "scheduled", sorted(STATES))
        if tag is not None and state in _WITHOUT_CONTENT:
            raise Refusal(
                "invalid_parameter",
                f"the tags of events that are {state} are not kept; leave 'tag' out",
            )
        page = await self._delay.list_events(
            ListEvents(
                topic_id=topic_id,
                key=None if key is None else key.encode(),
                tag=None if tag is None else tag.encode(),
                state=STATES[state],
                due_after_ms=_within(query.instant("due_after", 0)),
                due_before_ms=_within(query.instant("due_before", _MS_MAX)),
                limit=query.integer("limit", 100, 1, _LIMIT_MAX),
                after=parse_token(query.text("page_token")),
            )
        )
        names = await self._directory.names_of({it.topic_id for it in page.events})
        views = [
            view_event(event, names.get(event.topic_id, ""), event.record, form)
            for event in page.events
        ]
        return call.answer(200, EventPageView(views, render_token(page.next_token)))

    async def _scheduled(self, call: Call, event_id: bytes) -> Event:
        """The event, with which the caller may do this. Raises AlreadyDelivered for
        one that was never scheduled."""

        async def find() -> Event:
            event = (await self._delay.get_event(GetEvent(event_id))).event
            if event is None:
                record, _ = await self._find_stored(event_id)
                await self._check_topic(call, record.topic_id)
                raise AlreadyDelivered(id_text(event_id), record.born_ms)
            await self._check_topic(call, event.topic_id)
            return event

        return await self._look(event_id, find)

    async def _check(self, call: Call, event_id: bytes) -> None:
        """Raise Refusal unless the caller may do this with the event, if it is one."""
        with suppress(AlreadyDelivered, UnknownEvent):
            await self._scheduled(call, event_id)

    async def _check_topic(self, call: Call, topic_id: int) -> None:
        if not call.access.allows(call.verb):
            call.check_topic(await self._directory.name_of(topic_id))

    async def _look(self, event_id: bytes, look: Callable[[], Awaitable[R]]) -> R:
        """What `look` gives, which raises UnknownEvent where neither Delay Server
        nor log know the event: its transaction may be committed while we look.

        Raises Refusal for a message of a transaction that is open.
        """
        try:
            return await look()
        except UnknownEvent:
            if not await self._owners.committed(event_id):
                raise
        return await look()

    async def _cancel(self, request: Cancel) -> Cancelled:
        """Raises UnknownEvent, and Refusal for what has been delivered."""
        cancelled = await self._delay.cancel(request)
        at_ms = cancelled.event.finished_ms if cancelled.event else 0
        if cancelled.outcome == "not_found":
            record, _ = await self._find_stored(request.event_id)
            at_ms = record.born_ms
        elif cancelled.outcome != "too_late":
            return cancelled
        late = AlreadyDelivered(id_text(request.event_id), at_ms)
        raise _with_outcome(late, "too_late")

    async def _get(self, call: Call, event_id: bytes) -> Answer:
        """The answer, but for messages of transactions that are not committed.

        Raises UnknownEvent.
        """
        event = (await self._delay.get_event(GetEvent(event_id))).event
        if event is not None:
            await self._check_topic(call, event.topic_id)
            return await self._answer(call, event)
        record, found = await self._find_stored(event_id)
        await self._check_topic(call, record.topic_id)
        topic = await self._directory.name_of(record.topic_id)
        view = view_stored(record, topic, found.stored_ms, call.data_form)
        _tell_withheld(call, view)
        return call.answer(200, view, [_etag(view.version)])

    async def _find_stored(self, event_id: bytes) -> tuple[Record, FoundEvent]:
        """An event that the Delay Server does not know, from the log.

        Raises UnknownEvent, also for one that was scheduled: the Delay Server has
        finished with it so long ago that it does not know the outcome any more.
        """
        found = await self._broker.find_event(FindEvent(event_id))
        if found.record is not None:
            record = decode_record(found.record)
            if record.kind == RecordKind.NORMAL:
                return record, found
        raise UnknownEvent(id_text(event_id))

    async def _answer(self, call: Call, event: Event) -> Answer:
        topic = await self._directory.name_of(event.topic_id)
        record = event.record
        replaced = any(what == Happening.REPLACED for _, what in event.timeline)
        if record is None and not replaced:
            found = await self._broker.find_event(FindEvent(event.event_id))
            record = found.record
        view = view_event(event, topic, record, call.data_form)
        if record is not None:
            _tell_withheld(call, view)
        return call.answer(200, view, [_etag(event.version)])


def _tell_withheld(call: Call, view: EventView) -> None:
    if call.data_form is None:
        view.data_withheld = True


def _with_outcome(error: Exception, outcome: str) -> Refusal:
    refusal = as_refusal(error)
    assert refusal is not None
    refusal.outcome = outcome
    return refusal


def _etag(version: int) -> tuple[str, str]:
    return "ETag", f'"{version}"'


def _within(ms: int) -> int:
    return min(max(ms, 0), _MS_MAX)
