"""The id-level tables of a run: one row a transaction, a timer, a message.

With a folder they are Parquet in `<folder>/<run id>/<table>`, there when the run has
succeeded, and the last KEPT runs stay. Without one they live as long as the run.
"""

import os
import shutil
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from pyspark import StorageLevel

from .job_errors import ResultsUnavailable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

KEPT = 3


class DetailTables:
    """Holds the tables of one run, and lets them go at its end."""

    def __init__(self, folder: str, run_id: str) -> None:
        """Raises ResultsUnavailable if there can be no such folder."""
        self._parent = Path(folder).absolute() if folder else None
        self._run_id = run_id
        self._persisted: list[DataFrame] = []
        if self._parent is not None:
            try:
                self._parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise ResultsUnavailable(folder, str(error)) from error

    @property
    def folder(self) -> str:
        """Where the tables will lie; empty if nowhere."""
        return "" if self._parent is None else str(self._parent / self._run_id)

    def hold(self, name: str, table: "DataFrame") -> "DataFrame":
        """The same table, computed once however often it is used."""
        if self._parent is None:
            self._persisted.append(table.persist(StorageLevel.DISK_ONLY))
            return table
        place = str(self._unfinished / name)
        table.write.option("compression", "zstd").parquet(place)
        return table.sparkSession.read.schema(table.schema).parquet(place)

    def keep(self) -> None:
        """The run has succeeded: its tables may be seen, the oldest ones go."""
        if self._parent is None or not self._unfinished.exists():
            return
        os.rename(self._unfinished, self.folder)
        runs = [it for it in self._parent.iterdir() if not it.name.startswith(".")]
        runs.sort(key=lambda it: it.stat().st_mtime)
        for old in runs[:-KEPT]:
            shutil.rmtree(old, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for table in self._persisted:
            table.unpersist()
        if self._parent is not None:
            shutil.rmtree(self._unfinished, ignore_errors=True)

    @property
    def _unfinished(self) -> Path:
        assert self._parent is not None
        return self._parent / f".{self._run_id}"
