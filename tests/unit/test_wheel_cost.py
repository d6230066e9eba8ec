"""What a call costs, counted in executed lines of the wheel, not in time."""

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import halfpast_wheel
from halfpast_wheel.config import WheelConfig
from halfpast_wheel.timing_wheel import TimingWheel

WHEEL_FOLDER = str(Path(halfpast_wheel.__file__).parent)
NOW_MS = 1_700_000_000_123
YEAR_MS = 366 * 24 * 3_600_000


def lines_of(action: Callable[[], object]) -> int:
    """How many lines of the wheel's own code `action` runs."""
    count = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        if not frame.f_code.co_filename.startswith(WHEEL_FOLDER):
            return None
        if event == "line":
            count += 1
        return trace

    previous = sys.gettrace()
    sys.settrace(trace)
    try:
        action()
    finally:
        sys.settrace(previous)
    return count


@pytest.mark.parametrize("gap_ms", [2, 5_000, YEAR_MS, 10 * YEAR_MS, 1 << 60])
def test_empty_time_costs_nothing(gap_ms: int) -> None:
    wheel = TimingWheel(NOW_MS)
    assert lines_of(lambda: wheel.advance(NOW_MS + gap_ms, 100)) < 60
    assert lines_of(wheel.next_deadline_ms) < 30


@pytest.mark.parametrize("gap_ms", [2, 5_000, YEAR_MS, 10 * YEAR_MS, 1 << 60])
def test_empty_time_before_a_timer_costs_nothing(gap_ms: int) -> None:
    wheel = TimingWheel(NOW_MS)
    wheel.insert(NOW_MS + gap_ms, 1)
    assert lines_of(lambda: wheel.advance(NOW_MS + gap_ms - 1, 100)) < 400
    assert lines_of(wheel.next_deadline_ms) < 40
    assert lines_of(lambda: wheel.advance(NOW_MS + gap_ms, 100)) < 400
    assert len(wheel) == 0


def test_timers_far_apart_cost_a_few_steps_each() -> None:
    wheel = TimingWheel(NOW_MS, WheelConfig(cascade_moves_max=100_000))
    wheel.insert_many([(NOW_MS + n * 3 * 24 * 3_600_000, n) for n in range(200)])
    handles: list[int] = []
    cost = lines_of(lambda: handles.extend(wheel.advance(NOW_MS + 2 * YEAR_MS, 200)))
    assert handles == list(range(200))
    assert cost < 300 * 200


@pytest.mark.parametrize("spread_ms", [1, 1000, 600_000, 30 * 24 * 3_600_000])
def test_no_call_does_much(spread_ms: int) -> None:
    """A jump over many timers is worked off in small pieces, whatever their spread."""
    moves_max, limit, timer_count = 256, 100, 5_000
    wheel = TimingWheel(NOW_MS, WheelConfig(cascade_moves_max=moves_max))
    wheel.insert_many(
        [
            (NOW_MS + YEAR_MS + n * spread_ms // timer_count, n)
            for n in range(timer_count)
        ]
    )
    for handle in range(0, timer_count, 3):
        wheel.cancel(handle)
    handles: list[int] = []
    calls = 0
    while len(wheel) and calls < 1500:
        cost = lines_of(
            lambda: handles.extend(wheel.advance(NOW_MS + 2 * YEAR_MS, limit))
        )
        assert cost < 12 * (moves_max + limit)
        calls += 1
    assert handles == [n for n in range(timer_count) if n % 3]


def test_no_cancel_does_much() -> None:
    wheel = TimingWheel(NOW_MS)
    wheel.insert_many([(NOW_MS + 5_000, n) for n in range(6_000)])
    costs = [lines_of(partial(wheel.cancel, handle)) for handle in range(6_000)]
    assert max(costs) < 20_000  # one piece, and perhaps the empty slots of a level
    assert sum(costs) < 60 * len(costs)
