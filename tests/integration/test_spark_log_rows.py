"""The event table as it is made from a real log, against a second opinion."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("numpy")
pytest.importorskip("pyarrow")

from tests.integration.spark_log import write_everything
from tests.integration.spark_oracle import expected_rows

from halfpast_spark import event_rows, log_file
from halfpast_spark.event_schema import COLUMN_NAMES, KINDS, NEVER_NULL
from halfpast_spark.log_folder import LogFolder
from halfpast_spark.log_parts import plan_parts
from halfpast_spark.log_reader import read_part
from halfpast_spark.names import NameReader
from halfpast_spark.row_filter import RowFilter

pytestmark = pytest.mark.asyncio
Row = dict[str, Any]


def read_rows(
    folder: Path,
    columns: Sequence[str] = COLUMN_NAMES,
    wanted: RowFilter | None = None,
    split_bytes: int = 1 << 30,
    batch_rows: int = 8_192,
) -> list[Row]:
    """The event table of a folder, read part by part."""
    log = LogFolder(str(folder))
    horizon = log.horizon()
    names = NameReader(log).read_until(horizon.end)
    rows: list[Row] = []
    for part in plan_parts(log, horizon.start, horizon.end, split_bytes):
        for batch in read_part(
            part, names, columns=columns, wanted=wanted, batch_rows=batch_rows
        ):
            assert 0 < batch.num_rows <= batch_rows
            batch.validate(full=True)
            rows += batch.to_pylist()
    return rows


async def test_every_row_is_as_the_oracle_makes_it(tmp_path: Path) -> None:
    await write_everything(tmp_path, times=5)
    expected = expected_rows(tmp_path)
    assert {row["kind"] for row in expected} == set(KINDS) - {"gap"}
    assert len(list((tmp_path / "log").iterdir())) > 3
    rows = read_rows(tmp_path)
    assert len(rows) == len(expected)
    for row, one in zip(rows, expected, strict=True):
        assert row == one
    assert all(row[name] is not None for row in rows for name in NEVER_NULL)
    assert len({(row["position"], row["number"]) for row in rows}) == len(rows)


async def test_cuts_and_batches_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await write_everything(tmp_path, times=2)
    whole = read_rows(tmp_path)
    assert whole == expected_rows(tmp_path)
    monkeypatch.setattr(event_rows, "SLICE_ROWS", 3)  # also within one record's rows
    assert read_rows(tmp_path) == whole
    monkeypatch.setattr(log_file, "CHUNK_SIZE", 4096)  # less than some frames
    assert read_rows(tmp_path) == whole
    for split_bytes, batch_rows in ((4096, 8192), (30_000, 7), (1 << 30, 1)):
        assert (
            read_rows(tmp_path, split_bytes=split_bytes, batch_rows=batch_rows) == whole
        )


def is_kept(row: Row, wanted: RowFilter) -> bool:
    of_kind = wanted.kinds is None or row["kind"] in wanted.kinds
    return of_kind and (wanted.topics is None or row["topic"] in wanted.topics)


@pytest.mark.parametrize(
    ("kinds", "topics"),
    [
        ({"op", "fired"}, None),
        (None, {"invoices", "SYS_TRANS_OP"}),
        ({"half"}, {"orders"}),
        (None, {"no-such-topic"}),
    ],
)
async def test_filters_leave_the_other_rows_as_they_are(
    tmp_path: Path, kinds: set[str] | None, topics: set[str] | None
) -> None:
    await write_everything(tmp_path)
    wanted = RowFilter(
        None if kinds is None else frozenset(kinds),
        None if topics is None else frozenset(topics),
    )
    expected = [row for row in expected_rows(tmp_path) if is_kept(row, wanted)]
    assert read_rows(tmp_path, wanted=wanted) == expected


async def test_each_column_can_be_read_alone(tmp_path: Path) -> None:
    await write_everything(tmp_path)
    expected = expected_rows(tmp_path)
    for column in COLUMN_NAMES:
        rows = read_rows(tmp_path, columns=[column])
        assert rows == [{column: row[column]} for row in expected]


async def test_names_come_from_the_log_where_there_is_no_index(tmp_path: Path) -> None:
    await write_everything(tmp_path)
    (tmp_path / "index").rename(tmp_path / "away")
    assert read_rows(tmp_path) == expected_rows(tmp_path)


async def test_names_come_from_the_index_where_the_log_is_gone(tmp_path: Path) -> None:
    await write_everything(tmp_path, times=4)
    expected = expected_rows(tmp_path)
    first, second, *_ = sorted((tmp_path / "log").iterdir())
    first.unlink()
    kept = [row for row in expected if row["position"] >= int(second.stem)]
    assert kept != expected
    assert read_rows(tmp_path) == kept
