"""One segment of the log, read from outside: intact frames, and the gaps between.

Every frame is verified. Where none stands, the next intact one is looked for, as
`halfpast doctor` does, and what lies between is told as a gap: it is never silently
left out. Read with `pread`, so that an error of the disk is an error and no signal.
"""

import os
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from halfpast_core_store.frame import (
    ALIGNMENT,
    FLAG_END,
    HEADER,
    HEADER_SIZE,
    MAGIC,
    verify_frame,
)
from halfpast_core_store.real_disk import data_extents
from halfpast_core_store.segment import Segment, next_intact, plausible_header

CHUNK_SIZE = 4 * 1024 * 1024
DELETED = "retention has deleted this part of the log"
DAMAGED = "this part of the log is damaged; 'halfpast doctor' tells more"
MISSING = "a segment of the log is missing"


class Frame(NamedTuple):
    """An intact frame: where it begins in its chunk, and what its header says."""

    at: int
    length: int
    position: int
    stored_ms: int
    flags: int
    run_count: int
    record_count: int


@dataclass(slots=True)
class Chunk:
    """Some frames, one behind the other, and the bytes that they stand in."""

    data: bytes
    frames: list[Frame]


@dataclass(slots=True)
class Gap:
    """Nothing is known from `start` up to `end`, and why."""

    start: int
    end: int
    reason: str


class OutsideFile:
    """A file that somebody else writes. Implements the reading half of `ports.File`."""

    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self.size = os.fstat(self._fd).st_size
        self._extents: list[tuple[int, int]] | None = None

    def read(self, start: int, end: int) -> bytes:
        return os.pread(self._fd, max(0, min(end, self.size) - start), start)

    def next_data(self, offset: int) -> int | None:
        if self._extents is None:
            self._extents = data_extents(self._fd, self.size)
        for start, end in self._extents:
            if offset < end:
                return max(offset, start)
        return None

    def write(self, offset: int, parts: Sequence[bytes]) -> None:
        raise PermissionError("the log is only read from outside")

    def sync(self) -> None:
        raise PermissionError("the log is only read from outside")

    def close(self) -> None:
        os.close(self._fd)


class LogFile:
    """A segment, as a context. Raises FileNotFoundError once it has been deleted."""

    def __init__(self, path: str, base: int, salt: int) -> None:
        self._file = OutsideFile(path)
        self._segment = Segment(base, self._file)
        self._salt = salt

    def __enter__(self) -> "LogFile":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    @property
    def end(self) -> int:
        return self._segment.end

    def frame_at(self, position: int) -> Frame | None:
        """The intact frame that begins there; an END counts as none."""
        try:
            header = plausible_header(self._segment, position)
            if header is None or header.flags & FLAG_END:
                return None
            at = position - self._segment.base
            data = self._file.read(at, at + header.length)
        except OSError:
            return None
        if verify_frame(data, position, self._salt) is None:
            return None
        return Frame(
            0,
            header.length,
            position,
            header.stored_ms,
            header.flags,
            header.run_count,
            header.record_count,
        )

    def next_frame(self, position: int) -> int | None:
        """Where an intact frame begins, at or behind `position`; None if none does."""
        try:
            return next_intact(self._segment, position, self._salt)
        except OSError:
            return None

    def chunks_until_gap(self, start: int) -> Iterator[Chunk]:
        """All frames from `start` on, as far as each begins where the last one ends."""
        position = start
        while position < self.end:
            chunk, behind, is_last = self._chunk(position, self.end)
            if chunk.frames:
                yield chunk
            if is_last or behind == position:
                return
            position = behind

    def chunks(self, start: int, end: int) -> Iterator[Chunk | Gap]:
        """All frames that begin from `start` up to before `end`, and the gaps between
        them. `start` must be where a frame begins, or would if it were intact."""
        position = start
        end = min(end, self.end)
        while position < end:
            chunk, behind, is_last = self._chunk(position, end)
            if chunk.frames:
                yield chunk
            if is_last:
                return
            if behind == position:
                behind = self._behind_damage(position, end)
                yield Gap(position, behind, DAMAGED)
            position = behind

    def _behind_damage(self, position: int, end: int) -> int:
        found = self.next_frame(position + ALIGNMENT)
        return end if found is None else min(found, end)

    def _chunk(self, position: int, end: int) -> tuple[Chunk, int, bool]:
        """The frames in the next bytes, where they end, and whether END has come."""
        base = self._segment.base
        try:
            data = self._file.read(position - base, position - base + CHUNK_SIZE)
            found = walk(data, position, end, self._salt)
            if found[1] > position or found[2]:
                return Chunk(data, found[0]), found[1], found[2]
            header = plausible_header(self._segment, position)
            if header is None or header.length <= len(data):
                return Chunk(data, []), position, False
            data = self._file.read(position - base, position - base + header.length)
        except OSError:  # the disk cannot read it
            return Chunk(b"", []), position, False
        frames, behind, is_last = walk(data, position, end, self._salt)
        return Chunk(data, frames), behind, is_last


def walk(
    data: bytes, position: int, end: int, salt: int
) -> tuple[list[Frame], int, bool]:
    """The intact frames at the beginning of `data`, which stands at `position`; where
    they end; and whether an END frame has come behind them."""
    frames: list[Frame] = []
    view = memoryview(data)
    unpack = HEADER.unpack_from
    checksum = zlib.crc32
    size = len(data)
    at = 0
    while position + at < end and size - at >= HEADER_SIZE:
        magic, crc, length, _, where, stored_ms, flags, runs, records, _ = unpack(
            data, at
        )
        if magic != MAGIC or where != position + at or length < HEADER_SIZE:
            break
        if at + length > size or checksum(view[at + 8 : at + length], salt) != crc:
            break
        if flags & FLAG_END:
            return frames, position + at, True
        frames.append(Frame(at, length, where, stored_ms, flags, runs, records))
        at += length
    return frames, position + at, False
