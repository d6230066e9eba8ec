"""The token bucket: never more than its rate, and no less."""

import random

import pytest

from halfpast_chronos.gate import BURST_MS, Gate

NOW_MS = 1_700_000_000_000


@pytest.mark.parametrize("rate_per_s", [1, 3, 10, 15, 999, 5_000, 1_000_000])
def test_in_the_long_run_as_many_go_as_the_rate_says(rate_per_s: int) -> None:
    gate = Gate(rate_per_s)
    burst = max(1, rate_per_s * BURST_MS // 1000)
    gone = sum(gate.take(NOW_MS + ms, 10**9) for ms in range(0, 10_000))
    assert 10 * rate_per_s - burst <= gone <= 10 * rate_per_s + burst


def test_in_no_second_do_more_go_than_rate_and_burst() -> None:
    seed = 4
    rng = random.Random(seed)
    gate = Gate(50)
    gone: list[int] = []
    now_ms = NOW_MS
    for _ in range(3_000):
        now_ms += rng.choice([0, 1, 7, 40, 300])
        gone += [now_ms] * gate.take(now_ms, rng.randint(0, 9))
    for first in gone:
        assert sum(first <= at < first + 1000 for at in gone) <= 50 + 5


def test_without_a_rate_all_may_go() -> None:
    gate = Gate()
    assert gate.take(NOW_MS, 10**6) == 10**6
    assert gate.next_ms(NOW_MS) == NOW_MS


def test_it_tells_exactly_when_the_next_one_may_go() -> None:
    for rate_per_s in (1, 3, 7, 30, 1_000):
        gate = Gate(rate_per_s)
        gate.take(NOW_MS, 10**6)
        next_ms = gate.next_ms(NOW_MS)
        assert next_ms > NOW_MS
        assert gate.take(next_ms - 1, 1) == 0
        assert gate.take(next_ms, 1) == 1


def test_a_silence_saves_up_no_more_than_the_burst() -> None:
    gate = Gate(1_000)
    assert gate.take(NOW_MS, 10_000) == BURST_MS
    assert gate.take(NOW_MS + 3_600_000, 10_000) == BURST_MS


def test_what_is_given_back_may_go_again() -> None:
    gate = Gate(10)
    assert gate.take(NOW_MS, 5) == 1
    gate.give_back(1)
    assert gate.next_ms(NOW_MS) == NOW_MS
    assert gate.take(NOW_MS, 5) == 1


def test_a_clock_that_is_set_back_blocks_nothing() -> None:
    gate = Gate(10)
    gate.take(NOW_MS, 1)
    earlier = NOW_MS - 3_600_000
    assert gate.take(earlier, 1) == 0
    assert gate.next_ms(earlier) <= earlier + 100
    assert gate.take(earlier + 100, 1) == 1


def test_a_new_rate_counts_at_once() -> None:
    gate = Gate(1)
    gate.take(NOW_MS, 1)
    gate.set_rate(1_000)
    assert gate.next_ms(NOW_MS) <= NOW_MS + BURST_MS
    gate.set_rate(0)
    assert gate.take(NOW_MS, 500) == 500
