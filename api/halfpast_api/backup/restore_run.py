"""A data folder made from a backup, or nothing.

`halfpast.json` is written last, so no server starts on half of it. Whatever fails,
what was written is removed; if even that is cut short, the file `restore.unfinished`
tells the next restore that it may.
"""

import shutil
from pathlib import Path, PurePosixPath

from halfpast_api.backup.errors import DamagedBackup, NotEmpty
from halfpast_api.backup.manifest import BackedUpFile, BackupManifest
from halfpast_api.backup.shelf import Shelf
from halfpast_api.backup.watch import Watch
from halfpast_core_store.folder import MANIFEST
from halfpast_core_store.real_disk import sync_folder

UNFINISHED = "restore.unfinished"
_MOUNTED = "lost+found"  # every new file system has it


def restore(source: Path, data: Path, name: str | None, watch: Watch) -> BackupManifest:
    """Make a data folder from the newest backup, or that of this name.

    Raises BackupError, and then leaves the folder as it was found.
    """
    shelf = Shelf(source)
    with shelf.reading():
        manifest = shelf.choose(name)
        _refuse_missing(shelf, manifest)
        was_there = data.is_dir()
        _make_ready(data)
        watch.expect(manifest.size)
        try:
            _write(shelf, manifest, data, watch)
        except BaseException:
            _remove_written(data)
            if not was_there:
                data.rmdir()
            raise
    return manifest


def _refuse_missing(shelf: Shelf, manifest: BackupManifest) -> None:
    """Told before anything is written."""
    missing = [file.path for file in manifest.files if not shelf.pool.holds(file)]
    if missing:
        raise DamagedBackup(manifest.name, missing)


def _make_ready(data: Path) -> None:
    data.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = sorted(path.name for path in data.iterdir() if path.name != _MOUNTED)
    if found and UNFINISHED not in found:
        raise NotEmpty(str(data), found[0])
    _remove_written(data)
    (data / UNFINISHED).write_text("what lies here is half of a restore\n")
    sync_folder(data)


def _write(shelf: Shelf, manifest: BackupManifest, data: Path, watch: Watch) -> None:
    last = [file for file in manifest.files if file.path == MANIFEST]
    others = [file for file in manifest.files if file.path != MANIFEST]
    for file in [*others, *last]:
        target = data / _inside(file, manifest)
        target.parent.mkdir(exist_ok=True)
        if file in last:
            for folder in data.iterdir():
                if folder.is_dir() and folder.name != _MOUNTED:
                    sync_folder(folder)
        if not shelf.pool.take(file, target, watch):
            raise DamagedBackup(manifest.name, [file.path])
    (data / UNFINISHED).unlink()
    sync_folder(data)


def _inside(file: BackedUpFile, manifest: BackupManifest) -> PurePosixPath:
    path = PurePosixPath(file.path)
    if path.is_absolute() or ".." in path.parts or len(path.parts) > 2:
        raise DamagedBackup(manifest.name, [file.path])
    return path


def _remove_written(data: Path) -> None:
    """The marker goes last."""
    for path in data.iterdir():
        if path.name in {_MOUNTED, UNFINISHED}:
            continue
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    (data / UNFINISHED).unlink(missing_ok=True)
