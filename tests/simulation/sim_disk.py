"""A disk that lets the simulated process die before any of its operations."""

from collections.abc import Sequence

from halfpast_core_store.memory_disk import MemoryDisk
from halfpast_core_store.ports import File


class SimulatedCrash(BaseException):
    """The process is gone. Nothing may catch this but the simulator."""


class Fuse:
    """Burns down by one at each disk operation, and kills the process at its end."""

    def __init__(self) -> None:
        self.left: int | None = None

    def burn(self) -> None:
        if self.left is None:
            return
        self.left -= 1
        if self.left < 0:
            self.left = None
            raise SimulatedCrash


class SimFile:
    """See `ports.File`."""

    def __init__(self, file: File, fuse: Fuse) -> None:
        self._file = file
        self._fuse = fuse

    @property
    def size(self) -> int:
        return self._file.size

    def write(self, offset: int, parts: Sequence[bytes]) -> None:
        self._fuse.burn()
        self._file.write(offset, parts)
        self._fuse.burn()

    def sync(self) -> None:
        self._fuse.burn()
        self._file.sync()
        self._fuse.burn()

    def read(self, start: int, end: int) -> bytes:
        return self._file.read(start, end)

    def next_data(self, offset: int) -> int | None:
        return self._file.next_data(offset)

    def close(self) -> None:
        self._file.close()


class SimDisk:
    """See `ports.Disk`: a `MemoryDisk` behind a fuse."""

    def __init__(self, disk: MemoryDisk, fuse: Fuse) -> None:
        self.memory = disk
        self._fuse = fuse

    def names(self) -> list[str]:
        return self.memory.names()

    def create(self, name: str, size: int) -> SimFile:
        self._fuse.burn()
        return SimFile(self.memory.create(name, size), self._fuse)

    def open(self, name: str) -> SimFile:
        return SimFile(self.memory.open(name), self._fuse)

    def delete(self, name: str) -> None:
        self._fuse.burn()
        self.memory.delete(name)

    def free_bytes(self) -> int:
        return self.memory.free_bytes()

    def total_bytes(self) -> int:
        return self.memory.total_bytes()
