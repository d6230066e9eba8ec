"""Where a stream of live counts reads: the log, in packed events (`live_events.py`)."""

from collections.abc import Iterator
from typing import Any, cast

from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.types import StructType

from .audited_kinds import HEAD_KINDS, MESSAGE_KINDS, TIMER_KINDS
from .event_rows import EventRows
from .live_events import SCHEMA, LiveEvents, gap_events, packed_rows
from .log_file import Chunk
from .log_reader import LogPart, log, timed
from .names import Names
from .options import SourceOptions, parse_options
from .row_filter import RowFilter
from .stream_source import LogStreamReader

FORMAT = "halfpast-live"
KINDS = frozenset((*HEAD_KINDS, *MESSAGE_KINDS, *TIMER_KINDS, "gap"))


class LiveSource(DataSource):
    """`spark.readStream.format("halfpast-live")`; options as those of `halfpast`."""

    def __init__(self, options: Any) -> None:
        super().__init__(options)
        self._options = parse_options(options)

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return SCHEMA

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return LiveStreamReader(self._options)


class LiveStreamReader(LogStreamReader):
    """The same parts of the log as for other streams, read into fewer rows."""

    def __init__(self, options: SourceOptions) -> None:
        super().__init__(options, ())

    def read(self, partition: InputPartition) -> Iterator[Any]:
        part, names = cast(tuple[LogPart, Names], partition.value)
        for some in read_live(part, names):
            yield some.as_batch()


def read_live(part: LogPart, names: Names) -> Iterator[LiveEvents]:
    """The events of a part of the log, and what is missing of it."""
    rows = EventRows(names, (), RowFilter(KINDS), 1)
    for piece, _ in timed(part):
        if isinstance(piece, Chunk):
            for some in rows.slices(piece):
                yield packed_rows(some, names)
            continue
        log.warning("nothing from %d to %d: %s", piece.start, piece.end, piece.reason)
        yield gap_events(piece)
