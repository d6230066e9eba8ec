"""Folders that live by a virtual clock and those that live by the real one are never
taken for each other."""

import time
from pathlib import Path

import pytest

from halfpast_api.clock.clock_file import NAME, ClockFile, refuse_virtual
from halfpast_api.clock.errors import (
    ClockFileDamaged,
    ClockIsAhead,
    FolderHasRealTime,
    FolderHasVirtualTime,
)

T0 = 1_767_225_600_000


def test_a_new_folder_begins_where_it_is_told_or_now(tmp_path: Path) -> None:
    assert ClockFile.open(tmp_path / "told", T0).now_ms == T0
    before_ms = time.time_ns() // 1_000_000
    assert ClockFile.open(tmp_path / "new", None).now_ms >= before_ms


def test_it_goes_on_where_it_stood_and_never_back(tmp_path: Path) -> None:
    ClockFile.open(tmp_path, T0).keep(T0 + 1000)
    assert ClockFile.open(tmp_path, None).now_ms == T0 + 1000
    with pytest.raises(ClockIsAhead, match="2026-01-01T00:00:01"):
        ClockFile.open(tmp_path, T0)
    assert ClockFile.open(tmp_path, T0 + 2000).now_ms == T0 + 2000


def test_a_folder_of_real_time_is_refused(tmp_path: Path) -> None:
    (tmp_path / "halfpast.json").write_text("{}")
    with pytest.raises(FolderHasRealTime, match="--data"):
        ClockFile.open(tmp_path, None)
    assert not (tmp_path / NAME).exists()
    refuse_virtual(tmp_path)


def test_a_folder_of_virtual_time_is_refused_by_real_clocks(tmp_path: Path) -> None:
    ClockFile.open(tmp_path, T0)
    with pytest.raises(FolderHasVirtualTime, match="--clock virtual"):
        refuse_virtual(tmp_path)


def test_a_damaged_one_is_not_guessed_at(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text("{")
    with pytest.raises(ClockFileDamaged):
        refuse_virtual(tmp_path)
    with pytest.raises(ClockFileDamaged):
        ClockFile.open(tmp_path, T0)
