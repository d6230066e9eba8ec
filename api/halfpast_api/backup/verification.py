"""Reading backups again, to know that they could be restored."""

from dataclasses import dataclass
from pathlib import Path

from halfpast_api.backup.errors import DamagedBackup, NoBackup
from halfpast_api.backup.manifest import BackedUpFile, BackupManifest
from halfpast_api.backup.shelf import Shelf
from halfpast_api.backup.watch import Watch


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedBackup:
    """One backup. `damaged` names files; empty if nothing is known against it."""

    name: str
    manifest: BackupManifest | None
    damaged: tuple[str, ...] = ()


def list_backups(folder: Path) -> list[ListedBackup]:
    """All finished ones, the oldest first, with what a glance shows to be missing.

    Raises NoBackup if this is no folder of backups.
    """
    shelf = Shelf(folder)
    with shelf.reading():
        return [_glance(shelf, name) for name in shelf.names()]


def _glance(shelf: Shelf, name: str) -> ListedBackup:
    try:
        manifest = shelf.read(name)
    except DamagedBackup as error:
        return ListedBackup(name=name, manifest=None, damaged=tuple(error.files))
    missing = [it.path for it in manifest.files if not shelf.pool.holds(it)]
    return ListedBackup(name=name, manifest=manifest, damaged=tuple(missing))


def verify_backups(folder: Path, name: str | None, watch: Watch) -> list[ListedBackup]:
    """Read all bytes of one backup, or of all; those that are shared once.

    Raises NoBackup if there is none.
    """
    shelf = Shelf(folder)
    with shelf.reading():
        names = shelf.names() if name is None else [name]
        if not names:
            raise NoBackup(str(folder))
        found: list[ListedBackup] = []
        verdicts: dict[str, bool] = {}
        for each in names:
            try:
                manifest = shelf.read(each)
            except DamagedBackup as error:
                listed = ListedBackup(
                    name=each, manifest=None, damaged=tuple(error.files)
                )
                found.append(listed)
                continue
            bad = _damaged(shelf, manifest, verdicts, watch)
            listed = ListedBackup(name=each, manifest=manifest, damaged=bad)
            found.append(listed)
        return found


def _damaged(
    shelf: Shelf, manifest: BackupManifest, verdicts: dict[str, bool], watch: Watch
) -> tuple[str, ...]:
    fresh: dict[str, BackedUpFile] = {}
    for file in manifest.files:
        if file.sha256 not in verdicts:
            fresh[file.sha256] = file
    watch.expect(sum(file.stored for file in fresh.values()))
    for sha256, file in fresh.items():
        verdicts[sha256] = shelf.pool.is_intact(file, watch)
    return tuple(it.path for it in manifest.files if not verdicts[it.sha256])
