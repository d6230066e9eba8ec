"""RecallMessage: a delayed message is taken back, or is not.

Nothing that failed is answered with MESSAGE_NOT_FOUND, which the client of Python takes
for success, whatever it has called.
"""

from typing import Final

import msgspec

from halfpast_api.access.verbs import Verb
from halfpast_api.event_id import id_text
from halfpast_api.rocketmq import marks
from halfpast_api.rocketmq.caller import Caller, Callers
from halfpast_api.rocketmq.protocol import (
    Code,
    RecallMessageRequest,
    RecallMessageResponse,
)
from halfpast_api.rocketmq.recall_handle import parse_handle
from halfpast_api.rocketmq.resources import topic_name
from halfpast_api.rocketmq.statuses import OK, CallRefused
from halfpast_chronos.delay_server import Cancel, Event, GetEvent
from halfpast_core_store.broker import FindEvent
from halfpast_core_store.record import RecordKind, decode_record

_properties: Final = msgspec.msgpack.Decoder(dict[str, str])


class Recalling:
    """Takes messages back."""

    def __init__(self, callers: Callers) -> None:
        self._callers = callers

    async def recall(
        self, caller: Caller, request: RecallMessageRequest
    ) -> RecallMessageResponse:
        """OK means that it will never be delivered. Raises CallRefused, Refusal."""
        caller = self._callers.within(caller, request.topic)
        topic = topic_name(request.topic)
        caller.check(Verb.SCHEDULE, topic)
        event_id = parse_handle(request.recall_handle)
        if event_id is None:
            raise CallRefused(
                Code.BAD_REQUEST,
                "this is no recall handle; give the one that sending a delay message "
                "answered",
            )
        space = caller.room.space
        event = (await space.delay.get_event(GetEvent(event_id))).event
        topic_id = await space.directory.id_of(topic)
        if event is None:
            found = (await space.broker.find_event(FindEvent(event_id))).record
            record = None if found is None else decode_record(found)
            if record is None or record.topic_id != topic_id:
                raise _not_found(topic)
            if record.kind == RecordKind.NORMAL:
                raise _too_late()
        elif event.topic_id != topic_id:
            raise _not_found(topic)
        outcome = (await space.delay.cancel(Cancel(event_id))).outcome
        if outcome == "too_late":
            raise _too_late()
        if outcome != "cancelled":
            raise _not_found(topic)
        return RecallMessageResponse(status=OK, message_id=_message_id(event_id, event))


def _message_id(event_id: bytes, event: Event | None) -> str:
    """The id that the client made, while that is known."""
    if event is not None and event.record is not None:
        packed = decode_record(event.record).properties
        if packed and (known := _properties.decode(packed).get(marks.MESSAGE_ID)):
            return known
    return id_text(event_id)


def _too_late() -> CallRefused:
    return CallRefused(
        Code.BAD_REQUEST,
        "too late: the message has been delivered, so nothing was taken back",
    )


def _not_found(topic: str) -> CallRefused:
    return CallRefused(
        Code.NOT_FOUND,
        f"not found: no delayed message of the topic {topic!r} has this handle; it may "
        "also have been forgotten after its time",
    )
