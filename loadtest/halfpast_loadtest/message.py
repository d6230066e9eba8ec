"""Messages as Halfpast hands them out by pull and pop, decoded no further than needed.

Times are epoch milliseconds. `data` is exactly the bytes that the answer holds.
"""

import base64
import time
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import msgspec

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)


class Message(NamedTuple):
    """One message as a consumer saw it. `receipt` is empty for a pull."""

    id: str
    topic: str
    queue: int
    offset: int
    key: str | None
    stored_ms: int
    due_ms: int | None
    attempt: int
    data: bytes
    receipt: str


class Page(NamedTuple):
    """Messages of one pull, and the offset to go on with."""

    messages: list[Message]
    next_offset: int


def parse_popped(body: bytes) -> list[Message]:
    """Messages of a :pop answer."""
    return [_message(wire) for wire in _POPPED.decode(body).messages]


def parse_pulled(body: bytes) -> Page:
    """Messages of a queue's /messages answer."""
    wire = _PULLED.decode(body)
    return Page([_message(message) for message in wire.messages], wire.next_offset)


def now_ms() -> int:
    """The wall clock, epoch milliseconds."""
    return time.time_ns() // 1_000_000


def to_ms(moment: datetime) -> int:
    """Epoch milliseconds of an aware datetime, without rounding surprises."""
    return (moment - EPOCH) // MILLISECOND


def to_rfc3339(epoch_ms: int) -> str:
    """UTC with milliseconds, as the API takes and gives it."""
    moment = EPOCH + epoch_ms * MILLISECOND
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{epoch_ms % 1000:03d}Z"


class _Wire(msgspec.Struct):
    id: str
    topic: str
    queue: int
    offset: int
    stored_at: datetime
    key: str | None = None
    deliver_at: datetime | None = None
    attempt: int = 1
    data: msgspec.Raw = msgspec.Raw(b"")
    data_base64: str | None = None
    receipt: str = ""


class _Popped(msgspec.Struct):
    messages: list[_Wire]


class _Pulled(msgspec.Struct):
    messages: list[_Wire]
    next_offset: int


_POPPED = msgspec.json.Decoder(_Popped)
_PULLED = msgspec.json.Decoder(_Pulled)


def _message(wire: _Wire) -> Message:
    if wire.data_base64 is not None:
        data = base64.b64decode(wire.data_base64)
    else:
        data = bytes(wire.data)
    return Message(
        id=wire.id,
        topic=wire.topic,
        queue=wire.queue,
        offset=wire.offset,
        key=wire.key,
        stored_ms=to_ms(wire.stored_at),
        due_ms=None if wire.deliver_at is None else to_ms(wire.deliver_at),
        attempt=wire.attempt,
        data=data,
        receipt=wire.receipt,
    )
