"""Values in PostgreSQL's binary form, and what happens where there is no PostgreSQL."""

import os
import struct
from pathlib import Path

import pytest

from halfpast_loadtest import postgres_baseline, postgres_process
from halfpast_loadtest.bench_result import BenchResult
from halfpast_loadtest.errors import PostgresUnavailable
from halfpast_loadtest.postgres_wire import (
    BYTEA_OID,
    array,
    timestamp,
    timestamp_ms,
)


def test_timestamps_count_from_2000() -> None:
    assert timestamp(946_684_800_001) == struct.pack(">q", 1000)
    assert timestamp_ms(timestamp(1_800_000_000_123)) == 1_800_000_000_123


def test_an_array_says_what_it_holds() -> None:
    assert array(BYTEA_OID, [b"ab", b""]) == (
        struct.pack(">iiIii", 1, 0, 17, 2, 1) + b"\0\0\0\2ab" + b"\0\0\0\0"
    )


def no_postgres(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_process, "find_binaries", lambda: None)
    monkeypatch.setattr(postgres_baseline, "find_binaries", lambda: None)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)


def test_without_root_it_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    no_postgres(monkeypatch)
    with pytest.raises(PostgresUnavailable, match="only root"):
        postgres_process.install()


def test_a_result_without_its_baseline_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    no_postgres(monkeypatch)
    result = BenchResult(bench="x", settings={})
    with postgres_baseline.postgres_table(str(tmp_path), result) as server:
        assert server is None
    assert result.notes == [
        "without its baseline: no PostgreSQL: there is none, and only root on Debian "
        "installs it"
    ]
    assert not list(tmp_path.iterdir())
