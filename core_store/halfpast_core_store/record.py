"""One record of the commit log, as bytes.

    | length u32 | kind u8 | flags u8 | attempt u16 | topic u32 | group u32 |
    | id 16 bytes | born_ms u64 | due_ms u64 | tag_hash u32 | version u32 |
    | key_len u16 | tag_len u16 | properties_len u16 | queue u16 |
    | key | tag | properties | body |                          little-endian

`length` counts the whole record. `topic` and `queue` name where the message is
meant to go, also while it waits elsewhere (a scheduled message waits in
SYS_SCHEDULE), so that firing it copies the bytes and changes one: the kind.
Checksum, physical offset and store time belong to the frame (`frame.py`), the
queue offset to the frame's run directory. Kind 0 is never written.

`properties` is a MessagePack map of text to text, empty when there are none; it
stays undecoded wherever nobody asks for it.
"""

import struct
import zlib
from enum import IntEnum
from typing import NamedTuple

HEADER = struct.Struct("<IBBHII16sQQIIHHHH")
HEADER_SIZE = HEADER.size
assert HEADER_SIZE == 64
ATTEMPT_AT = 6
ATTEMPT = struct.Struct("<H")
GROUP_AT = 12
DUE_AT = 40
DUE_MS = struct.Struct("<Q")
VERSION_AT = 52
VERSION = struct.Struct("<I")

BODY_SIZE_MAX = 4 * 1024 * 1024
PROPERTIES_SIZE_MAX = 32 * 1024
KEY_SIZE_MAX = 512
TAG_SIZE_MAX = 128
NO_ID = bytes(16)


class RecordKind(IntEnum):
    """What a record says. Numbers are part of the file format: only add."""

    NORMAL = 1  # a message in a queue, for consumers
    SCHEDULE = 2  # deliver this message at due_ms
    CANCEL = 3  # the timer `id` will not fire
    RESCHEDULE = 4  # the timer `id` now fires at due_ms
    FIRED = 5  # body: ids of timers whose messages are in this frame
    REPLACE = 6  # the timer `id` now is this message, due at due_ms
    TOPIC = 8  # key: name, topic: its id, queue: its number of queues
    GROUP = 9  # key: name, group: its id
    OFFSETS = 10  # body: where a group continues to read
    POP = 11  # body: a check point, messages hidden from a group
    POP_ACK = 12  # body: messages of check points that are done
    POP_HIDE = 13  # body: messages of check points hidden anew (nack, extend)
    DEDUP = 14  # body: an idempotency key and the answer it got
    HALF = 16  # a message of a transaction that is still open
    OP = 17  # the outcome of a transaction
    CHECK = 18  # a check-back was sent
    TRANSACTION = 19  # a transaction begins; the messages that follow are its own
    ADDED = 20  # more messages for an open transaction follow
    PARKED = 21  # checked back as often as allowed, without an outcome
    RESUMED = 22  # an operator has it checked back again
    FAILED = 24  # the timer `id` was not taken; `attempt`: how often, body: why
    DEAD = 25  # the same, and it is not tried again
    REDRIVEN = 26  # the dead timer `id` is due at due_ms
    RECURRING = 27  # the schedule `id` now is this: when, and which message
    RECURRING_ENDED = 28  # the schedule `id` occurs no more
    OCCURRED = 29  # body: occurrences whose messages are in this frame, and the next
    OPERATION = 30  # the bulk operation `id` now has come so far
    BULK_CANCEL = 31  # body: timers that will not fire, by the operation `id`
    BULK_RESCHEDULE = 32  # body: timers with their new due times and versions


class RecordFlag:
    """Bits of a record's `flags`. Numbers are part of the file format.

    Plain numbers, as Family's are: an IntFlag takes ten times as long to test, and
    these are tested for every message.
    """

    JSON = 1  # the body is JSON text, not opaque bytes
    UPSERT = 2  # created by the caller's own key, replaceable by it
    FROM_CHECK = 4  # this outcome came from a check-back
    DEAD_LETTER = 8  # in a dead-letter queue; properties tell the reason
    DELIVER_NOW = 16  # a RESCHEDULE asked for by deliver-now
    AFTER_COMMIT = 32  # of a HALF: due_ms is a delay that begins with the commit
    FORCED = 64  # an outcome that an operator gave
    OCCURRENCE = 128  # a message that a recurring schedule made, under an id of its own


class Family:
    """Who has to look at a frame: bits of the frame's flags."""

    TIMERS = 1
    TRANSACTIONS = 2
    REGISTRY = 4
    GROUPS = 8
    DEDUP = 16
    MESSAGES = 32


class Record(NamedTuple):
    """A decoded record. `properties` is still MessagePack; times are epoch ms."""

    kind: int
    flags: int
    attempt: int
    topic_id: int
    group_id: int
    event_id: bytes
    born_ms: int
    due_ms: int
    tag_hash: int
    version: int
    queue_id: int
    key: bytes
    tag: bytes
    properties: bytes
    body: bytes


def encode_record(
    kind: int,
    *,
    topic_id: int = 0,
    queue_id: int = 0,
    event_id: bytes = NO_ID,
    born_ms: int = 0,
    due_ms: int = 0,
    key: bytes = b"",
    tag: bytes = b"",
    properties: bytes = b"",
    body: bytes = b"",
    flags: int = 0,
    attempt: int = 0,
    group_id: int = 0,
    version: int = 0,
) -> bytes:
    """One record, ready to be placed into a frame.

    The caller has checked the limits above; a struct.error here is our bug.
    """
    assert kind != 0
    return b"".join(
        (
            HEADER.pack(
                HEADER_SIZE + len(key) + len(tag) + len(properties) + len(body),
                kind,
                flags,
                attempt,
                topic_id,
                group_id,
                event_id,
                born_ms,
                due_ms,
                tag_hash(tag) if tag else 0,
                version,
                len(key),
                len(tag),
                len(properties),
                queue_id,
            ),
            key,
            tag,
            properties,
            body,
        )
    )


def decode_record(data: bytes | memoryview, at: int = 0) -> Record:
    """The record that begins at `at`. The frame's checksum has been verified."""
    (
        length,
        kind,
        flags,
        attempt,
        topic_id,
        group_id,
        event_id,
        born_ms,
        due_ms,
        hash_of_tag,
        version,
        key_len,
        tag_len,
        properties_len,
        queue_id,
    ) = HEADER.unpack_from(data, at)
    key_at = at + HEADER_SIZE
    tag_at = key_at + key_len
    properties_at = tag_at + tag_len
    body_at = properties_at + properties_len
    return Record(
        kind,
        flags,
        attempt,
        topic_id,
        group_id,
        event_id,
        born_ms,
        due_ms,
        hash_of_tag,
        version,
        queue_id,
        bytes(data[key_at:tag_at]),
        bytes(data[tag_at:properties_at]),
        bytes(data[properties_at:body_at]),
        bytes(data[body_at : at + length]),
    )


def with_kind(record: bytes, kind: int) -> bytes:
    """The same record, saying something else: how a timer becomes a message."""
    return record[:4] + bytes((kind,)) + record[5:]


def without_flag(record: bytes, flag: int) -> bytes:
    """The same record without one of the bits of RecordFlag."""
    return record[:5] + bytes((record[5] & ~flag,)) + record[6:]


def with_time(record: bytes, due_ms: int, version: int) -> bytes:
    """The same message, due at another time, in another version."""
    return b"".join(
        (
            record[:DUE_AT],
            DUE_MS.pack(due_ms),
            record[DUE_AT + 8 : VERSION_AT],
            VERSION.pack(version),
            record[VERSION_AT + 4 :],
        )
    )


def with_attempt(record: bytes, attempt: int) -> bytes:
    """The same message, not taken so often."""
    return record[:ATTEMPT_AT] + ATTEMPT.pack(attempt) + record[ATTEMPT_AT + 2 :]


def tag_hash(tag: bytes) -> int:
    """What the consume queue keeps of a tag. 0 is kept for 'no tag'."""
    return zlib.crc32(tag) or 1
