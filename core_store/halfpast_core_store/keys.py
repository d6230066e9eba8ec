"""Keys of the store's index. The first byte names the family; numbers big-endian,
so that keys sort as their parts do.

    M name                                  positions and counters
    H role                                  how far back a role needs the log
    Q topic u32, queue u16, offset u64      a run of the consume queue
    E event id block, 16 bytes              position of the frame that holds it
    T name · t topic u32                    topics by name and by id
    G name · g group u32                    consumer groups by name and by id
    C group u32, topic u32, queue u16       a group's cursor in a queue
    P group u32, topic u32, pop id u64      a check point: messages in flight
    D idempotency key, 16 bytes             the answer it got
"""

import struct

APPLIED = b"Mapplied"
NEXT_TOPIC_ID = b"Mnext_topic_id"
NEXT_GROUP_ID = b"Mnext_group_id"

U64 = struct.Struct("<Q")
PROGRESS = struct.Struct("<QQQI")
QUEUE_RUN = struct.Struct(">cIHQ")
CURSOR = struct.Struct(">cIIH")
CHECK_POINT = struct.Struct(">cIIQ")
GROUP_TOPIC = struct.Struct(">cII")
BY_ID = struct.Struct(">cI")

BLOCK_BITS = 14
BLOCK_MASK = (1 << BLOCK_BITS) - 1


def queue_run(topic_id: int, queue_id: int, offset: int) -> bytes:
    return QUEUE_RUN.pack(b"Q", topic_id, queue_id, offset)


def cursor(group_id: int, topic_id: int, queue_id: int) -> bytes:
    return CURSOR.pack(b"C", group_id, topic_id, queue_id)


def check_point(group_id: int, topic_id: int, pop_id: int) -> bytes:
    return CHECK_POINT.pack(b"P", group_id, topic_id, pop_id)


def group_topic(family: bytes, group_id: int, topic_id: int) -> tuple[bytes, bytes]:
    """First key and end of all keys of a group on a topic in family C or P."""
    return (
        GROUP_TOPIC.pack(family, group_id, topic_id),
        GROUP_TOPIC.pack(family, group_id, topic_id) + b"\xff" * 9,
    )


def topic_id(number: int) -> bytes:
    return BY_ID.pack(b"t", number)


def group_id(number: int) -> bytes:
    return BY_ID.pack(b"g", number)


def event_block(event_id: bytes) -> bytes:
    """Events of one request share their id's high bits, the block."""
    low = int.from_bytes(event_id[14:], "big") & ~BLOCK_MASK
    return b"E" + event_id[:14] + low.to_bytes(2, "big")


def read_u64(value: bytes | None) -> int:
    """A counter or position; 0 if it was never written."""
    return 0 if value is None else int(U64.unpack(value)[0])
