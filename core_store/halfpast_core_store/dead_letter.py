"""A poison message on its way to the dead-letter queue of its group.

The message keeps its id, key, tag, times and body. Why it is there stands in
properties of its own, beside those that it came with.
"""

import msgspec

from .record import RecordFlag, RecordKind, decode_record, encode_record

REASONS: dict[str, str] = {
    "attempts": "not acknowledged within its last permitted attempt",
    "nack": "refused by the consumer at its last permitted attempt",
}

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
    """The record to append to the dead-letter topic of `group`."""
    message = decode_record(record)
    properties = DECODER.decode(message.properties) if message.properties else {}
    properties |= {
        "dead_letter_reason": REASONS[reason],
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
