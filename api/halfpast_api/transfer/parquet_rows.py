"""Parquet: one event a row, in columns that have the names of the API's fields.

    topic, key, tag, delay   text
    deliver_at               text, or a timestamp with a time zone
    delay_ms                 whole numbers
    properties               map of text to text, a struct of texts, or JSON as text
    data                     JSON as text; or any other type, which becomes JSON
    data_bytes               bytes (also `data`, if that is binary)
    data_base64              bytes as text
    id, refused              ignored

A cell without a value is a field that is not given. Rows are converted a few at a
time, so memory is that of a few MiB of them.
"""

from base64 import b64encode
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, BinaryIO, Final

import msgspec

from halfpast_api.times import render_instant
from halfpast_api.transfer.errors import WrongFormat
from halfpast_api.transfer.line import Line, Position
from halfpast_api.transfer.parquet import load_arrow

_TEXTS: Final = ("topic", "key", "tag", "delay", "data_base64")
_IGNORED: Final = ("id", "refused")
_KNOWN: Final = (
    *("topic", "key", "tag", "properties", "data", "data_bytes", "data_base64"),
    *("deliver_at", "delay", "delay_ms"),
)
_PER_MS: Final = {"s": (1000, 1), "ms": (1, 1), "us": (1, 1_000), "ns": (1, 1_000_000)}
_BUFFER_SIZE: Final = 1024 * 1024
_BATCH_SIZE: Final = 8 * 1024 * 1024
_BATCH_ROWS_MAX: Final = 1_000
_encode: Final = msgspec.json.Encoder().encode
_json: Final = msgspec.json.Decoder(msgspec.Raw)

Cells = Sequence[Any]  # of one column, None where there is no value
Convert = Callable[[Any], Cells]


class ParquetRows:
    """The rows of `file`. Raises WrongFormat, ParquetMissing."""

    def __init__(self, file: BinaryIO, *, name: str) -> None:
        self._arrow = load_arrow()
        try:
            self._file = self._arrow.parquet.ParquetFile(
                file, pre_buffer=False, buffer_size=_BUFFER_SIZE
            )
        except (self._arrow.ArrowException, OSError) as error:
            why = f"cannot be read as Parquet: {error}"
            hint = "give --format ndjson, if that is what it is"
            raise WrongFormat(name, why, hint) from error
        self.size: int | None = self._file.metadata.num_rows
        self._name = name
        self._is_stopped = False
        self._as_json: set[str] = set()
        self._convert = {
            field.name: self._converter(field)
            for field in self._file.schema_arrow
            if field.name not in _IGNORED
        }

    def stop(self) -> None:
        self._is_stopped = True

    def lines(self, start: Position) -> Iterator[Line]:
        """Rows behind `start`, each as one JSON object."""
        number = 0
        metadata = self._file.metadata
        for group in range(metadata.num_row_groups):
            row_count = metadata.row_group(group).num_rows
            if number + row_count <= start.line:
                number += row_count
                continue
            for row in self._rows_of(group):
                number += 1
                if self._is_stopped:
                    return
                if number > start.line:
                    yield _line(number, row, self._as_json)

    def _rows_of(self, group: int) -> Iterator[dict[str, Any]]:
        metadata = self._file.metadata.row_group(group)
        row_size = max(1, metadata.total_byte_size // max(1, metadata.num_rows))
        names = list(self._convert)
        for batch in self._file.iter_batches(
            batch_size=max(1, min(_BATCH_ROWS_MAX, _BATCH_SIZE // row_size)),
            row_groups=[group],
            columns=names,
        ):
            cells = [self._convert[name](batch.column(name)) for name in names]
            for values in zip(*cells, strict=True):
                yield {
                    name: value
                    for name, value in zip(names, values, strict=True)
                    if value is not None
                }

    def _converter(self, field: Any) -> Convert:
        """How the cells of a column become what JSON has. Raises WrongFormat."""
        types = self._arrow.types
        kind = field.type
        if types.is_dictionary(kind):
            kind = kind.value_type
        is_text = types.is_string(kind) or types.is_large_string(kind)
        is_binary = (
            types.is_binary(kind)
            or types.is_large_binary(kind)
            or types.is_fixed_size_binary(kind)
        )
        match field.name:
            case "data" | "properties" if is_text:
                self._as_json.add(field.name)
                return _plain_cells
            case "data" | "data_bytes" if is_binary:
                return _plain_cells
            case "data":
                return _plain_cells
            case "properties" if types.is_map(kind):
                return _map_cells
            case "properties" if types.is_struct(kind):
                return _struct_cells
            case "deliver_at" if types.is_timestamp(kind):
                return self._timestamps(field)
            case "delay_ms" if types.is_integer(kind):
                return _plain_cells
            case name if is_text and (name in _TEXTS or name == "deliver_at"):
                return _plain_cells
            case name if name in _KNOWN:
                raise self._wrong_column(
                    f"has {field.type} in the column {name!r}, which must hold "
                    f"{_wanted(name)}"
                )
            case name:
                known = ", ".join((*_KNOWN, *_IGNORED))
                raise self._wrong_column(
                    f"has a column {name!r}, which no event has; known are {known}"
                )

    def _timestamps(self, field: Any) -> Convert:
        if field.type.tz is None:
            raise self._wrong_column(
                "has times without a time zone in 'deliver_at', which could mean any"
            )
        times, parts = _PER_MS[field.type.unit]

        def convert(column: Any) -> Cells:
            return [
                None if it is None else render_instant(-(-it * times // parts))
                for it in column.cast(self._arrow.int64()).to_pylist()
            ]

        return convert

    def _wrong_column(self, why: str) -> WrongFormat:
        return WrongFormat(self._name, why, "write it anew with the right columns")


def _wanted(name: str) -> str:
    return {
        "delay_ms": "whole numbers",
        "properties": "a map of text to text",
        "deliver_at": "timestamps with a time zone, or text",
        "data_bytes": "bytes",
    }.get(name, "text")


def _plain_cells(column: Any) -> Cells:
    cells: list[Any] = column.to_pylist()
    return cells


def _map_cells(column: Any) -> Cells:
    return [None if it is None else dict(it) for it in column.to_pylist()]


def _struct_cells(column: Any) -> Cells:
    return [
        None if it is None else {n: v for n, v in it.items() if v is not None}
        for it in column.to_pylist()
    ]


def _line(number: int, row: dict[str, Any], as_json: Collection[str]) -> Line:
    """The row as a line of NDJSON would have it. Texts `as_json` are JSON already."""
    event: dict[str, Any] = {}
    for name, value in row.items():
        given, cell = name, value
        if name in as_json:
            try:
                cell = _json.decode(value)
            except msgspec.DecodeError as error:
                fault = f"the text in {name!r} is not JSON: {error}"
                return Line(number, number, _encode(row), fault)
        elif isinstance(value, bytes):
            given, cell = "data_base64", b64encode(value).decode()
        if given in event:
            fault = "data is given more than once; give it in one column"
            return Line(number, number, _encode(row), fault)
        event[given] = cell
    try:
        return Line(number, number, _encode(event))
    except (TypeError, ValueError, OverflowError) as error:
        fault = f"a value has no form in JSON: {error}"
        return Line(number, number, b"", fault)
