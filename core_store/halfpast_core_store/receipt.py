"""A receipt: what a consumer shows to settle a message that it popped.

    group u32 | topic u32 | pop id u64 | place u16 | check u16      little-endian

The check keeps garbage and typing errors apart from receipts that ran out; it is
no secret. Rights are checked by group, not by receipt.
"""

import struct
import zlib
from typing import NamedTuple

PARTS = struct.Struct("<IIQH")
CHECK = struct.Struct("<H")
SIZE = PARTS.size + CHECK.size


class Receipt(NamedTuple):
    """The message at `place` of check point `pop_id`."""

    group_id: int
    topic_id: int
    pop_id: int
    place: int

    def encode(self, salt: int) -> bytes:
        data = PARTS.pack(*self)
        return data + CHECK.pack(zlib.crc32(data, salt) & 0xFFFF)


def decode_receipt(data: bytes, salt: int) -> Receipt | None:
    """The receipt, or None if these bytes never were one of this store."""
    if len(data) != SIZE:
        return None
    (check,) = CHECK.unpack_from(data, PARTS.size)
    if zlib.crc32(data[: PARTS.size], salt) & 0xFFFF != check:
        return None
    return Receipt(*PARTS.unpack_from(data))
