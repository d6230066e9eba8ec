"""A small file system of our own that can be filled, or lose its power.

An ext4 in a file behind a loop device. A power cut drops whatever was not synced:
the page cache is forgotten, the journal is replayed at the next mount.
"""

import fcntl
import os
import struct
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.acceptance.fault_tools import need_loop_mounts, run

EXT4_IOC_SHUTDOWN = 0x8004587D
NO_LOG_FLUSH = 2
MIB = 1024 * 1024


class SmallDisk:
    """`folder` is where it is mounted."""

    def __init__(self, folder: Path, image: Path) -> None:
        self.folder = folder
        self._image = image

    @property
    def free_bytes(self) -> int:
        stat = os.statvfs(self.folder)
        return stat.f_bavail * stat.f_frsize

    def fill(self, *, leave: int = 0) -> None:
        """Take all room but `leave` bytes, as somebody else's file does."""
        with (self.folder / "ballast").open("ab") as file:
            for piece in (MIB, 64 * 1024, 4096):
                while self.free_bytes > leave + piece:
                    try:
                        file.write(bytes(piece))
                        file.flush()
                    except OSError:
                        break
            os.fsync(file.fileno())

    def free(self) -> None:
        """Give back what `fill` has taken."""
        (self.folder / "ballast").unlink()

    def cut_power(self) -> None:
        """From now on nothing reaches the disk, and what was not synced is lost."""
        fd = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.ioctl(fd, EXT4_IOC_SHUTDOWN, struct.pack("I", NO_LOG_FLUSH))
        finally:
            os.close(fd)

    def mount(self) -> None:
        """Raises AssertionError where the system does not let us."""
        done = run("mount", "-o", "loop", str(self._image), str(self.folder))
        assert done.returncode == 0, done.stderr

    def unmount(self) -> None:
        """Waits a moment for processes that have just been killed."""
        for _ in range(100):
            if not os.path.ismount(self.folder):
                return
            run("umount", str(self.folder))
            time.sleep(0.02)
        run("umount", "-l", str(self.folder))


@contextmanager
def small_disk(folder: Path, size_mib: int = 64) -> Generator[SmallDisk]:
    """An empty one below `folder`; skips the test where there can be none."""
    need_loop_mounts()
    image, mounted = folder / "disk.img", folder / "disk"
    mounted.mkdir()
    with image.open("wb") as file:
        file.truncate(size_mib * MIB)
    made = run("mkfs.ext4", "-q", "-m0", str(image))
    assert made.returncode == 0, made.stderr
    disk = SmallDisk(mounted, image)
    try:
        disk.mount()
    except AssertionError as error:
        pytest.skip(f"no loop mount here: {error}")
    try:
        yield disk
    finally:
        disk.unmount()
        for line in run("losetup", "-j", str(image)).stdout.splitlines():
            run("losetup", "-d", line.partition(":")[0])
