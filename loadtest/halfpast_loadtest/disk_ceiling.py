"""The most that any store could make durable on this disk: pwrite and fdatasync.

One writer, groups of the same size as the store's own, into a preallocated file,
nothing else: no parsing, no index, no answer.
"""

import os
import tempfile
import time
from pathlib import Path

FILE_SIZE = 256 * 1024 * 1024
WINDOW_S = 0.5
WINDOW_COUNT = 4


def syncs_per_second(folder: Path, group_bytes: int) -> float:
    """How many groups of `group_bytes` per second become durable in `folder`.

    The best of several windows: a shared disk has bad moments, a ceiling has none.
    """
    group = os.urandom(group_bytes)
    file_size = max(FILE_SIZE, 4 * group_bytes)
    with tempfile.TemporaryFile(dir=folder) as file:
        fd = file.fileno()
        os.posix_fallocate(fd, 0, file_size)
        os.fsync(fd)
        return max(_window(fd, group, file_size) for _ in range(WINDOW_COUNT))


def _window(fd: int, group: bytes, file_size: int) -> float:
    count = at = 0
    began = time.perf_counter()
    while (elapsed := time.perf_counter() - began) < WINDOW_S:
        if at + len(group) > file_size:
            at = 0
        os.pwrite(fd, group, at)
        os.fdatasync(fd)
        at += len(group)
        count += 1
    return count / elapsed
