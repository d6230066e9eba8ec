"""One file of the log, and looking through what it holds."""

from collections.abc import Iterator
from dataclasses import dataclass

from .errors import ForeignFolder
from .frame import ALIGNMENT, MAGIC_BYTES
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
