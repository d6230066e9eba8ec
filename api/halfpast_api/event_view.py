"""Events as the API shows them, with what has happened to them."""

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from halfpast_api.event_id import id_text
from halfpast_api.reading import Format
from halfpast_api.times import render_instant
from halfpast_chronos.delay_server import Event, EventState, Happening
from halfpast_core_store.record import Record, RecordFlag, decode_record
from halfpast_txn.transactions import Transaction, TransactionState
from halfpast_txn.words import PREPARED, ROLLED_BACK

STORED: Final = "stored"
STATES: Final = {state.name.lower(): state for state in EventState}
_STATE_NAMES: Final = {int(state): state.name.lower() for state in EventState}
_HAPPENINGS: Final = {int(it): it.name.lower() for it in Happening}
_properties: Final = msgspec.msgpack.Decoder(dict[str, str])


class TimelineEntry(msgspec.Struct):
    """Something that happened to an event."""

    at: str
    what: str


class EventView(msgspec.Struct, kw_only=True):
    """One event. `data` or `data_base64` as long as the body is kept.

    The state is `stored` for one that was to be delivered at once; then its
    time line ends with its being stored; the rest is up to consumers.

    It is `prepared` for a message of a transaction that is open, whose `delay_ms`
    begins with the commit, and `rolled_back` where it never will be delivered; what
    it held is not kept then, not even the topic.

    Where the topic did not take it, `reason` tells why, `attempts` how often, and
    `next_attempt_at` when it is tried again; a `dead` one is not.

    `data_withheld`: there is data, and the caller may not see payload.

    `schedule_id` and `occurrence` are those of a recurring schedule that made it.
    """

    id: str
    topic: str
    key: str | None = None
    tag: str | None = None
    properties: dict[str, str]
    state: str
    deliver_at: str | None = None
    created_at: str
    delivered_at: str | None = None
    cancelled_at: str | None = None
    dead_at: str | UnsetType = UNSET
    attempts: int | UnsetType = UNSET
    next_attempt_at: str | UnsetType = UNSET
    reason: str | UnsetType = UNSET
    lateness_ms: int | None = None
    version: int = 1
    data: Raw | bytes | UnsetType = UNSET
    data_base64: bytes | UnsetType = UNSET
    json: bool | UnsetType = UNSET
    data_withheld: bool | UnsetType = UNSET
    transaction_id: str | UnsetType = UNSET
    delay_ms: int | UnsetType = UNSET
    schedule_id: str | UnsetType = UNSET
    occurrence: int | UnsetType = UNSET
    timeline: list[TimelineEntry]


class EventPageView(msgspec.Struct):
    """A page of events, without their data unless that was asked for."""

    events: list[EventView]
    next_page_token: str | None


def view_event(
    event: Event, topic: str, record: bytes | None, form: Format | None
) -> EventView:
    """A scheduled event; `record` holds its content if that is still known.

    `form` None leaves the data out.
    """
    finished = render_instant(event.finished_ms) if event.finished_ms else None
    is_delivered = event.state == EventState.DELIVERED
    view = EventView(
        id=id_text(event.event_id),
        topic=topic,
        key=event.key.decode(errors="replace") if event.key else None,
        properties={},
        state=_STATE_NAMES.get(event.state, "unknown"),
        deliver_at=render_instant(event.due_ms),
        created_at=render_instant(event.created_ms),
        delivered_at=finished if is_delivered else None,
        cancelled_at=finished if event.state == EventState.CANCELLED else None,
        lateness_ms=event.lateness_ms if is_delivered else None,
        version=event.version,
        timeline=[
            TimelineEntry(render_instant(at), _HAPPENINGS.get(what, "unknown"))
            for at, what in event.timeline
        ],
    )
    if event.attempts:
        view.attempts, view.reason = event.attempts, event.reason
    if event.retry_ms:
        view.next_attempt_at = render_instant(event.retry_ms)
    if event.state == EventState.DEAD:
        view.dead_at = render_instant(event.finished_ms)
    if record is not None:
        _add_content(view, decode_record(record), form)
    return view


def view_stored(
    record: Record, topic: str, stored_ms: int, form: Format | None
) -> EventView:
    """An event that was to be delivered at once, from its record in the log."""
    view = EventView(
        id=id_text(record.event_id),
        topic=topic,
        properties={},
        state=STORED,
        created_at=render_instant(record.born_ms),
        timeline=[TimelineEntry(render_instant(stored_ms), STORED)],
    )
    if record.flags & RecordFlag.OCCURRENCE:
        view.state, view.deliver_at = "delivered", render_instant(record.due_ms)
        view.delivered_at = render_instant(stored_ms)
        view.lateness_ms = max(0, stored_ms - record.due_ms)
        view.timeline[0].what = view.state
    _add_content(view, record, form)
    return view


def view_in_transaction(
    event_id: bytes, transaction: Transaction, topics: Mapping[int, str]
) -> EventView:
    """A message of a transaction that is not committed. `topics` has the names."""
    begun = render_instant(transaction.begun_ms)
    view = EventView(
        id=id_text(event_id),
        topic="",
        properties={},
        state=PREPARED,
        created_at=begun,
        transaction_id=id_text(transaction.transaction_id),
        timeline=[TimelineEntry(begun, PREPARED)],
    )
    if transaction.state == TransactionState.ROLLED_BACK:
        view.state = ROLLED_BACK
        decided = render_instant(transaction.decided_ms)
        view.timeline.append(TimelineEntry(decided, ROLLED_BACK))
    for head in transaction.messages:
        if head.event_id == event_id:
            view.topic = topics.get(head.topic_id, "")
            view.key = head.key.decode(errors="replace") or None
            view.tag = head.tag.decode(errors="replace") or None
            view.deliver_at = render_instant(head.due_ms) if head.due_ms else None
            view.delay_ms = head.delay_ms or UNSET
    return view


def _add_content(view: EventView, record: Record, form: Format | None) -> None:
    view.key = record.key.decode(errors="replace") if record.key else None
    view.tag = record.tag.decode(errors="replace") if record.tag else None
    if record.properties:
        view.properties = _properties.decode(record.properties)
        if record.flags & RecordFlag.OCCURRENCE:
            view.schedule_id = view.properties.get("schedule_id", UNSET)
            view.occurrence = int(view.properties.get("schedule_occurrence", 0))
    if form is None:
        return
    has_json = bool(record.flags & RecordFlag.JSON)
    if form is Format.MSGPACK:
        view.data, view.json = record.body, has_json
    elif has_json:
        view.data = Raw(record.body)
    else:
        view.data_base64 = record.body
