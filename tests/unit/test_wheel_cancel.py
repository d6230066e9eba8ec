"""Cancelled timers never fire, may come back, and do not pile up."""

import pickle

import pytest

from halfpast_wheel.config import WheelConfig
from halfpast_wheel.errors import (
    HandleOutOfRange,
    HandlePending,
    InvalidConfig,
    WheelError,
)
from halfpast_wheel.timing_wheel import TimingWheel

NOW_MS = 1_700_000_000_123
CALLS_MAX = 10_000
HOUR_MS = 3_600_000


def drain(wheel: TimingWheel, now_ms: int) -> list[int]:
    handles = wheel.advance(now_ms, 1000)
    for _ in range(CALLS_MAX):
        if not wheel.behind:
            break
        handles += wheel.advance(now_ms, 1000)
    return handles


def test_cancel_tells_whether_it_was_pending() -> None:
    wheel = TimingWheel(NOW_MS)
    wheel.insert(NOW_MS + 5, 1)
    wheel.insert(NOW_MS + 5, 2)
    assert wheel.cancel(1)
    assert not wheel.cancel(1)
    assert len(wheel) == 1
    assert wheel.deadline_ms(1) is None
    assert wheel.advance(NOW_MS + 5, 10) == [2]
    assert not wheel.cancel(2)


@pytest.mark.parametrize("first", [-5, 3, 5000, HOUR_MS, 400 * 24 * HOUR_MS])
@pytest.mark.parametrize("second", [-5, 3, 5000, HOUR_MS, 400 * 24 * HOUR_MS])
def test_a_cancelled_handle_comes_back_once(first: int, second: int) -> None:
    wheel = TimingWheel(NOW_MS)
    wheel.insert(NOW_MS + first, 1)
    for _ in range(3):
        assert wheel.cancel(1)
        wheel.insert(NOW_MS + second, 1)
        assert wheel.cancel(1)
        wheel.insert_many([(NOW_MS + first, 1)])
    assert wheel.cancel(1)
    wheel.insert(NOW_MS + second, 1)
    assert wheel.tombstone_count <= 1
    assert drain(wheel, NOW_MS + max(second, 0) - 1) == ([1] if second < 0 else [])
    assert drain(wheel, NOW_MS + max(first, second, 0)) == ([] if second < 0 else [1])
    assert wheel.tombstone_count == 0


def test_a_cancelled_timer_that_is_half_moved_stays_cancelled() -> None:
    wheel = TimingWheel(0, WheelConfig(upkeep_moves_max=10))
    wheel.insert_many([(1024 + handle, handle) for handle in range(20)])
    wheel.advance(1, 10)  # moves the first ten ahead of their time
    for handle in (3, 4, 15, 16):
        assert wheel.cancel(handle)
    wheel.insert(1024 + 3, 3)
    wheel.insert(1024 + 15, 15)
    wheel.insert(1024 + 30, 4)
    expected = [handle for handle in range(20) if handle not in (4, 16)]
    assert drain(wheel, 3000) == [*expected, 4]


def test_pushing_one_timer_back_for_ever_takes_no_room() -> None:
    """Debouncing: the same handle, a little later each time."""
    wheel = TimingWheel(NOW_MS)
    wheel.insert(NOW_MS, 1)
    for step in range(20_000):
        wheel.cancel(1)
        wheel.insert(NOW_MS + step * 977, 1)
        assert wheel.tombstone_count <= 2100
    assert drain(wheel, NOW_MS + 20_000 * 977) == [1]
    assert wheel.tombstone_count == 0


def test_tombstones_stay_in_proportion_to_timers() -> None:
    wheel = TimingWheel(NOW_MS)
    wheel.insert_many([(NOW_MS + n * 37, n) for n in range(20_000)])
    wheel.insert_many([(NOW_MS + HOUR_MS, n) for n in range(20_000, 40_000)])
    wheel.insert_many([(NOW_MS - n, n) for n in range(40_000, 50_000)])
    wheel.insert_many([(NOW_MS + (n << 26), n) for n in range(50_000, 60_000)])
    left = list(range(0, 60_000, 10))
    for handle in range(60_000):
        if handle % 10:
            assert wheel.cancel(handle)
    assert len(wheel) == len(left)
    # Sweeping ends a little below the bound and the bound may move meanwhile.
    assert wheel.tombstone_count < 1.5 * len(left)
    handles = drain(wheel, NOW_MS + (60_000 << 26))
    assert sorted(handles) == left


def test_tombstones_go_when_timers_have_fired() -> None:
    """Nobody cancels any more, but those that outnumber the timers still go."""
    wheel = TimingWheel(NOW_MS)
    wheel.insert_many([(NOW_MS + HOUR_MS, n) for n in range(10_000)])
    wheel.insert_many([(NOW_MS + 1, n) for n in range(10_000, 20_000)])
    for handle in range(9_999):
        wheel.cancel(handle)
    assert drain(wheel, NOW_MS + 1) == list(range(10_000, 20_000))
    assert wheel.tombstone_count > 5_000
    for step in range(1000):
        wheel.advance(NOW_MS + 2 + step, 10)
    assert wheel.tombstone_count < 1100
    assert drain(wheel, NOW_MS + HOUR_MS) == [9_999]


@pytest.mark.parametrize("handle", [-1, 2**40, 2**64])
def test_a_handle_has_40_bits(handle: int) -> None:
    wheel = TimingWheel(NOW_MS)
    with pytest.raises(HandleOutOfRange):
        wheel.insert(NOW_MS, handle)
    with pytest.raises(HandleOutOfRange):
        wheel.insert_many([(NOW_MS, 5), (NOW_MS, handle), (NOW_MS, 6)])
    assert len(wheel) == 0
    wheel.insert_many([(NOW_MS, 0), (NOW_MS, 2**40 - 1)])
    assert wheel.advance(NOW_MS, 10) == [0, 2**40 - 1]


@pytest.mark.parametrize("handles", [[1, 2, 1], [8, 9, 10]])
def test_a_batch_with_a_pending_handle_changes_nothing(handles: list[int]) -> None:
    wheel = TimingWheel(NOW_MS)
    wheel.insert(NOW_MS + 1, 9)
    with pytest.raises(HandlePending) as caught:
        wheel.insert_many((NOW_MS, handle) for handle in handles)
    assert caught.value.handle in (1, 9)
    with pytest.raises(HandlePending):
        wheel.insert(NOW_MS, 9)
    assert list(wheel.handles()) == [9]
    wheel.insert_many([])
    assert drain(wheel, NOW_MS + 1) == [9]


@pytest.mark.parametrize(
    "sizes",
    [
        {"tick_ms": 0},
        {"slot_bits": 0},
        {"level_count": 0},
        {"cascade_moves_max": 0},
        {"upkeep_moves_max": 0},
        {"slot_bits": 10, "level_count": 4},
        {"slot_bits": 13, "level_count": 3},
    ],
)
def test_impossible_wheels_are_refused(sizes: dict[str, int]) -> None:
    with pytest.raises(InvalidConfig, match="no wheel can have this shape"):
        WheelConfig(**sizes)


@pytest.mark.parametrize(
    "error", [InvalidConfig("too big"), HandleOutOfRange(-1, 40), HandlePending(3)]
)
def test_errors_pickle_and_say_what_is_wrong(error: WheelError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error) != ""
