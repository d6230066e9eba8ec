"""How far the log is durable, told to those who read its files from outside.

    | crc u32 | version u32 | position u64 | as_of_ms u64 |        little-endian

An intact frame in a file need not be durable yet: it may still vanish in a power cut.
So the broker marks, in the file `durable.mark` of its data folder, how far it knows
the log to be durable, at most every PUBLISH_MS. The checksum, seeded with the store's
salt, tells a mark that is half written, or another store's. A mark is never synced:
one that was lost, or is old, tells too little and never too much.

Readers may add to it what they see: only one frame is ever on its way to the disk, so
all intact frames but the last one are durable.
"""

import struct
import zlib
from typing import NamedTuple

NAME = "durable.mark"
MARK = struct.Struct("<IIQQ")
VERSION = 1
PUBLISH_MS = 100


class DurableMark(NamedTuple):
    """Everything before `position` survives a power cut. All that was stored before
    `as_of_ms` lies before it; as long as nobody writes, that time goes on."""

    position: int
    as_of_ms: int


def encode_mark(mark: DurableMark, salt: int) -> bytes:
    covered = MARK.pack(0, VERSION, *mark)[4:]
    return struct.pack("<I", zlib.crc32(covered, salt)) + covered


def decode_mark(data: bytes, salt: int) -> DurableMark | None:
    """None if these are not the bytes of a mark of this store."""
    if len(data) != MARK.size:
        return None
    crc, version, position, as_of_ms = MARK.unpack(data)
    if version != VERSION or zlib.crc32(data[4:], salt) != crc:
        return None
    return DurableMark(position, as_of_ms)
