"""A copy of a RocksDB folder, of one moment, while its process goes on.

Its tables (`*.sst`) never change; `MANIFEST` only grows, an atomic entry at a time, and
says which tables are the database; the WAL is off. So a copy of the beginning of
MANIFEST is the database as it was when it was that long, if all tables that it names
can be had. They are held open before and after MANIFEST is read. If one has come and
gone in between, we look again. The copy is opened before it counts.
"""

import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from halfpast_api.backup.copier import Copier
from halfpast_api.backup.errors import IndexMoves
from halfpast_api.backup.held_files import HeldFiles
from halfpast_api.backup.manifest import BackedUpFile
from halfpast_core_store import keys
from halfpast_core_store.errors import BrokenIndex
from halfpast_core_store.inspect import reading

TABLE = ".sst"
_TRIES = 20
_PAUSE_S = 0.1
_CONFIG = "rocksdict-config.json"
_IDENTITY = "IDENTITY"


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexCopy:
    """`applied`: how far this copy has applied the log."""

    applied: int
    files: tuple[BackedUpFile, ...]


class _Moved(Exception):
    """Something went while we looked."""


def copy_index(
    folder: Path, copier: Copier, *, tries: int = _TRIES
) -> IndexCopy | None:
    """None if there is no such index. Raises IndexMoves."""
    if not (folder / "CURRENT").exists():
        return None
    why = ""
    for number in range(tries):
        scratch = copier.scratch / f"{folder.name}-{number}"
        scratch.mkdir()
        try:
            with HeldFiles(folder, TABLE) as tables:
                return _copy(folder, scratch, tables, copier)
        except (_Moved, BrokenIndex, FileNotFoundError) as error:
            why = str(error)
        finally:
            shutil.rmtree(scratch)
        time.sleep(_PAUSE_S)
    raise IndexMoves(str(folder), why)


def _copy(folder: Path, scratch: Path, tables: HeldFiles, copier: Copier) -> IndexCopy:
    tables.look()
    small = _copy_small(folder, scratch)
    tables.look()
    for name in tables.names:
        # Opens what we hold, also if it has no name any more.
        (scratch / name).symlink_to(f"/proc/{os.getpid()}/fd/{tables.fd(name)}")
    applied, live = _opened(scratch)
    if not live <= set(tables.names):
        raise _Moved(f"{min(live - set(tables.names))} went away")
    files = [
        copier.unchanging(
            f"{folder.name}/{name}", tables, name, tables.stat(name).st_size
        )
        for name in sorted(live)
    ]
    files += [
        copier.changing(f"{folder.name}/{name}", scratch / name) for name in small
    ]
    return IndexCopy(applied=applied, files=tuple(files))


def _copy_small(folder: Path, scratch: Path) -> list[str]:
    """CURRENT, the MANIFEST that it names, and the settings."""
    current = (folder / "CURRENT").read_bytes()
    manifest = current.decode().strip()
    if not manifest.startswith("MANIFEST-"):
        raise _Moved(f"CURRENT names {manifest!r}")
    (scratch / "CURRENT").write_bytes(current)
    (scratch / manifest).write_bytes((folder / manifest).read_bytes())
    copied = ["CURRENT", manifest]
    for name in sorted(os.listdir(folder)):
        if name in {_CONFIG, _IDENTITY} or name.startswith("OPTIONS-"):
            try:
                data = (folder / name).read_bytes()
            except FileNotFoundError:
                continue  # options that have just been replaced
            (scratch / name).write_bytes(data)
            copied.append(name)
    return copied


def _opened(scratch: Path) -> tuple[int, set[str]]:
    """How far it has applied the log, and which tables it needs."""
    with reading(scratch) as database:
        value: bytes | None = database.get(keys.APPLIED)
        live = {str(it["name"]).lstrip("/") for it in database.live_files()}
    if value is None:
        return 0, live
    if len(value) == keys.PROGRESS.size:
        return int(keys.PROGRESS.unpack(value)[1]), live
    return keys.read_u64(value), live
