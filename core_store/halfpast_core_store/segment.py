"""One file of the log, and looking through what it holds."""

from collections.abc import Iterator
from dataclasses import dataclass

from .errors import ForeignFolder
from .frame import (
    ALIGNMENT,
    HEADER_SIZE,
    MAGIC_BYTES,
    FrameHeader,
    peek_header,
    verify_frame,
)
from .ports import Disk, File

SUFFIX = ".seg"
SCAN_SIZE = 1024 * 1024
ZEROES = bytes(SCAN_SIZE)


@dataclass(slots=True)
class Segment:
    """One file of the log, covering positions from `base` to `end`."""

    base: int
    file: File

    @property
    def end(self) -> int:
        return self.base + self.file.size

    @property
    def name(self) -> str:
        return segment_name(self.base)


def segment_name(base: int) -> str:
    """Twenty digits sort like numbers."""
    return f"{base:020d}{SUFFIX}"


def open_segments(disk: Disk) -> list[Segment]:
    """All segments in order. Raises ForeignFolder for a gap or a strange file."""
    segments: list[Segment] = []
    for name in disk.names():
        if not name.endswith(SUFFIX) or not name[: -len(SUFFIX)].isdigit():
            raise ForeignFolder(name, "it is not a segment of the log")
        base = int(name[: -len(SUFFIX)])
        if segments and segments[-1].end != base:
            raise ForeignFolder(
                name, f"the segment {segment_name(segments[-1].end)} is missing"
            )
        segments.append(Segment(base, disk.open(name)))
    return segments


def plausible_header(segment: Segment, position: int) -> FrameHeader | None:
    """What looks like the header of a frame at `position`; nothing is verified."""
    at = position - segment.base
    header = peek_header(segment.file.read(at, at + HEADER_SIZE))
    if header is None:
        return None
    fits = (
        header.position == position
        and header.length >= HEADER_SIZE
        and header.length % ALIGNMENT == 0
        and position + header.length <= segment.end
    )
    return header if fits else None


def intact_frame(
    segment: Segment, position: int, salt: int
) -> tuple[FrameHeader, bytes] | None:
    """The frame that begins at `position`, if it is intact."""
    header = plausible_header(segment, position)
    if header is None:
        return None
    at = position - segment.base
    frame = segment.file.read(at, at + header.length)
    verified = verify_frame(frame, position, salt)
    return None if verified is None else (verified, frame)


def next_intact(segment: Segment, position: int, salt: int) -> int | None:
    """Where an intact frame begins, at `position` or behind it."""
    for candidate in find_magic(segment, position):
        if intact_frame(segment, candidate, salt) is not None:
            return candidate
    return None


def find_magic(segment: Segment, position: int) -> Iterator[int]:
    """Positions in the segment, from `position` on, where a frame might begin."""
    for at, data in data_chunks(segment, position):
        found = data.find(MAGIC_BYTES)
        while found >= 0:
            if (at + found - segment.base) % ALIGNMENT == 0:
                yield at + found
            found = data.find(MAGIC_BYTES, found + 1)


def wipe(segment: Segment, position: int) -> None:
    """Zero everything from `position` on, durably: an unfinished frame's rest
    must not look like anything once a shorter one is written over it."""
    wiped = False
    for at, data in data_chunks(segment, position):
        segment.file.write(at - segment.base, [bytes(len(data))])
        wiped = True
    if wiped:
        segment.file.sync()


def data_chunks(segment: Segment, position: int) -> Iterator[tuple[int, bytes]]:
    """Pieces of the segment that hold anything but zeroes, from `position` on.

    Pieces begin at multiples of the alignment, so no magic is cut in two.
    """
    at = position - segment.base
    while at < segment.file.size:
        found = segment.file.next_data(at)
        if found is None:
            return
        end = min(found + SCAN_SIZE, segment.file.size)
        data = segment.file.read(found, end)
        if data != ZEROES[: len(data)]:
            yield segment.base + found, data
        at = end
