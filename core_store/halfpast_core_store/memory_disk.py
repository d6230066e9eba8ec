"""A model of the disk in memory: for simulation and tests.

Each file has two images: what a reader sees, and what a power cut leaves. They
differ in the sectors written since the last sync, of which a crash keeps any
subset: sectors are written whole or not at all, in no order. Names are durable
when a call returns, as with the real one.
"""

import errno
import os
from collections.abc import Callable, Sequence

SECTOR_SIZE = 512
ZEROES = bytes(8 * SECTOR_SIZE)


class Image:
    """One file's bytes, now (`seen`) and after a power cut (`durable`)."""

    def __init__(self, size: int) -> None:
        self.seen = bytearray(size)
        self.durable = bytearray(size)
        self.unsynced: set[int] = set()
        """Sectors that the next sync makes durable."""
        self.given_up: set[int] = set()
        """Sectors that a failed sync has marked clean: no later one saves them."""

    def write(self, offset: int, data: bytes) -> None:
        assert offset + len(data) <= len(self.seen), "written behind the file's end"
        self.seen[offset : offset + len(data)] = data
        if data:
            first, last = offset, offset + len(data) - 1
            touched = range(first // SECTOR_SIZE, last // SECTOR_SIZE + 1)
            self.unsynced.update(touched)
            self.given_up.difference_update(touched)

    def sync(self) -> None:
        for sector in self.unsynced:
            self._keep(sector)
        self.unsynced.clear()

    def fail_sync(self) -> None:
        """As the kernel does: the pages count as clean, and are on no disk."""
        self.given_up |= self.unsynced
        self.unsynced.clear()

    def crash(self, choose: Callable[[int], bool]) -> "Image":
        """What is left, having kept the unsynced sectors that `choose` wants."""
        survivor = Image(len(self.seen))
        survivor.durable[:] = self.durable
        survivor.seen[:] = self.seen
        for sector in sorted(self.unsynced | self.given_up):
            if choose(sector):
                survivor._keep(sector)
        survivor.seen[:] = survivor.durable
        return survivor

    def _keep(self, sector: int) -> None:
        start = sector * SECTOR_SIZE
        end = start + SECTOR_SIZE
        self.durable[start:end] = self.seen[start:end]


class MemoryFile:
    """See `ports.File`. A handle: it outlives the deletion of its file's name."""

    def __init__(self, disk: "MemoryDisk", image: Image) -> None:
        self._disk = disk
        self._image = image
        self._closed = False

    @property
    def size(self) -> int:
        return len(self._image.seen)

    def write(self, offset: int, parts: Sequence[bytes]) -> None:
        self._check_open()
        self._image.write(offset, b"".join(parts))

    def sync(self) -> None:
        self._check_open()
        if self._disk.sync_failures > 0:
            self._disk.sync_failures -= 1
            self._image.fail_sync()
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        self._image.sync()

    def read(self, start: int, end: int) -> bytes:
        self._check_open()
        return bytes(self._image.seen[start:end])

    def next_data(self, offset: int) -> int | None:
        self._check_open()
        seen = self._image.seen
        for start in range(offset, len(seen), len(ZEROES)):
            if any(seen[start : start + len(ZEROES)]):
                return start
        return None

    def close(self) -> None:
        self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            raise ValueError("the file is closed")


class MemoryDisk:
    """See `ports.Disk`.

    `sync_failures`: so many of the next syncs raise EIO. `space`: how many bytes
    all files together may take before a creation raises ENOSPC; None: no limit.
    """

    def __init__(self, space: int | None = None) -> None:
        self.space = space
        self.sync_failures = 0
        self._images: dict[str, Image] = {}

    def names(self) -> list[str]:
        return sorted(self._images)

    def create(self, name: str, size: int) -> MemoryFile:
        if self.space is not None and size > self.free_bytes():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._images[name] = Image(size)
        return self.open(name)

    def open(self, name: str) -> MemoryFile:
        if name not in self._images:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
        return MemoryFile(self, self._images[name])

    def delete(self, name: str) -> None:
        self._images.pop(name, None)

    def free_bytes(self) -> int:
        if self.space is None:
            return 0
        return self.space - sum(len(image.seen) for image in self._images.values())

    def total_bytes(self) -> int:
        """0 where there is no limit: such a disk is never nearly full."""
        return self.space or 0

    # --- what happens to disks ------------------------------------------------

    def crash(self, choose: Callable[[int], bool]) -> "MemoryDisk":
        """What a new process finds after a power cut: all that was synced, and of
        the other sectors those that `choose`, given a sector's number within its
        file, says survived. Files are asked for in order of their names."""
        survivor = MemoryDisk(self.space)
        for name in self.names():
            survivor._images[name] = self._images[name].crash(choose)
        return survivor

    @property
    def sectors_at_risk(self) -> int:
        """How many sectors a crash may still lose."""
        images = self._images.values()
        return sum(len(image.unsynced | image.given_up) for image in images)

    def damage(self, name: str, offset: int, mask: int) -> None:
        """Flip bits of one byte behind everybody's back, as a bad disk does."""
        image = self._images[name]
        image.seen[offset] ^= mask
        image.durable[offset] ^= mask

    def truncate(self, name: str, offset: int) -> None:
        """Let everything from `offset` on be zeroes, as if never written."""
        image = self._images[name]
        for data in (image.seen, image.durable):
            data[offset:] = bytes(len(data) - offset)
