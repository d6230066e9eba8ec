"""`spark.read.format("halfpast")`: the log as a Spark data source.

    from halfpast_spark.data_source import HalfpastSource
    spark.dataSource.register(HalfpastSource)
    spark.read.format("halfpast").option("kinds", "op,half").load("/var/lib/halfpast")

Options are told in `options.py`, columns in `event_schema.py`. Spark does not tell a
Python source which columns a query needs: `.schema("topic STRING, due_ms BIGINT")`
does, and then the others are not even made. The horizon is taken when the query is
planned. `start` and `end` as times compare with `stored_ms`.
"""

from collections.abc import Iterator, MutableMapping, Sequence
from typing import Any, cast

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.types import StructType

from .errors import BadOption
from .event_schema import COLUMNS, ddl
from .log_folder import LogFolder
from .log_parts import plan_parts, position_of, within_times
from .log_reader import LogPart, read_part
from .names import NameReader
from .options import SourceOptions, parse_options
from .row_filter import FOREVER_MS, RowFilter
from .stream_source import LogStreamReader

FORMAT = "halfpast"


class HalfpastSource(DataSource):
    """The log of a store, see above."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._options = parse_options(options)

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return ddl()

    def reader(self, schema: StructType) -> DataSourceReader:
        return LogReader(self._options, wanted_columns(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return LogStreamReader(self._options, wanted_columns(schema))


class LogReader(DataSourceReader):
    """Reads the log once. Workers get a copy with the names, made before Spark asks
    for partitions; hence the horizon is taken when the reader is made."""

    def __init__(self, options: SourceOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns
        self._wanted = wanted_rows(options)
        folder = LogFolder(options.path)
        horizon = folder.horizon()
        start = position_of(options.start, horizon)
        end = position_of(options.end, horizon)
        self._start = horizon.start if start is None else start
        self._end = horizon.end if end is None else end
        self._names = NameReader(folder).read_until(self._end)

    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        folder = LogFolder(options.path)
        parts = plan_parts(folder, self._start, self._end, options.split_bytes)
        return [InputPartition(part) for part in within_times(parts, self._wanted)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        if partition.value is None:  # how Spark asks where there are no partitions
            return iter(())
        return read_part(
            cast(LogPart, partition.value),
            self._names,
            columns=self._columns,
            wanted=self._wanted,
            batch_rows=self._options.batch_rows,
        )


def wanted_rows(options: SourceOptions) -> RowFilter:
    """The rows that the options ask for."""
    start_ms, end_ms = options.start.time_ms, options.end.time_ms
    return RowFilter(
        options.kinds,
        options.topics,
        0 if start_ms is None else start_ms,
        FOREVER_MS if end_ms is None else end_ms,
    )


def wanted_columns(schema: StructType) -> tuple[str, ...]:
    """The columns of a schema, which may leave some out. Raises BadOption."""
    types = dict(COLUMNS)
    for field in schema.fields:
        if types.get(field.name) != field.dataType.simpleString():
            raise BadOption(
                "schema",
                f"{field.name} {field.dataType.simpleString()}",
                f"a schema chooses among these columns: {ddl()}",
            )
    return tuple(schema.names)
