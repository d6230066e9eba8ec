"""What former backups have copied already, so that it is not copied again."""

import os
from collections.abc import Iterable

from halfpast_api.backup.manifest import BackedUpFile, BackupManifest
from halfpast_api.backup.pool import Pool


class Former:
    """Files that never change once they are whole: closed segments, and RocksDB's
    tables. The same place, length, time of change and inode: the same bytes."""

    def __init__(self, manifests: Iterable[BackupManifest], pool: Pool) -> None:
        self._pool = pool
        self._files = {
            (file.path, file.size, file.mtime_ns, file.inode): file
            for manifest in manifests
            for file in manifest.files
            if file.stored == file.size
        }

    def same(self, path: str, stat: os.stat_result) -> BackedUpFile | None:
        """The entry to use again, if the pool still has its bytes."""
        key = (path, stat.st_size, stat.st_mtime_ns, stat.st_ino)
        found = self._files.get(key)
        return found if found is not None and self._pool.holds(found) else None
