"""The bytes of all backups of a folder, each content once, named by its SHA-256.

A file comes into the pool by a rename, so one that has its name is whole. What no
backup names any more is swept.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from halfpast_api.backup.file_copy import copy_bytes
from halfpast_api.backup.manifest import BackedUpFile
from halfpast_api.backup.watch import Watch
from halfpast_core_store.real_disk import sync_folder

_READ = os.O_RDONLY | os.O_CLOEXEC
_MAKE = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC


class Pool:
    """`incoming` is on the same file system, and emptied by whoever begins."""

    def __init__(self, folder: Path, incoming: Path) -> None:
        self._folder = folder
        self._incoming = incoming
        self.copied_size = 0
        """Bytes that were brought in by this object."""

    def path(self, sha256: str) -> Path:
        return self._folder / sha256[:2] / sha256

    def holds(self, file: BackedUpFile) -> bool:
        """Whether the bytes are there, as far as a look at their number tells."""
        try:
            return self.path(file.sha256).stat().st_size == file.stored
        except FileNotFoundError:
            return False

    def put(self, source: int, size: int, watch: Watch) -> str:
        """Bring in the first bytes of a descriptor; gives their name. What is there
        already under that name is replaced, since that may have been damaged."""
        temporary = self._incoming / "file"
        target = os.open(temporary, _MAKE, 0o600)
        try:
            sha256 = copy_bytes(source, target, size, watch)
        finally:
            os.close(target)
        path = self.path(sha256)
        path.parent.mkdir(mode=0o700, exist_ok=True)
        temporary.rename(path)
        sync_folder(path.parent)
        self.copied_size += size
        return sha256

    def put_file(self, path: Path, size: int, watch: Watch) -> str:
        source = os.open(path, _READ)
        try:
            return self.put(source, size, watch)
        finally:
            os.close(source)

    def is_intact(self, file: BackedUpFile, watch: Watch) -> bool:
        """Reads all of it."""
        return self.holds(file) and self._moved(file, None, watch)

    def take(self, file: BackedUpFile, target: Path, watch: Watch) -> bool:
        """Write a file of a backup as a new file, with all its zeroes allocated.

        False if the bytes are not what they were; then the new file is worth nothing.
        """
        if not self.holds(file):
            return False
        made = os.open(target, _MAKE | os.O_EXCL, 0o600)
        try:
            if not self._moved(file, made, watch):
                return False
            if file.size > file.stored:
                # What is written here later must not meet a full disk.
                os.posix_fallocate(made, 0, file.size)
                os.fsync(made)
        finally:
            os.close(made)
        return True

    def _moved(self, file: BackedUpFile, target: int | None, watch: Watch) -> bool:
        source = os.open(self.path(file.sha256), _READ)
        try:
            return copy_bytes(source, target, file.stored, watch) == file.sha256
        finally:
            os.close(source)

    def sweep(self, named: set[str]) -> int:
        """Delete all that no backup names; gives how many bytes that freed."""
        freed = 0
        for path in list(self._all()):
            if path.name not in named:
                freed += path.stat().st_size
                path.unlink()
        return freed

    def _all(self) -> Iterator[Path]:
        for folder in self._folder.iterdir():
            yield from folder.iterdir()
