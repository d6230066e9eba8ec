"""A poison message on its way to the dead-letter queue of its group.

The message keeps its id, key, tag, times and body. Why it is there stands in
properties of its own, beside those that it came with.
"""

from typing import Final, NamedTuple

import msgspec

from .record import Record, RecordFlag, RecordKind, decode_record, encode_record

REASONS: dict[str, str] = {
    "attempts": "not acknowledged within its last permitted attempt",
    "nack": "refused by the consumer at its last permitted attempt",
}

_OURS: Final = (
    "dead_letter_reason",
    "dead_letter_group",
    "dead_letter_topic",
    "dead_letter_queue",
    "dead_letter_offset",
    "dead_letter_attempts",
)

DECODER = msgspec.msgpack.Decoder(dict[str, str])
ENCODER = msgspec.msgpack.Encoder()


def dead_letter_record(
    record: bytes,
    *,
    group: str,
    topic: str,
    queue: int,
    offset: int,
    attempts: int,
    reason: str,
) -> bytes:
    """The record to append to the dead-letter topic of `group`; `reason` is a sentence
    for people, one of REASONS or what the consumer said."""
    message = decode_record(record)
    properties = DECODER.decode(message.properties) if message.properties else {}
    properties |= {
        "dead_letter_reason": reason,
        "dead_letter_group": group,
        "dead_letter_topic": topic,
        "dead_letter_queue": str(queue),
        "dead_letter_offset": str(offset),
        "dead_letter_attempts": str(attempts),
    }
    return encode_record(
        RecordKind.NORMAL,
        topic_id=message.topic_id,
        queue_id=message.queue_id,
        event_id=message.event_id,
        born_ms=message.born_ms,
        due_ms=message.due_ms,
        key=message.key,
        tag=message.tag,
        properties=ENCODER.encode(properties),
        body=message.body,
        flags=message.flags | RecordFlag.DEAD_LETTER,
        attempt=attempts,
    )


class DeadLetter(NamedTuple):
    """Where a dead letter comes from, and why it is there."""

    group: str
    topic: str
    queue: int
    offset: int
    attempts: int
    reason: str


def read_dead_letter(record: Record) -> tuple[DeadLetter | None, dict[str, str]]:
    """What the properties of a record say of its death, and its own properties; None
    for a record that is no dead letter."""
    properties = DECODER.decode(record.properties) if record.properties else {}
    own = {name: properties[name] for name in properties if name not in _OURS}
    if not record.flags & RecordFlag.DEAD_LETTER:
        return None, properties
    found = [properties.get(name, "") for name in _OURS]
    reason, group, topic, queue, offset, attempts = found
    if not (queue.isdigit() and offset.isdigit() and attempts.isdigit()):
        return None, properties
    dead = DeadLetter(group, topic, int(queue), int(offset), int(attempts), reason)
    return dead, own
