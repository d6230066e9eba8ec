"""The places where a wheel may go wrong, by name."""

import pytest

from halfpast_wheel.config import WheelConfig
from halfpast_wheel.timing_wheel import TimingWheel

SLOT = 1024  # ticks in a slot of level 1, and slots in a level
LEVEL_2_SLOT = 1 << 20
REACH = 1 << 30
TEN_YEARS_MS = 10 * 366 * 24 * 3600 * 1000
NOW_MS = 1_700_000_000_123
CALLS_MAX = 10_000


def drain(wheel: TimingWheel, now_ms: int, limit: int = 1000) -> list[int]:
    handles = wheel.advance(now_ms, limit)
    for _ in range(CALLS_MAX):
        if not wheel.behind:
            break
        handles += wheel.advance(now_ms, limit)
    return handles


def follow(wheel: TimingWheel) -> list[tuple[int, int]]:
    """(time, handle) of all timers, calling only when the wheel asks to be called."""
    fired: list[tuple[int, int]] = []
    for _ in range(CALLS_MAX):
        now_ms = wheel.next_deadline_ms()
        if now_ms is None:
            break
        fired += [(now_ms, handle) for handle in drain(wheel, now_ms)]
    return fired


def test_an_empty_wheel_has_nothing_to_do() -> None:
    wheel = TimingWheel(NOW_MS)
    assert wheel.next_deadline_ms() is None
    assert wheel.advance(NOW_MS + 1, 10) == []
    assert not wheel.behind
    assert len(wheel) == 0
    assert not wheel.cancel(1)


@pytest.mark.parametrize("start_ms", [0, 1, SLOT - 1, SLOT, REACH - 1, REACH, NOW_MS])
@pytest.mark.parametrize("edge", [1, SLOT, LEVEL_2_SLOT, REACH, 2 * REACH, 1 << 24])
@pytest.mark.parametrize("off", [-1, 0, 1])
def test_a_timer_beside_an_edge_is_exact(start_ms: int, edge: int, off: int) -> None:
    """Both as a distance from now and as a place on the wheel."""
    next_edge_ms = (start_ms // edge + 1) * edge
    for deadline_ms in (start_ms + edge + off, next_edge_ms + off):
        wheel = TimingWheel(start_ms)
        wheel.insert(deadline_ms, 7)
        assert wheel.deadline_ms(7) == deadline_ms
        if deadline_ms > start_ms:
            assert wheel.advance(deadline_ms - 1, 10) == []
        assert drain(wheel, max(deadline_ms, start_ms)) == [7]

        wheel = TimingWheel(start_ms)
        wheel.insert(deadline_ms, 7)
        assert follow(wheel) == [(deadline_ms, 7)]


@pytest.mark.parametrize("delay_ms", [TEN_YEARS_MS, 1 << 50, 1 << 70])
def test_the_far_future_has_no_limit(delay_ms: int) -> None:
    wheel = TimingWheel(NOW_MS)
    wheel.insert(NOW_MS + delay_ms, 1)
    wheel.insert(NOW_MS + delay_ms - 1, 2)
    wheel.insert(NOW_MS + 5, 3)
    assert follow(wheel) == [
        (NOW_MS + 5, 3),
        (NOW_MS + delay_ms - 1, 2),
        (NOW_MS + delay_ms, 1),
    ]


def test_the_wheel_goes_round_many_times() -> None:
    wheel = TimingWheel(NOW_MS)
    wheel.insert(NOW_MS + 700, 0)
    for turn in range(1, 3 * SLOT):
        deadline_ms = NOW_MS + turn * 700
        wheel.insert(deadline_ms + 700, turn)
        assert wheel.advance(deadline_ms - 1, 10) == []
        assert drain(wheel, deadline_ms) == [turn - 1]


def test_next_deadline_is_exact_on_level_0_and_a_slot_start_beyond() -> None:
    start_ms = 5 * SLOT
    wheel = TimingWheel(start_ms)
    wheel.insert(start_ms + 3 * SLOT + 17, 1)
    assert wheel.next_deadline_ms() == start_ms + 3 * SLOT
    wheel.insert(start_ms + SLOT - 1, 2)
    assert wheel.next_deadline_ms() == start_ms + SLOT - 1
    wheel.insert(start_ms - 4, 3)
    assert wheel.next_deadline_ms() == start_ms - 4


def test_overdue_timers_come_first_and_in_order() -> None:
    wheel = TimingWheel(NOW_MS)
    wheel.insert(NOW_MS + 1, 1)
    wheel.insert(NOW_MS, 2)
    wheel.insert(NOW_MS - 50, 3)
    wheel.insert(-5, 4)
    wheel.insert(NOW_MS - 50, 5)
    assert wheel.behind
    assert wheel.advance(NOW_MS, 10) == [4, 3, 5, 2]
    assert not wheel.behind
    wheel.insert(NOW_MS - 1, 6)
    assert wheel.behind
    assert wheel.advance(NOW_MS + 1, 10) == [6, 1]


def test_one_tick_keeps_the_order_of_arrival_wherever_its_timers_came_from() -> None:
    deadline_ms = (NOW_MS // REACH + 2) * REACH - 1
    wheel = TimingWheel(NOW_MS)
    distances = [REACH, LEVEL_2_SLOT + 3, SLOT + 3, SLOT, 900, 3, 1, 0]
    for handle, distance in enumerate(distances):
        assert drain(wheel, deadline_ms - distance - 1) == []
        wheel.insert(deadline_ms, handle)
        wheel.insert_many([(deadline_ms, 100 + handle)])
    handles = drain(wheel, deadline_ms)
    wheel.insert(deadline_ms, 999)
    handles += drain(wheel, deadline_ms)
    expected = [base + n for n in range(len(distances)) for base in (0, 100)]
    assert handles == [*expected, 999]


def test_timers_that_come_while_their_slot_is_moved_come_last() -> None:
    wheel = TimingWheel(0, WheelConfig(cascade_moves_max=10, upkeep_moves_max=10))
    late_ms = 5 * SLOT + 500
    wheel.insert_many([(late_ms, handle) for handle in range(100)])
    assert wheel.advance(late_ms, 1000) == []  # a jump: the slot is being moved
    assert wheel.behind
    wheel.insert(late_ms, 100)
    wheel.insert(late_ms - 1, 200)
    wheel.insert(3 * SLOT, 300)  # before the slot, and after where the clock was
    wheel.insert(3 * SLOT - 1, 400)
    wheel.insert(late_ms, 101)
    handles = drain(wheel, late_ms)
    assert handles == [400, 300, 200, *range(102)]


def test_a_limit_is_kept_within_a_tick() -> None:
    wheel = TimingWheel(NOW_MS)
    wheel.insert_many([(NOW_MS + 1 + n // 7, n) for n in range(50)])
    assert wheel.advance(NOW_MS + 100, 0) == []
    handles: list[int] = []
    for _ in range(10):
        assert wheel.behind
        handles += wheel.advance(NOW_MS + 100, 5)
        assert len(handles) % 5 == 0
    assert handles == list(range(50))
    assert not wheel.behind


def test_an_earlier_timer_overtakes_the_rest_of_a_limited_tick() -> None:
    wheel = TimingWheel(NOW_MS)
    wheel.insert_many([(NOW_MS + 10, n) for n in range(4)])
    assert wheel.advance(NOW_MS + 10, 2) == [0, 1]
    wheel.insert(NOW_MS + 9, 50)
    wheel.insert(NOW_MS + 10, 60)
    assert wheel.advance(NOW_MS + 10, 10) == [50, 2, 3, 60]


def test_when_the_clock_goes_back_nothing_is_early_or_stuck() -> None:
    wheel = TimingWheel(NOW_MS)
    wheel.insert(NOW_MS + 1000, 1)
    wheel.insert(NOW_MS + 5000, 2)
    assert drain(wheel, NOW_MS + 2000) == [1]
    assert wheel.advance(NOW_MS - 3000, 10) == []
    assert not wheel.behind
    # A timer of this older time is due by this older time, not by the newest one.
    wheel.insert(NOW_MS - 1000, 3)
    assert wheel.next_deadline_ms() == NOW_MS - 1000
    assert wheel.advance(NOW_MS - 1001, 10) == []
    assert wheel.advance(NOW_MS - 1000, 10) == [3]
    assert wheel.advance(NOW_MS + 4999, 10) == []
    assert drain(wheel, NOW_MS + 5000) == [2]


@pytest.mark.parametrize("tick_ms", [2, 10, 60_000])
def test_long_ticks_round_up(tick_ms: int) -> None:
    config = WheelConfig(tick_ms=tick_ms)
    start_ms = NOW_MS // tick_ms * tick_ms
    wheel = TimingWheel(start_ms, config)
    wheel.insert(start_ms + 1, 1)
    wheel.insert_many([(start_ms + tick_ms, 2), (start_ms + tick_ms + 1, 3)])
    assert wheel.deadline_ms(1) == start_ms + 1
    assert wheel.next_deadline_ms() == start_ms + tick_ms
    assert wheel.advance(start_ms + tick_ms - 1, 10) == []
    assert wheel.advance(start_ms + tick_ms, 10) == [1, 2]
    assert drain(wheel, start_ms + 2 * tick_ms) == [3]


def test_a_crowded_slot_is_moved_before_its_time() -> None:
    """A second with many timers begins with all of them where they should be."""
    start_ms = 10 * SLOT
    wheel = TimingWheel(start_ms)
    wheel.insert_many([(start_ms + 4 * SLOT + n % SLOT, n) for n in range(50_000)])
    wheel.insert(start_ms + 3, 60_000)
    calls: list[int] = []
    while (asked_ms := wheel.next_deadline_ms()) != start_ms + 4 * SLOT:
        assert asked_ms is not None
        assert asked_ms < start_ms + 4 * SLOT
        assert not wheel.behind
        calls.append(asked_ms)
        wheel.advance(calls[-1], 1000)
    assert calls[0] == start_ms + 3
    assert calls[1] == start_ms + 3 * SLOT
    assert len(calls) < 60
    assert wheel.advance(start_ms + 4 * SLOT, 10) == [n * SLOT for n in range(10)]
