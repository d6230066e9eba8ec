"""Columns of Parquet become events, and exported ones come back as they were."""

import importlib
import io
import json
from base64 import b64decode
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from halfpast_api.transfer.errors import ParquetMissing, WrongFormat
from halfpast_api.transfer.event_line import EventLines
from halfpast_api.transfer.event_writer import EventWriter, NdjsonWriter, ParquetWriter
from halfpast_api.transfer.line import Line, LineSource, Position
from halfpast_api.transfer.ndjson_lines import NdjsonLines
from halfpast_api.transfer.parquet import load_arrow
from halfpast_api.transfer.parquet_rows import ParquetRows
from halfpast_api.transfer.pending_pages import PendingEvent

AT = datetime(2030, 1, 2, 3, 4, 5, 678_901, UTC)


def arrow() -> Any:
    return load_arrow()


def written(columns: dict[str, Any], rows_a_group: int = 1000) -> io.BytesIO:
    file = io.BytesIO()
    table = arrow().table(columns)
    arrow().parquet.write_table(table, file, row_group_size=rows_a_group)
    file.seek(0)
    return file


def rows(columns: dict[str, Any], start: int = 0, group: int = 1000) -> list[Line]:
    source = ParquetRows(written(columns, group), name="f")
    return list(source.lines(Position(start, start)))


def events(columns: dict[str, Any]) -> list[Any]:
    found = rows(columns)
    assert not any(row.fault for row in found)
    return [json.loads(row.raw) for row in found]


def test_texts_and_missing_cells() -> None:
    assert events(
        {
            "topic": ["a", None],
            "data": ['{"n": 1}', "null"],
            "key": [None, "k"],
            "delay_ms": arrow().array([5, None], arrow().int32()),
            "id": [1, 2],
        }
    ) == [
        {"topic": "a", "data": {"n": 1}, "delay_ms": 5},
        {"data": None, "key": "k"},
    ]


def test_bytes_and_values() -> None:
    raw = arrow().array([b"\0\xff", None], arrow().binary())
    assert events({"data": raw}) == [{"data_base64": "AP8="}, {}]
    assert events({"data_bytes": raw}) == [{"data_base64": "AP8="}, {}]
    assert events({"data_base64": ["AP8="]}) == [{"data_base64": "AP8="}]
    nested = [{"a": [1, 2.5], "at": AT}]
    (event,) = events({"data": nested})
    assert event == {"data": {"a": [1, 2.5], "at": "2030-01-02T03:04:05.678901Z"}}
    assert events({"data": [7]}) == [{"data": 7}]


def test_properties_in_three_ways() -> None:
    text = arrow().string()
    as_map = arrow().array([[("a", "b")], None], arrow().map_(text, text))
    assert events({"properties": as_map}) == [{"properties": {"a": "b"}}, {}]
    as_struct = [{"a": "b", "c": None}]
    assert events({"properties": as_struct}) == [{"properties": {"a": "b"}}]
    assert events({"properties": ['{"a":"b"}']}) == [{"properties": {"a": "b"}}]


@pytest.mark.parametrize(
    ("unit", "due"),
    [("s", "05.000"), ("ms", "05.678"), ("us", "05.679"), ("ns", "05.679")],
)
def test_times_are_never_rounded_down(unit: str, due: str) -> None:
    whole = AT.replace(microsecond=0) if unit == "s" else AT
    if unit == "ms":
        whole = AT.replace(microsecond=678_000)
    column = arrow().array([whole, None], arrow().timestamp(unit, tz="Europe/Berlin"))
    first, second = events({"deliver_at": column})
    assert first == {"deliver_at": f"2030-01-02T03:04:{due}Z"}
    assert second == {}


def test_a_bad_cell_is_one_bad_row() -> None:
    good, bad, also_good = rows({"data": ["1", '1,"topic":"t"', "2"]})
    assert (good.fault, also_good.fault) == ("", "")
    assert "'data' is not JSON" in bad.fault
    assert json.loads(bad.raw)["data"] == '1,"topic":"t"'


def test_data_in_two_columns_is_one_too_many() -> None:
    raw = arrow().array([b"1", b"1"], arrow().binary())
    twice, once = rows({"data_bytes": raw, "data_base64": ["AP8=", None]})
    assert "more than once" in twice.fault
    assert not once.fault


@pytest.mark.parametrize(
    ("columns", "what"),
    [
        ({"data": ["1"], "dely": ["PT1S"]}, "'dely'"),
        ({"topic": [1]}, "'topic'"),
        ({"delay_ms": ["1"]}, "'delay_ms'"),
        ({"deliver_at": [datetime(2030, 1, 1)]}, "time zone"),
    ],
)
def test_wrong_columns_are_told_before_anything_is_sent(
    columns: dict[str, Any], what: str
) -> None:
    with pytest.raises(WrongFormat, match=what):
        ParquetRows(written(columns), name="f")


def test_what_is_no_parquet_is_told() -> None:
    with pytest.raises(WrongFormat) as caught:
        ParquetRows(io.BytesIO(b'{"topic":"t"}\n' * 20), name="f")
    assert "ndjson" in caught.value.hint


def test_reading_goes_on_at_any_row() -> None:
    columns = {"data": [str(n) for n in range(25)]}
    whole = rows(columns, group=7)
    assert [it.number for it in whole] == list(range(1, 26))
    assert [it.end for it in whole] == list(range(1, 26))
    for start in range(26):
        assert rows(columns, start, group=7) == whole[start:]


def test_without_the_library_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def missing(name: str) -> Any:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(ParquetMissing) as caught:
        ParquetRows(io.BytesIO(), name="f")
    assert "halfpast[parquet]" in caught.value.hint


def pending(n: int, data: bytes, *, json: bool) -> PendingEvent:
    due = (AT + timedelta(milliseconds=n)).isoformat(timespec="milliseconds")
    return PendingEvent(
        id=str(n),
        topic=f"t{n % 2}",
        deliver_at=due.replace("+00:00", "Z"),
        data=data,
        json=json,
        key=f"ü{n}" if n % 3 else None,
        tag="g" if n % 4 else None,
        properties={"a": "1", "b": "ü"} if n % 5 else {},
    )


EXPORTED = [
    pending(1, b'{"a" : 1.50}', json=True),
    pending(2, b"null", json=True),
    pending(3, b"\0\xff\n", json=False),
    pending(4, b"", json=False),
    pending(5, '"ü\\n"'.encode(), json=True),
    pending(60, b"[\n1,\r\n2.0]", json=True),
]


@pytest.mark.parametrize("with_ids", [False, True])
@pytest.mark.parametrize("kind", ["ndjson", "parquet"])
def test_exported_events_come_back(kind: str, with_ids: bool) -> None:
    file = io.BytesIO()
    writer: EventWriter
    if kind == "ndjson":
        writer = NdjsonWriter(file, with_ids=with_ids)
    else:
        writer = ParquetWriter(file, with_ids=with_ids)
    writer.write(EXPORTED[:4])
    writer.write([])
    writer.write(EXPORTED[4:])
    writer.close()
    source: LineSource
    if kind == "ndjson":
        source = NdjsonLines(
            io.BytesIO(file.getvalue()), len(file.getvalue()), name="f"
        )
        assert (b'"id"' in file.getvalue()) == with_ids
    else:
        source = ParquetRows(io.BytesIO(file.getvalue()), name="f")
    reader = EventLines(None)
    lines = list(source.lines(Position()))
    assert len(lines) == len(EXPORTED)
    for line, event in zip(lines, EXPORTED, strict=True):
        sent = reader.read(line.raw.strip())
        back = json.loads(sent)
        assert back["topic"] == event.topic
        assert back["deliver_at"] == event.deliver_at
        assert (back.get("key"), back.get("tag")) == (event.key, event.tag)
        assert back.get("properties", {}) == event.properties
        if event.json:
            assert back["data"] == json.loads(event.data)
            kept = b"\n" in event.data and kind == "ndjson"
            assert kept or event.data in sent
        else:
            assert "data" not in back
            assert event.data == b64decode(back["data_base64"])
