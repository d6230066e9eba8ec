"""One frame of the commit log: the atomic unit, written and synced as a whole.

    | magic u32 | crc u32 | length u32 | epoch u32 | position u64 | stored_ms u64 |
    | flags u32 | run_count u32 | record_count u32 | 0 u32 |              header
    | topic u32 | queue u16 | 0 u16 | count u32 | size u32 | offset u64 |  per run
    | records of run 0 | records of run 1 | ... | zeroes up to 8 bytes |

The checksum (CRC-32, seeded with the store's salt) covers everything behind it,
including the length. `position` is the frame's place in the log, so a frame that
was copied elsewhere does not pass. A run is a row of records that stand one
behind the other in one queue: the first has queue offset `offset`, the next one
more. Appending therefore patches runs, never records.

A header of zeroes is the unwritten tail of a preallocated segment. An END frame
(no runs) closes a segment: what follows in that file is void.
"""

import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

MAGIC = 0x31467048  # "HpF1" in the file
MAGIC_BYTES = struct.pack("<I", MAGIC)
HEADER = struct.Struct("<IIIIQQIIII")
HEADER_SIZE = HEADER.size
RUN = struct.Struct("<IHHIIQ")
RUN_SIZE = RUN.size
ALIGNMENT = 8
FLAG_END = 1 << 31
LENGTH = struct.Struct("<I")
CHUNK_SIZE = 256 * 1024

assert HEADER_SIZE == 48
assert RUN_SIZE == 24


class FrameHeader(NamedTuple):
    """What a frame says of itself. `flags` are `record.Family` bits or END."""

    length: int
    epoch: int
    position: int
    stored_ms: int
    flags: int
    run_count: int
    record_count: int


class PlacedRun(NamedTuple):
    """A run within its frame. `starts[i]` is where record i begins in the frame;
    one more entry tells where the last one ends."""

    topic_id: int
    queue_id: int
    base_offset: int
    starts: Sequence[int]


@dataclass(slots=True)
class Draft:
    """A frame with its place in the log, not yet written."""

    header: FrameHeader
    runs: list[PlacedRun]
    parts: list[bytes]

    @property
    def position(self) -> int:
        return self.header.position

    @property
    def end(self) -> int:
        return self.header.position + self.header.length


def frame_length(run_count: int, records_size: int) -> int:
    """How many bytes a frame takes."""
    length = HEADER_SIZE + RUN_SIZE * run_count + records_size
    return length + -length % ALIGNMENT


def draft_frame(
    runs: Sequence[tuple[int, int, int, Sequence[bytes]]],
    *,
    position: int,
    stored_ms: int,
    epoch: int,
    flags: int,
) -> Draft:
    """Lay out runs of (topic id, queue id, base offset, records) at `position`."""
    at = HEADER_SIZE + RUN_SIZE * len(runs)
    placed: list[PlacedRun] = []
    directory: list[bytes] = []
    parts: list[bytes] = []
    record_count = 0
    for topic_id, queue_id, base_offset, records in runs:
        starts = list(accumulate(map(len, records), initial=at))
        size = starts[-1] - at
        at = starts[-1]
        record_count += len(records)
        placed.append(PlacedRun(topic_id, queue_id, base_offset, starts))
        directory.append(
            RUN.pack(topic_id, queue_id, 0, len(records), size, base_offset)
        )
        parts.extend(records)
    padding = -at % ALIGNMENT
    header = FrameHeader(
        at + padding, epoch, position, stored_ms, flags, len(runs), record_count
    )
    return Draft(header, placed, [b"".join(directory), *parts, bytes(padding)])


def seal_frame(draft: Draft, salt: int) -> list[bytes]:
    """The bytes to write, in a few pieces. Safe to run on any thread.

    Pieces are joined up to CHUNK_SIZE, so that the GIL is held only briefly; the
    checksum releases it.
    """
    chunks = list(join_in_chunks(draft.parts))
    header = draft.header
    covered = HEADER.pack(MAGIC, 0, *header, 0)[8:]
    crc = zlib.crc32(covered, salt)
    for chunk in chunks:
        crc = zlib.crc32(chunk, crc)
    return [struct.pack("<II", MAGIC, crc) + covered, *chunks]


def join_in_chunks(parts: Sequence[bytes]) -> Iterator[bytes]:
    """Few large pieces out of many small ones."""
    size = 0
    start = 0
    for i, part in enumerate(parts):
        size += len(part)
        if size >= CHUNK_SIZE:
            yield b"".join(parts[start : i + 1])
            size = 0
            start = i + 1
    if size:
        yield b"".join(parts[start:])


def peek_header(data: bytes, at: int = 0) -> FrameHeader | None:
    """The header at `at` if it looks like one; nothing is verified."""
    if len(data) - at < HEADER_SIZE:
        return None
    magic, _crc, *fields, _zero = HEADER.unpack_from(data, at)
    return FrameHeader(*fields) if magic == MAGIC else None


def verify_frame(frame: bytes, position: int, salt: int) -> FrameHeader | None:
    """The header if `frame` is exactly one intact frame of this place, else None."""
    header = peek_header(frame)
    if header is None or header.length != len(frame) or header.position != position:
        return None
    (crc,) = LENGTH.unpack_from(frame, 4)
    if zlib.crc32(memoryview(frame)[8:], salt) != crc:
        return None
    return header


def read_runs(frame: bytes, header: FrameHeader) -> list[PlacedRun]:
    """The runs of a verified frame, with the place of every record."""
    at = HEADER_SIZE + RUN_SIZE * header.run_count
    runs: list[PlacedRun] = []
    for i in range(header.run_count):
        topic_id, queue_id, _zero, count, size, offset = RUN.unpack_from(
            frame, HEADER_SIZE + RUN_SIZE * i
        )
        starts = [at]
        end = at + size
        for _ in range(count):
            at += LENGTH.unpack_from(frame, at)[0]
            starts.append(at)
        assert at == end, "run directory and records disagree"
        runs.append(PlacedRun(topic_id, queue_id, offset, starts))
    return runs


def records_of(frame: bytes, run: PlacedRun) -> list[bytes]:
    """The encoded records of one run."""
    starts = run.starts
    return [frame[starts[i] : starts[i + 1]] for i in range(len(starts) - 1)]
