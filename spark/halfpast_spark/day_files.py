"""Parquet files of events, one for each day that they were stored on.

A file is written beside the others under another name, synced, and then renamed; so
under its own name it is whole. Rows keep the order of the log.
"""

import os
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from halfpast_core_store.real_disk import sync_folder

from .arrow import pa, parquet
from .arrow_schema import arrow_schema
from .export_manifest import ExportedFile

ROW_GROUP_ROWS = 262_144
DAY_MS = 86_400_000
FEW_VALUES = [
    *("kind", "topic_id", "topic", "queue", "group", "check", "outcome"),
    *("tag", "size", "message_count", "reason"),
]
"""Columns worth a dictionary; ids, keys and times are not."""
TEMPORARY = ".new"


class DayFiles:
    """Files for the rows of the log from `start` up to before `end`."""

    def __init__(self, folder: Path, start: int, end: int) -> None:
        self._folder = folder
        self._start = start
        self._end = end
        self._open: dict[str, DayFile] = {}

    def write(self, batches: Iterable[Any]) -> list[ExportedFile]:
        """Write all rows; gives the files, each of which is durable then."""
        try:
            for batch in batches:
                for day, rows in by_day(batch):
                    self._file(day).add(rows)
            return [file.finish() for file in self._open.values()]
        except BaseException:
            for file in self._open.values():
                file.give_up()
            raise

    def _file(self, day: str) -> "DayFile":
        if day not in self._open:
            path = f"day={day}/{self._start:020d}-{self._end:020d}.parquet"
            self._open[day] = DayFile(self._folder, path, day, self._start, self._end)
        return self._open[day]


class DayFile:
    """One file that is being written."""

    def __init__(self, folder: Path, path: str, day: str, start: int, end: int) -> None:
        self._path = folder / path
        self._names = (path, day, start, end)
        self._rows: list[Any] = []
        self._waiting = 0
        self._written = 0
        created = not self._path.parent.exists()
        self._path.parent.mkdir(parents=True, exist_ok=True)
        if created:
            sync_folder(folder)
        self._temporary = self._path.with_name("_" + self._path.name + TEMPORARY)
        self._writer = parquet.ParquetWriter(
            self._temporary,
            arrow_schema(),
            compression="zstd",
            use_dictionary=FEW_VALUES,
            write_statistics=True,
        )

    def add(self, batch: Any) -> None:
        self._rows.append(batch)
        self._waiting += batch.num_rows
        if self._waiting >= ROW_GROUP_ROWS:
            self._flush()

    def _flush(self) -> None:
        if self._rows:
            table = pa.Table.from_batches(self._rows, arrow_schema())
            self._writer.write_table(table, row_group_size=ROW_GROUP_ROWS)
            self._written += self._waiting
            self._rows, self._waiting = [], 0

    def finish(self) -> ExportedFile:
        self._flush()
        self._writer.close()
        with self._temporary.open("rb") as file:
            os.fsync(file.fileno())
        size = self._temporary.stat().st_size
        self._temporary.rename(self._path)
        sync_folder(self._path.parent)
        path, day, start, end = self._names
        return ExportedFile(
            path=path, day=day, start=start, end=end, rows=self._written, size=size
        )

    def give_up(self) -> None:
        self._writer.close()
        self._temporary.unlink(missing_ok=True)


def by_day(batch: Any) -> Iterator[tuple[str, Any]]:
    """A batch, cut where another day begins."""
    days = batch.column("stored_ms").to_numpy() // DAY_MS
    cuts = [0, *(np.flatnonzero(np.diff(days)) + 1).tolist(), batch.num_rows]
    for start, end in pairwise(cuts):
        yield day_of(int(days[start]) * DAY_MS), batch.slice(start, end - start)


def day_of(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d")
