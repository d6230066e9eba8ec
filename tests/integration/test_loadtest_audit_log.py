"""The log that the bench of the audits writes is one that a store and a reader know."""

from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("numpy")
pytest.importorskip("pyarrow")

from tests.integration.spark_oracle import expected_rows

from halfpast_core_store.config import LogConfig, StoreConfig
from halfpast_core_store.real_store import open_store
from halfpast_loadtest.audit_log import SEGMENT_SIZE, AuditLog
from halfpast_spark.log_folder import LogFolder

START_MS = 1_767_268_800_000
FRAMES = 120  # 12 s: beyond the first check-backs


def test_what_was_written_is_what_is_told(tmp_path: Path) -> None:
    with AuditLog(tmp_path, start_ms=START_MS, rate_per_s=1000) as log:
        positions = [
            log.append(START_MS + number * log.frame_ms)
            for number in range(1, FRAMES + 1)
        ]
        log.publish()
        books = log.load.books
    horizon = LogFolder(str(tmp_path)).horizon()
    assert horizon.end > positions[-1] > positions[0]
    assert horizon.as_of_ms == START_MS + FRAMES * 100

    rows = expected_rows(tmp_path)
    kinds = Counter(row["kind"] for row in rows)
    ops = [row for row in rows if row["kind"] == "op"]
    assert kinds["half"] == kinds["transaction"] == books["half"]
    assert Counter(row["outcome"] for row in ops) == {
        "committed": books["committed"],
        "rolled_back": books["rolled_back"],
    }
    assert kinds["check"] == books["checked_back"] > 0
    assert sum(row["from_check"] for row in ops) == books["second_phase_lost"] > 0
    assert kinds["message"] == books["committed"]
    assert kinds["schedule"] == books["scheduled"]
    assert kinds["fired"] == kinds["delivered"] == books["fired"] > 0
    assert kinds["cancel"] == books["cancelled"] > 0
    late = [row["stored_ms"] - row["due_ms"] for row in rows if row["kind"] == "fired"]
    assert min(late) > 0
    assert (
        len({row["event_id"] for row in rows if row["kind"] == "schedule"})
        == (books["scheduled"])
    )

    config = StoreConfig(log=LogConfig(segment_size=SEGMENT_SIZE))
    store, index = open_store(tmp_path, config)
    assert len(store.registry.topics("", 100)) == 12
    store.close()
    index.close()
