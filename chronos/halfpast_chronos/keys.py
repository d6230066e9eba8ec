"""Keys of the Delay Server's index. The first byte names the family; numbers are
big-endian, so that keys sort as their parts do.

    M name                              how far the log has been applied
    T due_ms u64, event id              a pending timer: its SCHEDULE record
    E event id                          where an event stands (`event_state.py`)
    K topic u32, key, 0, event id       pending timers by their key
    U topic u32, key                    the event that an own key names
    F finished_ms u64, event id         finished events, for forgetting them
"""

import struct

APPLIED = b"Mapplied"
U64 = struct.Struct("<Q")
BIG_U64 = struct.Struct(">Q")
BIG_U32 = struct.Struct(">I")
TIMER_KEY = struct.Struct(">cQ16s")
TIMER_SIZE = TIMER_KEY.size


def timer(due_ms: int, event_id: bytes) -> bytes:
    return TIMER_KEY.pack(b"T", due_ms, event_id)


def timers_until(due_ms: int) -> bytes:
    """Behind every timer due at `due_ms` or before."""
    return b"T" + BIG_U64.pack(due_ms + 1)


def timer_due_ms(key: bytes) -> int:
    return int(BIG_U64.unpack_from(key, 1)[0])


def event(event_id: bytes) -> bytes:
    return b"E" + event_id


def by_key(topic_id: int, key: bytes, event_id: bytes) -> bytes:
    return b"K" + BIG_U32.pack(topic_id) + key + b"\0" + event_id


def by_key_range(topic_id: int, key: bytes) -> tuple[bytes, bytes]:
    """First key and end of the timers with this key."""
    prefix = b"K" + BIG_U32.pack(topic_id) + key
    return prefix + b"\0", prefix + b"\1"


def own_key(topic_id: int, key: bytes) -> bytes:
    return b"U" + BIG_U32.pack(topic_id) + key


def finished(finished_ms: int, event_id: bytes) -> bytes:
    return b"F" + BIG_U64.pack(finished_ms) + event_id
