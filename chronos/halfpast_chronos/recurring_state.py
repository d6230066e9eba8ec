"""Recurring schedules in index and log: keys, and the bodies of their records.

    R d schedule id                  its last RECURRING record
    R s schedule id                  its Progress, as MessagePack
    R k hash of an idempotency key   the id of the schedule that it made
    R f ended_ms u64, schedule id    ended schedules, for forgetting them

The timer of a schedule is an entry of family T, like any other: its record is a bare
header of kind RECURRING. All records about a schedule name it by their id and number
themselves by their version: the Progress in them replaces one of a lower number.

    RECURRING         size of the Progress u32 | Progress | body of the message;
                      key, tag, properties and flags are the message's
    OCCURRED          Occurred
    RECURRING_ENDED   Progress
"""

import struct
from hashlib import blake2b

import msgspec

from halfpast_core_store.record import (
    Record,
    RecordFlag,
    RecordKind,
    decode_record,
    encode_record,
)

from . import keys
from .decisions import event_text
from .recurring_calls import Progress, Schedule

SIZE = struct.Struct("<I")
VERSION_7 = 7 << 76
VARIANT = 2 << 62
_pack = msgspec.msgpack.Encoder().encode
_progress = msgspec.msgpack.Decoder(Progress)
_properties = msgspec.msgpack.Decoder(dict[str, str])


class Occurrence(msgspec.Struct, array_like=True):
    """One that has fired: its due time, and the id of its message.

    `is_timer`: the topic did not take it, so that it is a timer of its own now.
    """

    due_ms: int
    event_id: bytes
    is_timer: bool = False


class Occurred(msgspec.Struct, array_like=True):
    """A schedule's timer has fired; this came of it."""

    progress: Progress
    fired: list[Occurrence]


_occurred = msgspec.msgpack.Decoder(Occurred)


def definition(schedule_id: bytes) -> bytes:
    return b"Rd" + schedule_id


def state(schedule_id: bytes) -> bytes:
    return b"Rs" + schedule_id


def dedup(key: bytes) -> bytes:
    return b"Rk" + key


def ended(ended_ms: int, schedule_id: bytes) -> bytes:
    return b"Rf" + keys.BIG_U64.pack(ended_ms) + schedule_id


def timer_of(schedule_id: bytes, progress: Progress) -> bytes | None:
    """The key of its timer; None if it has none."""
    if not progress.due_ms:
        return None
    return keys.timer(progress.topic_id, progress.due_ms, schedule_id)


def timer_record(schedule_id: bytes, progress: Progress) -> bytes:
    """What stands under that key."""
    return encode_record(
        RecordKind.RECURRING,
        topic_id=progress.topic_id,
        event_id=schedule_id,
        due_ms=progress.due_ms,
    )


def encode_progress(progress: Progress) -> bytes:
    return _pack(progress)


def decode_progress(data: bytes) -> Progress:
    return _progress.decode(data)


def recurring_record(message: Record, progress: Progress, now_ms: int) -> bytes:
    """The schedule now is this. Its id is the one of `message`."""
    packed = _pack(progress)
    return encode_record(
        RecordKind.RECURRING,
        topic_id=message.topic_id,
        queue_id=message.queue_id,
        event_id=message.event_id,
        born_ms=now_ms,
        due_ms=progress.due_ms,
        key=message.key,
        tag=message.tag,
        properties=message.properties,
        body=SIZE.pack(len(packed)) + packed + message.body,
        flags=message.flags,
        version=progress.sequence,
    )


def occurred_record(
    schedule_id: bytes, key: bytes, occurred: Occurred, now_ms: int
) -> bytes:
    """`key` is the message's, so that its entry can be made without it."""
    progress = occurred.progress
    return encode_record(
        RecordKind.OCCURRED,
        topic_id=progress.topic_id,
        event_id=schedule_id,
        born_ms=now_ms,
        due_ms=progress.due_ms,
        key=key,
        body=_pack(occurred),
        version=progress.sequence,
    )


def ended_record(schedule_id: bytes, progress: Progress, now_ms: int) -> bytes:
    return encode_record(
        RecordKind.RECURRING_ENDED,
        topic_id=progress.topic_id,
        event_id=schedule_id,
        born_ms=now_ms,
        body=_pack(progress),
        version=progress.sequence,
    )


def read_recurring(record: Record) -> Progress:
    """The Progress in a RECURRING record."""
    (size,) = SIZE.unpack_from(record.body)
    return _progress.decode(record.body[SIZE.size : SIZE.size + size])


def read_occurred(record: Record) -> Occurred:
    return _occurred.decode(record.body)


def message_of(definition_record: bytes) -> Record:
    """The message that a schedule makes, under the schedule's id."""
    record = decode_record(definition_record)
    (size,) = SIZE.unpack_from(record.body)
    return record._replace(
        kind=RecordKind.NORMAL,
        due_ms=0,
        version=0,
        body=record.body[SIZE.size + size :],
    )


def encode_message(message: Record, born_ms: int) -> bytes:
    """As bytes again."""
    return encode_record(
        message.kind,
        topic_id=message.topic_id,
        queue_id=message.queue_id,
        event_id=message.event_id,
        born_ms=born_ms,
        due_ms=message.due_ms,
        key=message.key,
        tag=message.tag,
        properties=message.properties,
        body=message.body,
        flags=message.flags,
    )


def occurrence_message(
    message: Record, number: int, nominal_ms: int, due_ms: int, now_ms: int
) -> bytes:
    """The message of one occurrence. It tells in properties which one it is."""
    schedule_id = message.event_id
    properties = _properties.decode(message.properties) if message.properties else {}
    properties |= {
        "schedule_id": event_text(schedule_id),
        "schedule_occurrence": str(number),
        "schedule_time_ms": str(nominal_ms),
    }
    made = message._replace(
        event_id=occurrence_id(schedule_id, number, due_ms),
        due_ms=due_ms,
        properties=_pack(properties),
        flags=message.flags | RecordFlag.OCCURRENCE,
    )
    return encode_message(made, now_ms)


def occurrence_id(schedule_id: bytes, number: int, due_ms: int) -> bytes:
    """The id of one occurrence's message: a UUIDv7 of its due time, whose random bits
    follow from schedule and number. So whoever makes it twice makes the same."""
    seed = schedule_id + number.to_bytes(8, "big")
    chance = int.from_bytes(blake2b(seed, digest_size=10).digest(), "big")
    high, low = chance >> 62 & 0xFFF, chance & (1 << 62) - 1
    uuid = (due_ms & 0xFFFF_FFFF_FFFF) << 80 | VERSION_7 | high << 64 | VARIANT | low
    return uuid.to_bytes(16, "big")


def public(schedule_id: bytes, progress: Progress, record: bytes | None) -> Schedule:
    """As the Delay Server shows it; `record` is its RECURRING record."""
    shown = None
    if record is not None:
        shown = encode_message(message_of(record), progress.created_ms)
    return Schedule(schedule_id, progress, shown)
