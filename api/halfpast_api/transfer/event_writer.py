"""Pending events as lines or rows, which an import takes back as they are."""

from base64 import b64encode
from collections.abc import Sequence
from datetime import datetime
from typing import Any, BinaryIO, Final, Protocol

import msgspec

from halfpast_api.transfer.parquet import load_arrow
from halfpast_api.transfer.pending_pages import PendingEvent

_ROWS_MAX: Final = 10_000
_ROWS_SIZE_MAX: Final = 16 * 1024 * 1024
_encode: Final = msgspec.json.Encoder().encode


class EventWriter(Protocol):
    """Writes events. What is not closed is not complete."""

    def write(self, events: Sequence[PendingEvent]) -> None: ...

    def close(self) -> None: ...


class NdjsonWriter:
    """One JSON object a line. JSON data stays as it is, to the byte, unless it has
    line breaks: then white space is left out."""

    def __init__(self, file: BinaryIO, *, with_ids: bool) -> None:
        self._file = file
        self._with_ids = with_ids

    def write(self, events: Sequence[PendingEvent]) -> None:
        lines = [self._line(event) for event in events]
        self._file.write(b"".join(lines))

    def close(self) -> None:
        self._file.flush()

    def _line(self, event: PendingEvent) -> bytes:
        line: dict[str, object] = {"id": event.id} if self._with_ids else {}
        line["topic"] = event.topic
        line["deliver_at"] = event.deliver_at
        if event.key is not None:
            line["key"] = event.key
        if event.tag is not None:
            line["tag"] = event.tag
        if event.properties:
            line["properties"] = event.properties
        if event.json:
            line["data"] = msgspec.Raw(_in_one_line(event.data))
        else:
            line["data_base64"] = b64encode(event.data).decode()
        return _encode(line) + b"\n"


class ParquetWriter:
    """Columns as `parquet_rows` reads them. Memory is that of one row group.

    Raises ParquetMissing.
    """

    def __init__(self, file: BinaryIO, *, with_ids: bool) -> None:
        self._arrow = load_arrow()
        self._with_ids = with_ids
        self._schema = self._arrow.schema(self._fields())
        self._writer = self._arrow.parquet.ParquetWriter(
            file, self._schema, compression="zstd"
        )
        self._rows: list[PendingEvent] = []
        self._size = 0

    def write(self, events: Sequence[PendingEvent]) -> None:
        for event in events:
            self._rows.append(event)
            self._size += len(event.data)
            if len(self._rows) >= _ROWS_MAX or self._size >= _ROWS_SIZE_MAX:
                self._write_group()

    def close(self) -> None:
        self._write_group()
        self._writer.close()

    def _write_group(self) -> None:
        rows, self._rows, self._size = self._rows, [], 0
        if not rows:
            return
        columns: dict[str, list[Any]] = {
            "id": [row.id for row in rows],
            "topic": [row.topic for row in rows],
            "deliver_at": [datetime.fromisoformat(row.deliver_at) for row in rows],
            "key": [row.key for row in rows],
            "tag": [row.tag for row in rows],
            "properties": [list(row.properties.items()) or None for row in rows],
            "data": [row.data.decode() if row.json else None for row in rows],
            "data_bytes": [None if row.json else row.data for row in rows],
        }
        if not self._with_ids:
            del columns["id"]
        self._writer.write_table(
            self._arrow.Table.from_pydict(columns, schema=self._schema)
        )

    def _fields(self) -> list[tuple[str, Any]]:
        arrow = self._arrow
        text = arrow.string()
        fields = [("id", text)] if self._with_ids else []
        return [
            *fields,
            ("topic", text),
            ("deliver_at", arrow.timestamp("ms", tz="UTC")),
            ("key", text),
            ("tag", text),
            ("properties", arrow.map_(text, text)),
            ("data", text),
            ("data_bytes", arrow.binary()),
        ]


def _in_one_line(text: bytes) -> bytes:
    if b"\n" in text or b"\r" in text:
        return msgspec.json.format(text, indent=-1)
    return text
