"""Exporting the log to Parquet, segment by segment, as they are closed.

A step exports one closed segment and then names its files in the manifest; a process
that is killed between the two writes the same files again. What retention had deleted
before it was exported is told as a gap. Small files of one day are joined to larger
ones; what they replace is kept for readers that have begun, and deleted later.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from halfpast_core_store.errors import FolderInUse
from halfpast_core_store.folder import FolderLock

from .arrow import parquet
from .day_files import TEMPORARY, DayFiles
from .errors import ExportBusy, ForeignExport
from .export_manifest import (
    LOCK_NAME,
    ExportedFile,
    Manifest,
    Replaced,
    read_manifest,
    write_manifest,
)
from .log_file import LogFile
from .log_folder import LogFolder
from .log_parts import dated, plan_parts
from .log_reader import LogPart, read_part
from .names import NameReader

BATCH_ROWS = 65_536
MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportConfig:
    """How files are joined, and how long replaced ones are kept."""

    small_size: int = 32 * MIB
    """Files below this size are joined …"""

    joined_count_min: int = 8
    """… when there are so many of a day behind each other."""

    joined_size_max: int = 256 * MIB
    """A file is not joined beyond this size."""

    replaced_keep_ms: int = 15 * 60 * 1000
    """Replaced files are deleted so long after: a query that has begun needs them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """What a step has exported: the log between two positions, and its rows."""

    start: int
    end: int
    rows: int


class Exporter:
    """Exports one store into one folder. A context: it holds the folder's lock."""

    def __init__(
        self, store: LogFolder, folder: Path, config: ExportConfig | None = None
    ) -> None:
        """Raises ExportBusy, ForeignExport."""
        self._store = store
        self._folder = folder
        self._config = config or ExportConfig()
        self._names = NameReader(store)
        self._lock = lock_folder(folder)
        try:
            self.manifest = self._begin()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "Exporter":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._lock.close()

    def _begin(self) -> Manifest:
        found = read_manifest(self._folder)
        if found is None:
            horizon = self._store.horizon()
            found = Manifest(
                store_id=self._store.store_id, start=horizon.start, end=horizon.start
            )
        elif found.store_id != self._store.store_id:
            why = f"it holds the export of another store, {found.store_id}"
            raise ForeignExport(str(self._folder), why)
        for left in self._folder.glob(f"day=*/_*{TEMPORARY}"):
            left.unlink()  # an export that a crash cut short
        return found

    # --- exporting ------------------------------------------------------------------

    def step(self) -> Exported | None:
        """Export the next closed segment; None if there is none."""
        end = self._next_end()
        if end is None:
            return None
        start = self.manifest.end
        self._names.read_until(end)
        parts = dated(plan_parts(self._store, start, end, end - start))
        files = DayFiles(self._folder, start, end).write(self._batches(parts))
        self._commit(
            end=end,
            as_of_ms=self._stored_ms(end) or self.manifest.as_of_ms,
            files=[*self.manifest.files, *files],
        )
        return Exported(start=start, end=end, rows=sum(file.rows for file in files))

    def _next_end(self) -> int | None:
        """The end of the first segment that is not exported and surely is closed."""
        horizon = self._store.horizon()
        for segment in self._store.segments():
            if self.manifest.end < segment.end < horizon.end:
                return segment.end
        return None

    def _batches(self, parts: list[LogPart]) -> Iterator[Any]:
        for part in parts:
            yield from read_part(part, self._names.names, batch_rows=BATCH_ROWS)

    def _stored_ms(self, position: int) -> int:
        """When the frame at the beginning of a segment was stored; 0 if unknown."""
        for segment in self._store.segments():
            if segment.base == position:
                try:
                    salt = self._store.salt
                    with LogFile(segment.path, segment.base, salt) as file:
                        frame = file.frame_at(position)
                except FileNotFoundError:
                    return 0
                return 0 if frame is None else frame.stored_ms
        return 0

    def _commit(self, **changes: Any) -> None:
        self.manifest = msgspec.structs.replace(self.manifest, **changes)
        write_manifest(self._folder, self.manifest)

    # --- upkeep ---------------------------------------------------------------------

    def join(self, now_ms: int) -> int:
        """Join small files of a day, once; gives how many were replaced."""
        group = self._group()
        if not group:
            return 0
        first, last = group[0], group[-1]
        batches = (batch for file in group for batch in self._read(file))
        (joined,) = DayFiles(self._folder, first.start, last.end).write(batches)
        assert joined.rows == sum(file.rows for file in group)
        at = self.manifest.files.index(first)
        files = [file for file in self.manifest.files if file not in group]
        files.insert(at, joined)
        gone = [Replaced(file.path, now_ms) for file in group]
        self._commit(files=files, replaced=[*self.manifest.replaced, *gone])
        return len(group)

    def _group(self) -> list[ExportedFile]:
        config = self._config
        days: dict[str, list[ExportedFile]] = {}
        for file in self.manifest.files:
            group = days.setdefault(file.day, [])
            size = sum(one.size for one in group) + file.size
            if file.size >= config.small_size or size > config.joined_size_max:
                group.clear()
            else:
                group.append(file)
            if len(group) >= config.joined_count_min:
                return group
        return []

    def _read(self, file: ExportedFile) -> Iterator[Any]:
        with parquet.ParquetFile(self._folder / file.path) as opened:
            yield from opened.iter_batches(BATCH_ROWS)

    def sweep(self, now_ms: int) -> int:
        """Delete replaced files that nobody reads any longer; gives how many."""
        until_ms = now_ms - self._config.replaced_keep_ms
        gone = [one for one in self.manifest.replaced if one.at_ms <= until_ms]
        for one in gone:
            (self._folder / one.path).unlink(missing_ok=True)
        if gone:
            kept = [one for one in self.manifest.replaced if one not in gone]
            self._commit(replaced=kept)
        return len(gone)


def lock_folder(folder: Path) -> FolderLock:
    """Hold the folder for this process. Raises ExportBusy."""
    try:
        return FolderLock(folder, LOCK_NAME)
    except FolderInUse as error:
        raise ExportBusy(str(folder), error.holder) from None
