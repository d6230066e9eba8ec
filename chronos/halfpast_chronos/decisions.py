"""Decisions about one event: cancel, reschedule, replace.

Each looks at the state as the log has it and either answers at once, or says that
somebody else is deciding (`Busy`: wait for that claim and ask again), or gives the
record to append (`Command`), having claimed the event so that it does not fire.
"""

from dataclasses import dataclass

from halfpast_core_store.broker import Append, Lane, Run
from halfpast_core_store.record import (
    RecordFlag,
    RecordKind,
    decode_record,
    encode_record,
    with_kind,
    with_time,
)
from halfpast_core_store.topics import SYS_SCHEDULE

from . import keys
from .core import DelayCore
from .delay_server import Cancel, Cancelled, EventState, Replace, Reschedule
from .errors import (
    AlreadyCancelled,
    AlreadyDelivered,
    EventDead,
    StaleVersion,
    TooManyPending,
    UnknownEvent,
)
from .event_state import StoredEvent


@dataclass(slots=True)
class Busy:
    """Somebody else holds this claim."""

    claim: bytes


@dataclass(slots=True)
class Command:
    """Append this; when it is applied, look at `event_id`. `claims` are ours."""

    request: Append
    claims: list[bytes]
    event_id: bytes
    created: bool = False


def event_text(event_id: bytes) -> str:
    """An event id as the API shows it."""
    text = event_id.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def decide_cancel(core: DelayCore, request: Cancel) -> Cancelled | Busy | Command:
    """Raises StaleVersion."""
    event_id = request.event_id
    if event_id in core.claims:
        return Busy(event_id)
    event = core.event(event_id)
    if event is None:
        return Cancelled("not_found")
    if not event.open:
        cancelled = event.state == EventState.CANCELLED
        outcome = "cancelled" if cancelled else "too_late"
        return Cancelled(outcome, event.public(event_id, None))
    check_version(event_id, event, request.version)
    record = encode_record(
        RecordKind.CANCEL,
        topic_id=event.topic_id,
        event_id=event_id,
        version=event.version + 1,
        born_ms=core.now_ms(),
    )
    return command(core, record, [event_id], event_id)


def decide_reschedule(core: DelayCore, request: Reschedule) -> Busy | Command:
    """Raises UnknownEvent, AlreadyDelivered, AlreadyCancelled, StaleVersion."""
    event_id = request.event_id
    if event_id in core.claims:
        return Busy(event_id)
    event = core.event(event_id)
    if event is None:
        raise UnknownEvent(event_text(event_id))
    check_pending(event_id, event)
    check_version(event_id, event, request.version)
    record = encode_record(
        RecordKind.RESCHEDULE,
        topic_id=event.topic_id,
        event_id=event_id,
        due_ms=core.now_ms() if request.deliver_now else request.due_ms,
        version=event.version + 1,
        born_ms=core.now_ms(),
        flags=RecordFlag.DELIVER_NOW if request.deliver_now else 0,
    )
    return command(core, record, [event_id], event_id)


def decide_replace(core: DelayCore, request: Replace) -> Busy | Command:
    """Raises UnknownEvent, AlreadyDelivered, AlreadyCancelled, EventDead,
    StaleVersion, TooManyPending."""
    new = decode_record(request.record)
    assert new.key, "it would not release its key"
    assert new.flags & RecordFlag.UPSERT, "it would not release its key"
    own = keys.own_key(new.topic_id, new.key)
    if own in core.claims:
        return Busy(own)
    event_id = core.own_event(new.topic_id, new.key)
    if event_id is not None and event_id in core.claims:
        return Busy(event_id)
    event = None if event_id is None else core.event(event_id)
    if event_id is not None and event is not None and event.pending:
        if request.create_only:
            raise StaleVersion(event_text(event_id), event.version)
        check_version(event_id, event, request.version)
        data = request.record[:16] + event_id + request.record[32:]
        data = with_time(data, new.due_ms, event.version + 1)
        data = with_kind(data, RecordKind.REPLACE)
        return command(core, data, [event_id, own], event_id)
    if request.version is not None:
        if event_id is None or event is None:
            raise UnknownEvent(new.key.decode(errors="replace"))
        check_pending(event_id, event)
    pending_max = request.pending_max
    if pending_max and core.due_counts.pending(new.topic_id) >= pending_max:
        raise TooManyPending(pending_max)
    made = command(core, request.record, [own], new.event_id)
    made.created = True
    return made


def command(
    core: DelayCore, record: bytes, claims: list[bytes], event_id: bytes
) -> Command:
    """Claim, and give the request that makes the decision durable."""
    core.claims.update(claims)
    request = Append([Run(SYS_SCHEDULE, 0, [record])], Lane.SYSTEM)
    return Command(request, claims, event_id)


def check_pending(event_id: bytes, event: StoredEvent) -> None:
    if event.state == EventState.CANCELLED:
        raise AlreadyCancelled(event_text(event_id), event.finished_ms)
    if event.state == EventState.DEAD:
        raise EventDead(event_text(event_id), event.finished_ms)
    if not event.pending:
        raise AlreadyDelivered(event_text(event_id), event.finished_ms)


def check_version(event_id: bytes, event: StoredEvent, version: int | None) -> None:
    if version is not None and version != event.version:
        raise StaleVersion(event_text(event_id), event.version)
