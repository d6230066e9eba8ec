"""The rows of the event table that the frames of a chunk tell, as Arrow batches.

A chunk's rows are counted before any is made (`Entries`), so that a record that tells
of a million messages is no more memory than others, and so that a row's number does
not depend on what is left out.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from .arrow import pa
from .arrow_schema import arrow_schema
from .entries import Entries
from .frame_records import Numbers, read_records
from .log_file import Chunk
from .names import Names
from .row_columns import RowColumns
from .row_filter import RowFilter
from .row_kinds import UNKNOWN, codes_of

SLICE_ROWS = 65_536


class EventRows:
    """Makes the rows that are wanted, with the columns that are wanted."""

    def __init__(
        self, names: Names, columns: Sequence[str], wanted: RowFilter, batch_rows: int
    ) -> None:
        self._names = names
        self._columns = columns
        self._wanted = wanted
        self._kinds = wanted.kind_table()
        self._batch_rows = batch_rows
        self._schema = arrow_schema(columns)

    def batches(self, chunk: Chunk) -> Iterator[Any]:
        """All wanted rows of a chunk, in order, `batch_rows` at most at a time."""
        for rows in self.slices(chunk):
            yield from self._made(rows)

    def slices(self, chunk: Chunk) -> Iterator[RowColumns]:
        """The same, before columns are made of them; none is empty."""
        records = read_records(chunk)
        codes = codes_of(records)
        entries = Entries(records, codes == UNKNOWN)
        in_time = np.array(
            [self._wanted.wants_time(frame.stored_ms) for frame in chunk.frames]
        )
        is_wanted = self._kinds[codes] & in_time[records.frame]
        if not is_wanted.any():
            return
        total = int(entries.counts.sum())
        ends = entries.rows_before + entries.counts
        first_rows = first_of_each(records.frame, entries.rows_before, len(in_time))
        for start in range(0, total, SLICE_ROWS):
            rows = np.arange(start, min(start + SLICE_ROWS, total))
            record = np.searchsorted(ends, rows, side="right")
            keep = is_wanted[record]
            rows, record = rows[keep], record[keep]
            place = rows - entries.rows_before[record]
            number = rows - first_rows[records.frame[record]]
            columns = RowColumns(
                records, entries, codes, self._names, record, place, number
            )
            columns = self._of_topics(columns)
            if len(columns):
                yield columns

    def _of_topics(self, rows: RowColumns) -> RowColumns:
        if self._wanted.topics is None or not len(rows):
            return rows
        numbers = rows.topic_ids()
        known = np.unique(numbers)
        name = self._names.topic
        ids = [i for i in known if self._wanted.wants_topic(name, int(i))]
        return rows.only(np.isin(numbers, ids))

    def _made(self, rows: RowColumns) -> Iterator[Any]:
        made = [rows.column(field.name) for field in self._schema]
        arrays = [
            column if column.type == field.type else column.cast(field.type)
            for column, field in zip(made, self._schema, strict=True)
        ]
        batch = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        for at in range(0, batch.num_rows, self._batch_rows):
            yield batch.slice(at, self._batch_rows)


def first_of_each(frame: Numbers, rows_before: Numbers, count: int) -> Numbers:
    """The number of the first row of each frame."""
    first: Numbers = np.zeros(count, np.int64)
    present, at = np.unique(frame, return_index=True)
    first[present] = rows_before[at]
    return first
