"""How much of mapped files is in this process's memory: bounded.

What is read through a map stays mapped. The pages belong to the kernel's cache, which
can have them back at any time, and yet they count as memory of the process, and as used
up where that is limited: gigabytes, when a whole log is read once from end to end. So
from time to time all of it is given back. What is read again after that costs a page
fault of half a microsecond, since the cache still has it.
"""

import mmap

MIB = 1024 * 1024
RESIDENT_SIZE_MAX = 16 * MIB
AROUND_SIZE = 64 * 1024  # with the page that is read the kernel maps those around it


class MappedPages:
    """Of all files of a disk together."""

    def __init__(self, size_max: int = RESIDENT_SIZE_MAX) -> None:
        self._size_max = self._left = size_max
        self._touched: dict[int, mmap.mmap] = {}

    def touch(self, mapped: mmap.mmap, size: int) -> None:
        """So many bytes of this map are being read."""
        self._left -= size + AROUND_SIZE
        if self._left < 0:
            self._give_back()
        self._touched[id(mapped)] = mapped

    def forget(self, mapped: mmap.mmap) -> None:
        """This map is about to be closed."""
        self._touched.pop(id(mapped), None)

    def _give_back(self) -> None:
        for mapped in self._touched.values():
            mapped.madvise(mmap.MADV_DONTNEED)  # of the map, not of the file
        self._touched.clear()
        self._left = self._size_max
