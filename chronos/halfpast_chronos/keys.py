"""Keys of the Delay Server's index. The first byte names the family; numbers are
big-endian, so that keys sort as their parts do.

    M name                              how far the log has been applied
    T topic u32, due_ms u64, event id   a pending timer: its SCHEDULE record
    E event id                          where an event stands (`event_state.py`)
    I 63 event ids, or 1                where those to which nothing has happened
                                        have their timers (`event_states.py`)
    K topic u32, key, 0, event id       pending timers by their key
    U topic u32, key                    the event that an own key names
    F finished_ms u64, event id         finished events, for forgetting them
    D d topic u32, at_ms u64, event id  a dead event: its SCHEDULE record
    D r topic u32, event id             an event that is tried again: empty
    R part u8, ...                      recurring schedules (`recurring_state.py`)
"""

import struct

APPLIED = b"Mapplied"
U64 = struct.Struct("<Q")
BIG_U64 = struct.Struct(">Q")
BIG_U32 = struct.Struct(">I")
TIMER_KEY = struct.Struct(">cIQ16s")
TIMER_PREFIX_SIZE = 5
TIMER_ID_AT = 13
COUNTED = b"Mcounted"
COUNTED_ON = b"Mcounted-on"
FINISHED = b"Mfinished"
FORMAT = b"Mformat"
FORMAT_FIRST = b"\x01"
FORMAT_NOW = b"\x03"

FIRED_ENTRY = struct.Struct(">cQ16s")
"""How the log names a timer that has fired: b"T", due_ms, event id."""
FIRED_SIZE = FIRED_ENTRY.size


def timer(topic_id: int, due_ms: int, event_id: bytes) -> bytes:
    return TIMER_KEY.pack(b"T", topic_id, due_ms, event_id)


def timer_prefix(topic_id: int) -> bytes:
    """What the keys of all timers of a topic begin with."""
    return b"T" + BIG_U32.pack(topic_id)


def timer_range(topic_id: int, start_ms: int, end_ms: int) -> tuple[bytes, bytes]:
    """First key and end of a topic's timers that are due in this time."""
    prefix = timer_prefix(topic_id)
    return prefix + BIG_U64.pack(start_ms), prefix + BIG_U64.pack(end_ms)


def timer_due_ms(key: bytes) -> int:
    return int(BIG_U64.unpack_from(key, TIMER_PREFIX_SIZE)[0])


def timer_topic(key: bytes) -> int:
    return int(BIG_U32.unpack_from(key, 1)[0])


def fired_entry(key: bytes) -> bytes:
    """A timer's key as a FIRED record names it."""
    return b"T" + key[TIMER_PREFIX_SIZE:]


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


def operation(operation_id: bytes) -> bytes:
    return b"B" + operation_id


def counts(topic_id: int) -> bytes:
    return b"C" + BIG_U32.pack(topic_id)


def counts_topic(key: bytes) -> int:
    return int(BIG_U32.unpack_from(key, 1)[0])


def dead(topic_id: int, dead_ms: int, event_id: bytes) -> bytes:
    return b"Dd" + BIG_U32.pack(topic_id) + BIG_U64.pack(dead_ms) + event_id


def dead_range(topic_id: int) -> tuple[bytes, bytes]:
    """First key and end of a topic's dead events; of all topics for 0."""
    if not topic_id:
        return b"Dd", b"De"
    return b"Dd" + BIG_U32.pack(topic_id), b"Dd" + BIG_U32.pack(topic_id + 1)


def retried(topic_id: int, event_id: bytes) -> bytes:
    return b"Dr" + BIG_U32.pack(topic_id) + event_id


def retried_range(topic_id: int) -> tuple[bytes, bytes]:
    return b"Dr" + BIG_U32.pack(topic_id), b"Dr" + BIG_U32.pack(topic_id + 1)
