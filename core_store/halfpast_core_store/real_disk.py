"""The real file system behind the `Disk` port.

Written with `pwritev`, synced with `fdatasync` (both release the GIL), read through
a shared map: on Linux map and file are coherent, so a reader sees a write at once. What
has been read does not stay in our memory (`mapped_pages.py`). Files are allocated
before they are used, so that a full disk is an error at creation and never in the
middle of a frame.
"""

import contextlib
import errno
import mmap
import os
from collections.abc import Sequence
from pathlib import Path

from .mapped_pages import MappedPages

TEMPORARY = ".new"
PARTS_MAX = 512
LARGE_READ = 256 * 1024


class RealFile:
    """A preallocated file. See `ports.File`."""

    def __init__(
        self, path: Path, pages: MappedPages | None = None, *, writable: bool = True
    ) -> None:
        mode = os.O_RDWR if writable else os.O_RDONLY
        self._fd = os.open(path, mode | os.O_CLOEXEC)
        self.size = os.fstat(self._fd).st_size
        self._extents = data_extents(self._fd, self.size)
        self._map = mmap.mmap(self._fd, self.size, mmap.MAP_SHARED, mmap.PROT_READ)
        self._pages = pages or MappedPages()

    def write(self, offset: int, parts: Sequence[bytes]) -> None:
        for start in range(0, len(parts), PARTS_MAX):
            piece = parts[start : start + PARTS_MAX]
            size = sum(map(len, piece))
            written = os.pwritev(self._fd, piece, offset)
            if written != size:
                write_rest(self._fd, offset + written, b"".join(piece)[written:])
            offset += size

    def sync(self) -> None:
        os.fdatasync(self._fd)

    def read(self, start: int, end: int) -> bytes:
        if end - start >= LARGE_READ:  # keeps scans out of our resident memory
            return os.pread(self._fd, end - start, start)
        self._pages.touch(self._map, end - start)
        return self._map[start:end]

    def next_data(self, offset: int) -> int | None:
        for start, end in self._extents:
            if offset < end:
                return max(offset, start)
        return None

    def close(self) -> None:
        self._pages.forget(self._map)
        self._map.close()
        os.close(self._fd)


def data_extents(fd: int, size: int) -> list[tuple[int, int]]:
    """The parts of a file that may hold anything but zeroes.

    Asked for when a file is opened: merely reading an allocated hole brings its
    pages into the cache, and from then on the kernel calls them data.
    """
    extents: list[tuple[int, int]] = []
    end = 0
    try:
        while end < size:
            start = os.lseek(fd, end, os.SEEK_DATA)
            end = os.lseek(fd, start, os.SEEK_HOLE)
            extents.append((start, end))
    except OSError as error:
        if error.errno == errno.EINVAL:  # a file system that cannot tell
            return [(0, size)]
        if error.errno != errno.ENXIO:  # no more data
            raise
    return extents


def write_rest(fd: int, offset: int, rest: bytes) -> None:
    """Finish a short write: the kernel may take less than it was given."""
    while rest:
        written = os.pwrite(fd, rest, offset)
        if written == 0:
            raise OSError(errno.EIO, "the disk takes no more bytes")
        rest = rest[written:]
        offset += written


class RealDisk:
    """One folder. See `ports.Disk`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._pages = MappedPages()
        folder.mkdir(parents=True, exist_ok=True)
        for path in folder.glob(f"*{TEMPORARY}"):
            path.unlink()  # a creation that a crash cut short
        sync_folder(folder)

    def names(self) -> list[str]:
        return sorted(path.name for path in self._folder.iterdir())

    def create(self, name: str, size: int) -> RealFile:
        path = self._folder / name
        temporary = self._folder / (name + TEMPORARY)
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        fd = os.open(temporary, flags, 0o644)
        try:
            os.posix_fallocate(fd, 0, size)
            os.fsync(fd)
        except OSError:
            temporary.unlink()  # a failed allocation leaves a grown file behind
            raise
        finally:
            os.close(fd)
        temporary.rename(path)
        sync_folder(self._folder)
        return RealFile(path, self._pages)

    def open(self, name: str) -> RealFile:
        return RealFile(self._folder / name, self._pages)

    def delete(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            (self._folder / name).unlink()
        sync_folder(self._folder)

    def free_bytes(self) -> int:
        return room_on_disk(self._folder)[0]

    def total_bytes(self) -> int:
        return room_on_disk(self._folder)[1]


def room_on_disk(folder: Path) -> tuple[int, int]:
    """Bytes that a folder's file system has free for us, and has in all."""
    stat = os.statvfs(folder)
    return stat.f_bavail * stat.f_frsize, stat.f_blocks * stat.f_frsize


def sync_folder(folder: Path) -> None:
    """Make names that were created, renamed or deleted in a folder durable."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
