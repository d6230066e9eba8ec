"""`halfpast audit export` and `halfpast up --audit-export` on a real suite."""

import json
import os
import signal
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("numpy")
pytest.importorskip("pyarrow")

from tests.integration.cli_process import Suite, halfpast
from tests.integration.spark_oracle import Row, expected_rows

from halfpast_core_store.folder import lock_holder
from halfpast_spark.arrow import parquet
from halfpast_spark.export_manifest import LOCK_NAME, Manifest, read_manifest

SEGMENTS = {
    "HALFPAST_STORE_LOG_SEGMENT_SIZE": str(1024 * 1024),
    "HALFPAST_STORE_LOG_FRAME_SIZE_MAX": str(512 * 1024),
    "HALFPAST_STORE_LOG_RESERVE_SIZE": str(64 * 1024),
}


def publish(address: str, count: int) -> None:
    """Some hundred KiB of messages, half of them for a little later."""
    for i in range(count):
        events = [
            {"topic": "orders", "key": f"{i}-{n}", "data": "x" * 300}
            | ({"delay_ms": 20} if n % 2 else {})
            for n in range(500)
        ]
        request = urllib.request.Request(
            f"{address}/v1/events:batch",
            json.dumps({"events": events}).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            results = json.load(answer)["results"]
        assert {result["status"] for result in results} == {201}


def exported(folder: Path, is_so: Callable[[Manifest], bool]) -> Manifest:
    """The manifest, once this is true of it."""
    deadline_s = time.monotonic() + 30
    while True:
        manifest = read_manifest(folder)
        if manifest is not None and is_so(manifest):
            return manifest
        assert time.monotonic() < deadline_s, manifest
        time.sleep(0.05)


def rows_of(folder: Path, manifest: Manifest) -> list[Row]:
    rows: list[Row] = []
    for file in manifest.files:
        rows += parquet.read_table(folder / file.path, partitioning=None).to_pylist()
    return sorted(rows, key=lambda row: (row["position"], row["number"]))


def test_up_exports_while_it_serves_and_after_a_kill(tmp_path: Path) -> None:
    data, folder = tmp_path / "data", tmp_path / "events"
    environment = {**SEGMENTS, "HALFPAST_AUDIT_EXPORT": str(folder)}
    options = ("--port", "0", "--audit-export")
    with Suite("up", data, *options, **environment) as suite:
        suite.wait_ready()
        publish(suite.address, 4)
        first = exported(folder, lambda manifest: len(manifest.files) >= 1)
        holder = int(lock_holder(folder, LOCK_NAME).removeprefix("process "))
        os.kill(holder, signal.SIGKILL)
        publish(suite.address, 8)
        exported(folder, lambda manifest: manifest.end > first.end)
        assert suite.stop() == 0
    last = read_manifest(folder)
    assert last is not None
    expected = [row for row in expected_rows(data) if row["position"] < last.end]
    assert {"message", "schedule", "fired", "delivered"} <= {
        row["kind"] for row in expected
    }
    assert rows_of(folder, last) == expected
    again = halfpast(
        *("audit", "export", "--data", str(data), "--export", str(folder), "--json")
    )
    assert again.returncode == 0, again.stderr
    told = json.loads(again.stdout)
    complete = read_manifest(folder)
    assert complete is not None
    assert told["position"] == complete.end >= last.end
    assert rows_of(folder, complete) == [
        row for row in expected_rows(data) if row["position"] < complete.end
    ]


def test_a_folder_without_a_store_is_told(tmp_path: Path) -> None:
    done = halfpast("audit", "export", "--data", str(tmp_path))
    assert done.returncode not in (0, 1)
    assert "no data folder of Halfpast" in done.stderr
    assert "--data" in done.stderr
    assert not (tmp_path / "audit").exists()
