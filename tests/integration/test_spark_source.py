"""`spark.read.format("halfpast")` on a real log."""

import asyncio
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.integration.spark_log import open_writer, write_everything
from tests.integration.spark_oracle import Row, expected_rows, frames_of

from halfpast_core_store.durable_mark import DurableMark, encode_mark
from halfpast_core_store.folder import read_manifest
from halfpast_spark.log_folder import LogFolder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytest_plugins = ["tests.integration.spark_session"]
pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("store")
    asyncio.run(write_everything(made, times=4))
    return made


@pytest.fixture(scope="module")
def source(spark: "SparkSession") -> "SparkSession":
    from halfpast_spark.data_source import HalfpastSource

    spark.dataSource.register(HalfpastSource)
    return spark


def read(source: "SparkSession", folder: Path, **options: str) -> "DataFrame":
    return source.read.format("halfpast").options(**options).load(str(folder))


def rows_of(frame: "DataFrame") -> list[Row]:
    rows = [row.asDict() for row in frame.collect()]
    return sorted(rows, key=lambda row: (row["position"], row["number"]))


def test_it_gives_the_event_table(source: "SparkSession", folder: Path) -> None:
    frame = read(source, folder, splitBytes="32k", batchRows="50")
    assert frame.rdd.getNumPartitions() > 4
    assert rows_of(frame) == expected_rows(folder)


def test_options_choose_rows(source: "SparkSession", folder: Path) -> None:
    expected = expected_rows(folder)
    middle = expected[len(expected) // 2]["position"]
    frame = read(source, folder, KINDS="half, op", topics="orders", start=str(middle))
    assert rows_of(frame) == [
        row
        for row in expected
        if row["position"] >= middle and row["kind"] == "half"
        if row["topic"] == "orders"
    ]
    before = rows_of(read(source, folder, end=str(middle)))
    assert before == [row for row in expected if row["position"] < middle]


def test_times_choose_rows(source: "SparkSession", folder: Path) -> None:
    from datetime import UTC, datetime

    expected = expected_rows(folder)
    first_ms, last_ms = expected[0]["stored_ms"], expected[-1]["stored_ms"]
    times = [(first_ms + last_ms) // 2, last_ms]
    start, end = (datetime.fromtimestamp(t / 1000, UTC).isoformat() for t in times)
    chosen = [row for row in expected if times[0] <= row["stored_ms"] < times[1]]
    assert 0 < len(chosen) < len(expected)
    frame = read(source, folder, start=start, end=end, splitBytes="16k")
    assert rows_of(frame) == chosen


def test_a_schema_chooses_columns(source: "SparkSession", folder: Path) -> None:
    reader = source.read.format("halfpast").schema("due_ms BIGINT, kind STRING")
    rows = reader.load(str(folder)).collect()
    found = [(row["due_ms"], row["kind"]) for row in rows]
    expected = [(row["due_ms"], row["kind"]) for row in expected_rows(folder)]
    assert sorted(found, key=str) == sorted(expected, key=str)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"batchrow": "7"}, "no such option"),
        ({"kinds": "fierd"}, "the kinds are"),
        ({"start": "yesterday"}, "2026-11-20T09:00:00Z"),
        ({"start": "2026-11-20T09:00:00"}, "offset from UTC"),
        ({"splitBytes": "0"}, "from 4096"),
    ],
)
def test_wrong_options_are_told(
    source: "SparkSession", folder: Path, options: dict[str, str], words: str
) -> None:
    with pytest.raises(Exception, match=words):
        read(source, folder, **options).collect()


def test_wrong_columns_are_told(source: "SparkSession", folder: Path) -> None:
    reader = source.read.format("halfpast").schema("colour STRING")
    with pytest.raises(Exception, match="a schema chooses among"):
        reader.load(str(folder)).collect()


def test_a_folder_without_a_store_is_told(
    source: "SparkSession", tmp_path: Path
) -> None:
    with pytest.raises(Exception, match="no data folder of Halfpast"):
        read(source, tmp_path).collect()


def test_a_store_of_a_newer_release_is_told(
    source: "SparkSession", tmp_path: Path
) -> None:
    text = '{"format_version": 99, "store_id": "00", "salt": 1}'
    (tmp_path / "halfpast.json").write_text(text)
    with pytest.raises(Exception, match="99"):
        read(source, tmp_path).collect()


def test_an_empty_store_is_an_empty_table(
    source: "SparkSession", tmp_path: Path
) -> None:
    async def make() -> None:
        async with open_writer(tmp_path):
            pass

    asyncio.run(make())
    assert rows_of(read(source, tmp_path)) == []


def test_damage_is_told_and_the_rest_is_read(
    source: "SparkSession", tmp_path: Path
) -> None:
    asyncio.run(write_everything(tmp_path, times=4))
    expected = expected_rows(tmp_path)
    headers = [header for header, _ in frames_of(tmp_path)]
    bad = next(
        [one.position, following.position]
        for one, following in pairwise(headers)
        if one.position > 50_000 and one.position + one.length == following.position
    )
    flip_bytes(tmp_path, [position + 60 for position in bad])
    rows = rows_of(read(source, tmp_path, splitBytes="16k"))
    gap = {row["position"]: row for row in rows if row["kind"] == "gap"}
    rest = [row for row in rows if row["kind"] != "gap"]
    assert rest == [row for row in expected if row["position"] not in bad]
    assert list(gap) == bad[:1]
    assert gap[bad[0]]["offset"] > bad[1]
    assert "damaged" in gap[bad[0]]["reason"]
    assert rows_of(read(source, tmp_path, kinds="op")) == [
        row for row in rest if row["kind"] == "op"
    ]


def test_a_segment_deleted_while_reading_is_told(
    source: "SparkSession", tmp_path: Path
) -> None:
    asyncio.run(write_everything(tmp_path, times=4))
    expected = expected_rows(tmp_path)
    frame = read(source, tmp_path)
    first, second, *_ = sorted((tmp_path / "log").iterdir())
    frame.rdd.getNumPartitions()  # it is planned now
    first.unlink()
    rows = rows_of(frame)
    kept = [row for row in expected if row["position"] >= int(second.stem)]
    assert [row for row in rows if row["kind"] != "gap"] == kept
    assert [
        (row["position"], row["offset"]) for row in rows if row["kind"] == "gap"
    ] == [(0, int(second.stem))]


def test_what_is_not_durable_is_not_read(
    source: "SparkSession", tmp_path: Path
) -> None:
    """A frame that is in the file, and of which the store has not said that it is
    synced, may still vanish."""
    asyncio.run(write_everything(tmp_path))
    expected = expected_rows(tmp_path)
    *_, before_last, last = [header.position for header, _ in frames_of(tmp_path)]
    mark = DurableMark(before_last, 1)
    salt = read_manifest(tmp_path).salt
    (tmp_path / "durable.mark").write_bytes(encode_mark(mark, salt))
    rows = rows_of(read(source, tmp_path))
    assert rows == [row for row in expected if row["position"] < last]
    assert LogFolder(str(tmp_path)).horizon().end == last


def flip_bytes(folder: Path, positions: list[int]) -> None:
    segments = sorted((folder / "log").iterdir())
    for position in positions:
        segment = next(it for it in reversed(segments) if int(it.stem) <= position)
        with segment.open("r+b") as file:
            file.seek(position - int(segment.stem))
            byte = file.read(1)[0]
            file.seek(-1, 1)
            file.write(bytes([byte ^ 0x40]))
