"""The data folder: its manifest, its lock, and its durable mark.

`halfpast.json` fixes what the file format fixes: the format version and the salt
of the checksums. It is written once, atomically. The lock is the kernel's, so it
ends with the process that holds it; the file only tells who that is.
"""

import fcntl
import json
import os
from dataclasses import dataclass
from pathlib import Path

from .durable_mark import NAME, DurableMark, decode_mark
from .errors import FolderInUse, ForeignFolder, NewerFormat
from .ports import Rng
from .real_disk import sync_folder

MANIFEST = "halfpast.json"
FORMAT_VERSION = 1
READ_TRIES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What all files of a folder agree on."""

    format_version: int
    store_id: str
    salt: int


class FolderLock:
    """Holds one service's part of a data folder for this process until `close`."""

    def __init__(self, folder: Path, service: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{service}.lock"
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(self._fd, 100, 0).decode("ascii", "replace").strip()
            os.close(self._fd)
            raise FolderInUse(str(folder), holder or "another process") from None
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, f"process {os.getpid()}\n".encode(), 0)

    def close(self) -> None:
        os.close(self._fd)


def lock_holder(folder: Path, service: str) -> str:
    """Who holds a service's lock, or an empty text."""
    try:
        fd = os.open(folder / f"{service}.lock", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return ""
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return os.pread(fd, 100, 0).decode("ascii", "replace").strip() or "somebody"
    finally:
        os.close(fd)
    return ""


def read_mark(folder: Path, salt: int) -> DurableMark | None:
    """How far the log of a data folder is marked as durable; None if there is no mark,
    or none of this store."""
    for _ in range(READ_TRIES):
        try:
            data = (folder / NAME).read_bytes()
        except FileNotFoundError:
            return None
        mark = decode_mark(data, salt)
        if mark is not None:
            return mark  # else it may just be being written
    return None


def open_manifest(folder: Path, rng: Rng) -> Manifest:
    """The manifest of a folder, made now if the folder is new.

    Raises NewerFormat, or ForeignFolder where there is something else.
    """
    path = folder / MANIFEST
    if path.exists():
        return read_manifest(folder)
    if (folder / "log").exists():
        raise ForeignFolder(str(folder), f"it has a log but no {MANIFEST}")
    return create_manifest(path, rng)


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a folder that has one. Raises NewerFormat, ForeignFolder."""
    try:
        found = json.loads((folder / MANIFEST).read_bytes())
        version = int(found["format_version"])
        if version > FORMAT_VERSION:
            raise NewerFormat(str(folder), version, FORMAT_VERSION)
        salt = int(found["salt"])
        if version < 1 or not 0 <= salt < 1 << 32:
            raise ValueError("a number is out of its range")
        return Manifest(
            format_version=version, store_id=str(found["store_id"]), salt=salt
        )
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        raise ForeignFolder(str(folder), f"{MANIFEST} is broken: {error}") from error


def create_manifest(path: Path, rng: Rng) -> Manifest:
    """Write a new manifest so that it is there wholly or not at all."""
    manifest = Manifest(
        format_version=FORMAT_VERSION,
        store_id=f"{rng.bits(64):016x}",
        salt=rng.bits(32),
    )
    text = json.dumps(
        {
            "format_version": manifest.format_version,
            "store_id": manifest.store_id,
            "salt": manifest.salt,
        }
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".new")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    try:
        os.write(fd, text.encode() + b"\n")
        os.fsync(fd)
    finally:
        os.close(fd)
    temporary.rename(path)
    sync_folder(path.parent)
    return manifest
