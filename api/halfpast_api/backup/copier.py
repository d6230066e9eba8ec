"""Brings files of a data folder into the pool, once each."""

from collections.abc import Callable
from pathlib import Path

from halfpast_api.backup.former import Former
from halfpast_api.backup.held_files import HeldFiles
from halfpast_api.backup.manifest import BackedUpFile
from halfpast_api.backup.pool import Pool
from halfpast_api.backup.watch import Watch


class Copier:
    """What all copies of one backup have in common."""

    def __init__(self, pool: Pool, former: Former, watch: Watch, scratch: Path) -> None:
        self.pool = pool
        self.scratch = scratch
        self._former = former
        self._watch = watch

    def unchanging(
        self,
        path: str,
        held: HeldFiles,
        name: str,
        stored: int,
        check: Callable[[Path], bool] | None = None,
    ) -> BackedUpFile:
        """A file that is held; copied, and the copy checked, unless a former backup
        has it."""
        stat = held.stat(name)
        if stored == stat.st_size:
            same = self._former.same(path, stat)
            if same is not None:
                return same
        self._watch.expect(stored)
        sha256 = self.pool.put(held.fd(name), stored, self._watch)
        return BackedUpFile(
            path=path,
            size=stat.st_size,
            stored=stored,
            sha256=sha256,
            mtime_ns=stat.st_mtime_ns,
            inode=stat.st_ino,
            is_sound=check is None or check(self.pool.path(sha256)),
        )

    def changing(self, path: str, copy: Path) -> BackedUpFile:
        """A file of which `copy` is a copy of this moment."""
        size = copy.stat().st_size
        self._watch.expect(size)
        sha256 = self.pool.put_file(copy, size, self._watch)
        return BackedUpFile(path=path, size=size, stored=size, sha256=sha256)
