"""What the bench of pending events needs and where they are due."""

from pathlib import Path

import pytest

from halfpast_loadtest import pending
from halfpast_loadtest.disk_use import allocated_by_folder_mb, need_room
from halfpast_loadtest.errors import NotEnoughRoom
from halfpast_loadtest.fill import Filled
from halfpast_loadtest.pending import PendingSettings, pace_shown, room_needed


def test_ten_million_need_some_ten_gigabytes() -> None:
    needed = room_needed(PendingSettings())
    assert 10e9 < needed < 20e9
    assert room_needed(PendingSettings(count=1000)) < 4e9


def test_a_disk_that_is_too_small_is_told_before_anything_starts(
    tmp_path: Path,
) -> None:
    need_room(str(tmp_path), 1)
    with pytest.raises(NotEnoughRoom, match="smaller count="):
        need_room(str(tmp_path), 2**62)


def test_nothing_comes_due_during_the_bench() -> None:
    dues = pending.spread_over(30.0)
    delays = [dues().delay_ms or 0 for _ in range(2000)]
    assert min(delays) >= pending.FIRST_DUE_MS
    assert 29 * pending.DAY_MS < max(delays) < 30 * pending.DAY_MS


def test_the_last_tenth_is_measured_against_the_first() -> None:
    filled = Filled(count=30, seconds=1.0, slice_rates=[40.0, 30.0, 20.0])
    shown = pace_shown(filled)
    assert shown["last_of_first_tenth"] == 0.5
    assert shown["tenth_per_s"] == {"1": 40.0, "2": 30.0, "3": 20.0}
    assert "last_of_first_tenth" not in pace_shown(Filled())


def test_disk_is_counted_by_folder(tmp_path: Path) -> None:
    for name in ("log", "chronos", "run"):
        (tmp_path / name).mkdir()
    (tmp_path / "log" / "0").write_bytes(b"x" * 300_000)
    found = allocated_by_folder_mb(tmp_path)
    assert set(found) == {"log", "chronos"}
    assert found["log"] >= 0.3 > found["chronos"]
