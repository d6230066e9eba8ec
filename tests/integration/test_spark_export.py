"""The export to Parquet: the same rows as the log, each once, whatever happens."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("numpy")
pytest.importorskip("pyarrow")

from tests.integration.spark_log import write_everything
from tests.integration.spark_oracle import Row, expected_rows

from halfpast_spark import export, export_manifest
from halfpast_spark.arrow import parquet
from halfpast_spark.day_files import DayFiles
from halfpast_spark.errors import ExportBusy, ForeignExport
from halfpast_spark.export import ExportConfig, Exporter
from halfpast_spark.export_manifest import read_manifest
from halfpast_spark.export_service import run_export
from halfpast_spark.log_folder import LogFolder

pytestmark = pytest.mark.asyncio


def exported_rows(folder: Path) -> list[Row]:
    manifest = read_manifest(folder)
    assert manifest is not None
    rows: list[Row] = []
    for file in manifest.files:
        table = parquet.read_table(folder / file.path, partitioning=None)
        assert table.num_rows == file.rows
        rows += table.to_pylist()
    return sorted(rows, key=lambda row: (row["position"], row["number"]))


def closed_rows(store: Path) -> tuple[list[Row], int]:
    """The rows of the segments that are closed, and where those end."""
    end = max(int(path.stem) for path in (store / "log").iterdir() if used(path))
    return [row for row in expected_rows(store) if row["position"] < end], end


def used(segment: Path) -> bool:
    with segment.open("rb") as file:
        return file.read(4) != bytes(4)


async def test_closed_segments_are_exported(tmp_path: Path) -> None:
    store, folder = tmp_path / "store", tmp_path / "export"
    await write_everything(store, times=5)
    expected, end = closed_rows(store)
    run = run_export(str(store), str(folder))
    assert (run.rows, run.end, run.log_bytes) == (len(expected), end, end)
    assert run.segments > 2
    assert exported_rows(folder) == expected
    assert run_export(str(store), str(folder)).rows == 0
    await write_everything(store, times=2)
    later, later_end = closed_rows(store)
    assert later_end > end
    run_export(str(store), str(folder))
    assert exported_rows(folder) == later
    manifest = read_manifest(folder)
    assert manifest is not None
    horizon = [row["stored_ms"] for row in expected_rows(store)][len(later) :]
    assert manifest.as_of_ms <= min(horizon)
    assert manifest.as_of_ms >= later[-1]["stored_ms"]


class Killed(BaseException):
    """As good as kill -9: nothing is tidied up behind it."""


@pytest.mark.parametrize("moment", ["rows", "files", "manifest", "joined"])
async def test_a_killed_export_leaves_no_half(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    store, folder = tmp_path / "store", tmp_path / "export"
    await write_everything(store, times=6)
    expected, _ = closed_rows(store)
    config = ExportConfig(joined_count_min=2, replaced_keep_ms=0)
    with monkeypatch.context() as patch:
        kill_at(patch, moment)
        with pytest.raises(Killed):
            run_export(str(store), str(folder), config=config)
    partial = read_manifest(folder)
    if partial is not None:
        assert exported_rows(folder) == [
            row for row in expected if row["position"] < partial.end
        ]
    torn = folder / "day=2026-01-01" / "_00.parquet.new"  # what kill -9 leaves
    torn.parent.mkdir()
    torn.write_bytes(b"PAR1")
    run_export(str(store), str(folder), config=config)
    assert exported_rows(folder) == expected
    run_export(str(store), str(folder), config=config)
    left = read_manifest(folder)
    assert left is not None
    files = {str(path.relative_to(folder)) for path in folder.glob("day=*/*")}
    assert files == {file.path for file in left.files}


def kill_at(patch: pytest.MonkeyPatch, moment: str) -> None:
    """Let the second time that it comes there be its last."""
    calls = 0

    def second() -> bool:
        nonlocal calls
        calls += 1
        return calls == 2

    write, write_manifest, join = (
        DayFiles.write,
        export_manifest.write_manifest,
        Exporter.join,
    )

    def cut(batches: Iterator[Any]) -> Iterator[Any]:
        yield next(iter(batches))
        raise Killed

    def files(self: DayFiles, batches: Iterator[Any]) -> Any:
        if second():
            if moment == "files":
                write(self, batches)
                raise Killed
            return write(self, cut(batches))
        return write(self, batches)

    def manifest(folder: Path, found: Any) -> None:
        write_manifest(folder, found)
        if second():
            raise Killed

    def joined(self: Exporter, now_ms: int) -> int:
        done = join(self, now_ms)
        if second():
            raise Killed
        return done

    if moment == "manifest":
        patch.setattr(export, "write_manifest", manifest)
    elif moment == "joined":
        patch.setattr(Exporter, "join", joined)
    else:
        patch.setattr(DayFiles, "write", files)


async def test_small_files_are_joined(tmp_path: Path) -> None:
    store, folder = tmp_path / "store", tmp_path / "export"
    await write_everything(store, times=8)
    config = ExportConfig(joined_count_min=4, replaced_keep_ms=1_000)
    with Exporter(LogFolder(str(store)), folder, config) as exporter:
        while exporter.step():
            pass
        before = exported_rows(folder)
        count = len(exporter.manifest.files)
        assert exporter.join(now_ms=5_000) == 4
        assert len(exporter.manifest.files) == count - 3
        assert exported_rows(folder) == before
        assert exporter.sweep(now_ms=5_999) == 0
        assert len(list(folder.glob("day=*/*"))) == count + 1
        assert exporter.sweep(now_ms=6_000) == 4
        assert len(list(folder.glob("day=*/*"))) == count - 3
    assert exported_rows(folder) == before == closed_rows(store)[0]


async def test_what_was_deleted_before_it_was_exported_is_told(tmp_path: Path) -> None:
    store, folder = tmp_path / "store", tmp_path / "export"
    await write_everything(store, times=2)
    run_export(str(store), str(folder))
    first = read_manifest(folder)
    assert first is not None
    await write_everything(store, times=4)
    expected, _ = closed_rows(store)
    segments = sorted((store / "log").iterdir())
    gone = [path for path in segments if int(path.stem) <= first.end]
    for path in gone:
        path.unlink()
    start = int(segments[len(gone)].stem)
    run_export(str(store), str(folder))
    rows = exported_rows(folder)
    gaps = [row for row in rows if row["kind"] == "gap"]
    assert [(row["position"], row["offset"]) for row in gaps] == [(first.end, start)]
    assert "retention" in gaps[0]["reason"]
    assert gaps[0]["stored_ms"] > 0
    assert [row for row in rows if row["kind"] != "gap"] == [
        row for row in expected if not first.end <= row["position"] < start
    ]


async def test_one_exporter_at_a_time(tmp_path: Path) -> None:
    store, folder = tmp_path / "store", tmp_path / "export"
    await write_everything(store)
    log = LogFolder(str(store))
    with Exporter(log, folder), pytest.raises(ExportBusy, match="process"):
        Exporter(log, folder)


async def test_exports_of_two_stores_do_not_mix(tmp_path: Path) -> None:
    one, other, folder = tmp_path / "one", tmp_path / "other", tmp_path / "export"
    await write_everything(one, times=2)
    await write_everything(other, times=2)
    run_export(str(one), str(folder))
    with pytest.raises(ForeignExport, match="another store"):
        run_export(str(other), str(folder))
    (folder / "_manifest.json").write_text("{")
    with pytest.raises(ForeignExport, match="broken"):
        run_export(str(one), str(folder))


async def test_following_ends_when_it_is_asked_to(tmp_path: Path) -> None:
    store, folder = tmp_path / "store", tmp_path / "export"
    await write_everything(store, times=3)
    stop = threading.Event()
    told: list[str] = []

    def tell(line: str) -> None:
        told.append(line)
        if len(told) == 2:
            stop.set()

    run = run_export(str(store), str(folder), follow=True, stop=stop, tell=tell)
    assert run.segments == 2
    assert exported_rows(folder) == [
        row for row in expected_rows(store) if row["position"] < run.end
    ]
