"""The decision to try a dead event again."""

from halfpast_core_store.record import RecordKind, encode_record

from .core import DelayCore
from .decisions import (
    Busy,
    Command,
    check_pending,
    check_version,
    command,
    event_text,
)
from .delay_server import EventState
from .errors import EventNotDead, UnknownEvent
from .release_calls import Redrive


def decide_redrive(core: DelayCore, request: Redrive) -> Busy | Command:
    """Raises UnknownEvent, EventNotDead, AlreadyDelivered, AlreadyCancelled,
    StaleVersion."""
    event_id = request.event_id
    if event_id in core.claims:
        return Busy(event_id)
    event = core.event(event_id)
    if event is None:
        raise UnknownEvent(event_text(event_id))
    if event.state != EventState.DEAD:
        check_pending(event_id, event)
        raise EventNotDead(event_text(event_id))
    check_version(event_id, event, request.version)
    record = encode_record(
        RecordKind.REDRIVEN,
        topic_id=event.topic_id,
        event_id=event_id,
        due_ms=core.now_ms(),
        version=event.version + 1,
        born_ms=core.now_ms(),
    )
    return command(core, record, [event_id], event_id)
