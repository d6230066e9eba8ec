"""One backup, from the first look to the file that makes it count.

The order is what makes it consistent: the log is held, then the indexes are copied,
then the log up to behind all of them. An index that is behind the log catches up with
it at the next start, as after a crash. `index/` comes before the others: it knows how
far these are flushed, and must not know more than their copies do.
"""

import time
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from halfpast_api.backup.copier import Copier
from halfpast_api.backup.errors import DamagedBackup, NotAStore, WrongPlace
from halfpast_api.backup.former import Former
from halfpast_api.backup.held_files import HeldFiles, many_files
from halfpast_api.backup.horizon import find_horizon
from halfpast_api.backup.index_copy import IndexCopy, copy_index
from halfpast_api.backup.log_plan import SeenSegment, plan_log
from halfpast_api.backup.manifest import BackedUpFile, BackupManifest, Metadata
from halfpast_api.backup.metadata_copy import NAME, copy_metadata, metadata_path
from halfpast_api.backup.shelf import Shelf
from halfpast_api.backup.soundness import is_sound
from halfpast_api.backup.watch import Watch
from halfpast_core_store.errors import StoreError
from halfpast_core_store.folder import MANIFEST, Manifest, read_manifest
from halfpast_core_store.segment import SUFFIX

INDEXES = ("index", "chronos", "txn")


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupOptions:
    """`metadata` is the URL of the settings, if they are not in the data folder.
    `is_full`: copy all anew. `keep`: how many backups are to be left."""

    metadata: str | None = None
    is_full: bool = False
    keep: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupDone:
    """`copied` bytes were new; `freed` were those of deleted backups."""

    manifest: BackupManifest
    copied: int
    freed: int


def back_up(
    data: Path, target: Path, options: BackupOptions, watch: Watch
) -> BackupDone:
    """Make one more backup of a data folder; a server may run on it meanwhile.

    Raises BackupError; OSError where a file cannot be read or written. Then former
    backups are as they were.
    """
    data = data.absolute()
    store = _store_of(data)
    _refuse_nesting(data, target)
    shelf = Shelf(target)
    with shelf.writing(store.store_id), many_files():
        manifest = _BackupRun(data, store, shelf, options, watch).run()
        shelf.finish(manifest)
        freed = 0
        with suppress(DamagedBackup):  # what that one needs, nobody knows
            freed = shelf.keep(options.keep)
    return BackupDone(manifest=manifest, copied=shelf.pool.copied_size, freed=freed)


def _store_of(data: Path) -> Manifest:
    if not (data / MANIFEST).is_file():
        raise NotAStore(str(data), f"there is no {MANIFEST}")
    try:
        return read_manifest(data)
    except StoreError as error:
        raise NotAStore(str(data), str(error)) from error


def _refuse_nesting(data: Path, target: Path) -> None:
    here, there = data.resolve(), target.resolve()
    if here == there or here in there.parents or there in here.parents:
        raise WrongPlace(str(target), str(data))


class _BackupRun:
    def __init__(
        self,
        data: Path,
        store: Manifest,
        shelf: Shelf,
        options: BackupOptions,
        watch: Watch,
    ) -> None:
        self._data = data
        self._store = store
        self._shelf = shelf
        self._metadata_url = options.metadata
        self._copier = Copier(
            shelf.pool,
            Former([] if options.is_full else _readable(shelf), shelf.pool),
            watch,
            shelf.incoming,
        )

    def run(self) -> BackupManifest:
        taken_ms = time.time_ns() // 1_000_000
        with HeldFiles(self._data / "log", SUFFIX) as segments:
            segments.look()
            began_at = min((_base(name) for name in segments.names), default=0)
            indexes = self._copy_indexes()
            applied = {name: copy.applied for name, copy in indexes.items()}
            end = find_horizon(
                self._data,
                self._store.salt,
                at_least=max([began_at, *applied.values()]),
            )
            # From the last frame that they have applied, by which a start knows that
            # the log belongs to them. What lay before our beginning they did without.
            needed_from = max(began_at, min(applied.values(), default=0) - 1)
            files = self._copy_log(segments, needed_from, end)
        files += [file for copy in indexes.values() for file in copy.files]
        files.append(self._copier.changing(MANIFEST, self._data / MANIFEST))
        metadata, settings = self._copy_metadata()
        return BackupManifest(
            name=self._shelf.free_name(taken_ms),
            store_id=self._store.store_id,
            taken_ms=taken_ms,
            log_start=min(
                (_base(it.path[4:]) for it in files if _is_log(it)), default=0
            ),
            log_end=end,
            applied=applied,
            metadata=metadata,
            files=(*files, *settings),
        )

    def _copy_indexes(self) -> dict[str, IndexCopy]:
        copies = {name: copy_index(self._data / name, self._copier) for name in INDEXES}
        return {name: copy for name, copy in copies.items() if copy is not None}

    def _copy_log(
        self, segments: HeldFiles, needed_from: int, end: int
    ) -> list[BackedUpFile]:
        there = segments.look()
        parts = plan_log(
            [
                SeenSegment(base=_base(name), size=segments.stat(name).st_size)
                for name in segments.names
            ],
            kept_from=min((_base(name) for name in there), default=0),
            needed_from=needed_from,
            end=end,
        )
        copied: list[BackedUpFile] = []
        for part in parts:
            name = f"{part.segment.base:020d}{SUFFIX}"
            check = partial(is_sound, base=part.segment.base, salt=self._store.salt)
            file = self._copier.unchanging(
                f"log/{name}", segments, name, part.stored, check
            )
            copied.append(file)
        return copied

    def _copy_metadata(self) -> tuple[Metadata, list[BackedUpFile]]:
        path = metadata_path(self._data, self._metadata_url)
        if path is None:
            return Metadata.ELSEWHERE, []
        if not path.exists():
            return Metadata.NONE, []
        made = self._shelf.incoming / NAME
        copy_metadata(path, made)
        return Metadata.INCLUDED, [self._copier.changing(NAME, made)]


def _readable(shelf: Shelf) -> list[BackupManifest]:
    """Former backups whose lists can be read."""
    found: list[BackupManifest] = []
    for name in shelf.names():
        with suppress(DamagedBackup):
            found.append(shelf.read(name))
    return found


def _base(name: str) -> int:
    return int(name.removesuffix(SUFFIX))


def _is_log(file: BackedUpFile) -> bool:
    return file.path.startswith("log/")
