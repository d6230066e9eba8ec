"""`spark.readStream.format("halfpast")`: the log as it grows.

An offset is a position in the log, `{"position": …}`, which names the same frames for
ever: so a batch that is run again reads the same rows, and a sink that remembers the
last batch it took has each row once (`live_results.py`). Nothing is read before the
store has made it durable. The same holds for a part that retention has deleted in the
meantime, but that it is told as a gap.
"""

from collections.abc import Iterator, Sequence
from typing import Any, cast

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    SupportsTriggerAvailableNow,
)

from .errors import BadOption
from .log_file import LogFile
from .log_folder import LogFolder
from .log_parts import begin_before, dated, plan_parts, position_of
from .log_reader import LogPart, read_part
from .names import NameReader, Names
from .options import LATEST, SourceOptions
from .row_filter import RowFilter


class LogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Follows the log. The driver has one; workers get copies that only `read`."""

    def __init__(self, options: SourceOptions, columns: tuple[str, ...]) -> None:
        if options.end.word != LATEST:
            raise BadOption("end", "…", "a stream has no end; filter by stored_ms")
        self._options = options
        self._columns = columns
        start_ms = options.start.time_ms
        self._wanted = RowFilter(
            options.kinds, options.topics, 0 if start_ms is None else start_ms
        )
        self._folder: LogFolder | None = None
        self._names: NameReader | None = None
        self._available: int | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_folder": None, "_names": None}

    # --- on the driver --------------------------------------------------------------

    def initialOffset(self) -> dict[str, int]:
        start = position_of(self._options.start, self._log().horizon())
        if start is None:  # by time: whatever is older is passed over
            start = begin_before(self._log(), self._wanted.start_ms)
            start = self._log().horizon().start if start is None else start
        return {"position": start}

    def getDefaultReadLimit(self) -> ReadLimit:
        limit = self._options.trigger_bytes
        return ReadAllAvailable() if limit is None else ReadMaxBytes(limit)

    def prepareForTriggerAvailableNow(self) -> None:
        self._available = self._log().horizon().end

    def reportLatestOffset(self) -> dict[str, int]:
        return {"position": self._log().horizon().end}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        position = start["position"]
        end = self._available
        if end is None:
            end = self._log().horizon().end
        if isinstance(limit, ReadMaxBytes) and end - position > limit.max_bytes:
            end = self._frame_behind(position + limit.max_bytes, end)
        return {"position": max(position, end)}

    def partitions(
        self, start: dict[str, int], end: dict[str, int]
    ) -> Sequence[InputPartition]:
        if start["position"] >= end["position"]:
            return []
        folder = self._log()
        if self._names is None:
            self._names = NameReader(folder)
        names = self._names.read_until(end["position"])
        parts = plan_parts(
            folder, start["position"], end["position"], self._options.split_bytes
        )
        return [InputPartition((part, names)) for part in dated(parts)]

    def _log(self) -> LogFolder:
        if self._folder is None:
            self._folder = LogFolder(self._options.path)
        return self._folder

    def _frame_behind(self, position: int, end: int) -> int:
        """Where a frame begins, at or behind `position`; `end` if none does before."""
        for segment in self._log().segments():
            if segment.base >= position:
                return min(segment.base, end)
            if position < segment.end:
                try:
                    with LogFile(segment.path, segment.base, self._log().salt) as file:
                        found = file.next_frame(position)
                except FileNotFoundError:
                    continue
                return min(segment.end if found is None else found, end)
        return end

    # --- on the workers -------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[Any]:
        part, names = cast(tuple[LogPart, Names], partition.value)
        return read_part(
            part,
            names,
            columns=self._columns,
            wanted=self._wanted,
            batch_rows=self._options.batch_rows,
        )
