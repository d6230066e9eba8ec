"""The event table in Spark is the same from the export, the log, and both."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.integration.spark_log import write_everything
from tests.integration.spark_oracle import Row, expected_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytest_plugins = ["tests.integration.spark_session"]
pytestmark = pytest.mark.spark


def rows_of(frame: "DataFrame") -> list[Row]:
    rows = [row.asDict() for row in frame.collect()]
    return sorted(rows, key=lambda row: (row["position"], row["number"]))


def as_audited(rows: list[Row], before: int | None = None) -> list[Row]:
    """What the audits take of the table: some columns, and most kinds."""
    from halfpast_spark.event_source import COLUMNS, UNUSED_KINDS

    return [
        {name: row[name] for name in COLUMNS}
        for row in rows
        if row["kind"] not in UNUSED_KINDS
        if before is None or row["position"] < before
    ]


def test_export_log_and_both_give_the_same_rows(
    spark: "SparkSession", tmp_path: Path
) -> None:
    from halfpast_spark.event_source import open_both, open_log, open_parquet
    from halfpast_spark.export_service import run_export

    store, folder = str(tmp_path / "store"), str(tmp_path / "export")
    asyncio.run(write_everything(Path(store), times=4))
    run_export(store, folder)
    expected = expected_rows(Path(store))
    exported, log = open_parquet(spark, folder), open_log(spark, store)
    assert exported.events.schema == log.events.schema
    assert rows_of(log.events) == as_audited(expected)
    closed = as_audited(expected, exported.horizon_position)
    assert 0 < len(closed) < len(as_audited(expected))
    assert rows_of(exported.events) == closed
    asyncio.run(write_everything(Path(store)))
    both = open_both(spark, store, folder)
    assert rows_of(both.events) == as_audited(expected_rows(Path(store)))
    assert (both.start_position, both.store_id) == (log.start_position, log.store_id)
    assert both.horizon_position > log.horizon_position
    assert both.horizon_ms >= log.horizon_ms >= exported.horizon_ms


def test_what_neither_has_is_a_gap(spark: "SparkSession", tmp_path: Path) -> None:
    from halfpast_spark.event_source import open_both
    from halfpast_spark.export_service import run_export

    store, folder = tmp_path / "store", tmp_path / "export"
    asyncio.run(write_everything(store, times=2))
    end = run_export(str(store), str(folder)).end
    asyncio.run(write_everything(store, times=4))
    expected = as_audited(expected_rows(store))
    segments = sorted((store / "log").iterdir())
    for segment in segments[:3]:
        segment.unlink()
    start = int(segments[3].stem)
    assert end < start
    rows = rows_of(open_both(spark, str(store), str(folder)).events)
    gaps = [row for row in rows if row["kind"] == "gap"]
    assert [(row["position"], row["offset"]) for row in gaps] == [(end, start)]
    assert gaps[0]["stored_ms"] > 0
    assert [row for row in rows if row["kind"] != "gap"] == [
        row for row in expected if not end <= row["position"] < start
    ]
