"""A folder of backups of one store.

halfpast-backup.json    which store
backups/<name>.json     one for each backup, written last: `manifest.py`
files/ab/abcd…          the bytes: `pool.py`
incoming/               what is being made; nothing in here counts
backup.lock             held by flock(2)
"""

import fcntl
import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from halfpast_api.backup.errors import BackupBusy, DamagedBackup, NoBackup, OtherStore
from halfpast_api.backup.manifest import (
    BackupManifest,
    decode_manifest,
    encode_manifest,
)
from halfpast_api.backup.pool import Pool
from halfpast_core_store.real_disk import sync_folder

_ABOUT = "halfpast-backup.json"
_LOCK = "backup.lock"


@dataclass(frozen=True, slots=True, kw_only=True)
class _About:
    format_version: int
    store_id: str


class Shelf:
    """Reads need nothing; whoever writes holds `writing`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        self.incoming = self.folder / "incoming"
        self.pool = Pool(self.folder / "files", self.incoming)

    @contextmanager
    def writing(self, store_id: str) -> Generator[None]:
        """Make the folder if it is new, and keep all others out.

        Raises OtherStore, BackupBusy.
        """
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._locked(fcntl.LOCK_EX, os.O_RDWR | os.O_CREAT):
            self._belong_to(store_id)
            for name in ("files", "backups", "incoming"):
                (self.folder / name).mkdir(mode=0o700, exist_ok=True)
            self._clear_incoming()
            yield
            self._clear_incoming()

    @contextmanager
    def reading(self) -> Generator[None]:
        """Keep those who would sweep out. Raises NoBackup, BackupBusy."""
        try:
            with self._locked(fcntl.LOCK_SH, os.O_RDONLY):
                yield
        except FileNotFoundError as error:
            if error.filename == str(self.folder / _LOCK):
                raise NoBackup(str(self.folder)) from None
            raise

    @contextmanager
    def _locked(self, how: int, flags: int) -> Generator[None]:
        fd = os.open(self.folder / _LOCK, flags | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, how | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            raise BackupBusy(str(self.folder)) from None
        try:
            yield
        finally:
            os.close(fd)

    def _belong_to(self, store_id: str) -> None:
        path = self.folder / _ABOUT
        try:
            about = msgspec.json.decode(path.read_bytes(), type=_About)
        except FileNotFoundError:
            about = _About(format_version=1, store_id=store_id)
            _write_whole(path, path.with_suffix(".new"), msgspec.json.encode(about))
        except (msgspec.DecodeError, ValueError) as error:
            raise DamagedBackup(str(self.folder), [_ABOUT]) from error
        if about.store_id != store_id:
            raise OtherStore(str(self.folder), about.store_id, store_id)

    def _clear_incoming(self) -> None:
        for path in self.incoming.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    def names(self) -> list[str]:
        """All finished backups, the oldest first."""
        return sorted(path.stem for path in (self.folder / "backups").glob("*.json"))

    def read(self, name: str) -> BackupManifest:
        """Raises NoBackup, DamagedBackup."""
        try:
            data = (self.folder / "backups" / f"{name}.json").read_bytes()
        except FileNotFoundError:
            raise NoBackup(str(self.folder), name) from None
        return decode_manifest(name, data)

    def choose(self, name: str | None) -> BackupManifest:
        """The one of this name, or the newest. Raises NoBackup, DamagedBackup."""
        names = self.names()
        if not names:
            raise NoBackup(str(self.folder))
        if name is not None and name not in names:
            raise NoBackup(str(self.folder), name)
        return self.read(name or names[-1])

    def free_name(self, taken_ms: int) -> str:
        """A name that sorts by the moment."""
        while True:
            moment = datetime.fromtimestamp(taken_ms / 1000, UTC)
            millisecond = moment.microsecond // 1000
            name = f"{moment:%Y%m%dT%H%M%S}.{millisecond:03d}Z"
            if name not in self.names():
                return name
            taken_ms += 1

    def finish(self, manifest: BackupManifest) -> None:
        """From now on the backup exists."""
        path = self.folder / "backups" / f"{manifest.name}.json"
        _write_whole(path, self.incoming / "manifest", encode_manifest(manifest))

    def keep(self, count: int | None) -> int:
        """Delete all but the newest backups (None: no backup), then what no backup
        needs; gives the bytes freed. Raises DamagedBackup, deleting nothing."""
        names = self.names()
        gone = [] if count is None else names[:-count]
        kept = [self.read(name) for name in names if name not in gone]
        for name in gone:
            (self.folder / "backups" / f"{name}.json").unlink()
        sync_folder(self.folder / "backups")
        return self.pool.sweep({file.sha256 for it in kept for file in it.files})


def _write_whole(path: Path, temporary: Path, data: bytes) -> None:
    """The file is there with all of this, or as it was."""
    with temporary.open("wb") as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.rename(path)
    sync_folder(path.parent)
