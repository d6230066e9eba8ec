"""Keys of the transaction service's index. The first byte names the family; numbers
are big-endian, so that keys sort as their parts do.

    M name                                how far the log has been applied
    S transaction id                      an open or parked one: its `status.py`
    X transaction id, index u16           a message of an open one: its HALF record
    T due_ms u64, transaction id          when an open one is checked back, or parked
    P transaction id                      the parked ones
    O transaction id                      an ended one: its `status.py`
    F decided_ms u64, transaction id      ended ones, for listing and forgetting them
"""

import struct

APPLIED = b"Mapplied"
U64 = struct.Struct("<Q")
BIG_U64 = struct.Struct(">Q")
MESSAGE = struct.Struct(">c16sH")

TIMER = struct.Struct(">cQ16s")
TIMER_PREFIX_SIZE = 1
TIMER_ID_AT = 9


def timer(due_ms: int, transaction_id: bytes) -> bytes:
    """Key of when an open transaction is checked back next, or parked."""
    return TIMER.pack(b"T", due_ms, transaction_id)


def timer_due_ms(key: bytes) -> int:
    """Epoch ms, out of such a key."""
    return int(BIG_U64.unpack_from(key, TIMER_PREFIX_SIZE)[0])


def message(transaction_id: bytes, index: int) -> bytes:
    """Key of the HALF record of a message; the first one is 0."""
    return MESSAGE.pack(b"X", transaction_id, index)


def decided(decided_ms: int, transaction_id: bytes) -> bytes:
    """Key of an ended transaction among the others, by the time of its outcome."""
    return b"F" + BIG_U64.pack(decided_ms) + transaction_id
