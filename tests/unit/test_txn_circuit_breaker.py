"""The circuit of one endpoint, on a clock of its own."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from halfpast_txn.circuit_breaker import Circuit, CircuitBreaker, CircuitConfig

CONFIG = CircuitConfig(failures_max=3, back_off_ms=100, back_off_ms_max=350)


def enter(breaker: CircuitBreaker, now_ms: int) -> int:
    permit = breaker.enter(now_ms)
    assert permit is not None
    return permit


def fail(breaker: CircuitBreaker, now_ms: int) -> bool:
    return breaker.failed(enter(breaker, now_ms), now_ms)


def opened(now_ms: int) -> CircuitBreaker:
    breaker = CircuitBreaker(CONFIG)
    assert [fail(breaker, now_ms) for _ in range(3)] == [False, False, True]
    assert breaker.circuit == Circuit.OPEN
    return breaker


def test_only_failures_in_a_row_open_it() -> None:
    breaker = CircuitBreaker(CONFIG)
    for _ in range(10):
        assert not fail(breaker, 0)
        assert not fail(breaker, 0)
        assert not breaker.succeeded(enter(breaker, 0))
    assert breaker.circuit == Circuit.CLOSED


def test_an_open_one_holds_back_until_the_back_off_is_over() -> None:
    breaker = opened(1000)
    assert breaker.holds_back(1000)
    assert breaker.enter(1099) is None
    permit = enter(breaker, 1100)
    assert breaker.enter(1100) is None, "one call at a time"
    assert breaker.succeeded(permit)
    assert breaker.circuit == Circuit.CLOSED
    enter(breaker, 1100)
    enter(breaker, 1100)


def test_the_back_off_doubles_up_to_the_longest_and_begins_anew() -> None:
    breaker = opened(0)
    now_ms = 100
    for back_off_ms in (200, 350, 350):
        assert not fail(breaker, now_ms), "it was open already"
        assert breaker.enter(now_ms + back_off_ms - 1) is None
        now_ms += back_off_ms
    assert breaker.succeeded(enter(breaker, now_ms))
    for _ in range(3):
        fail(breaker, now_ms)
    assert breaker.enter(now_ms + 99) is None
    enter(breaker, now_ms + 100)


def test_calls_from_before_the_change_count_for_nothing() -> None:
    breaker = CircuitBreaker(CONFIG)
    permits = [enter(breaker, 0) for _ in range(6)]
    assert [breaker.failed(permit, 0) for permit in permits[:4]] == [
        False,
        False,
        True,
        False,
    ]
    probe = enter(breaker, 100)
    assert not breaker.failed(permits[4], 100)
    assert not breaker.succeeded(permits[5])
    assert breaker.circuit == Circuit.HALF_OPEN
    assert breaker.succeeded(probe)


def test_an_abandoned_probe_lets_the_next_one_try() -> None:
    breaker = opened(0)
    breaker.abandoned(enter(breaker, 100))
    assert breaker.circuit == Circuit.OPEN
    assert breaker.succeeded(enter(breaker, 100))


def test_an_abandoned_call_changes_nothing_in_a_closed_one() -> None:
    breaker = CircuitBreaker(CONFIG)
    fail(breaker, 0)
    fail(breaker, 0)
    breaker.abandoned(enter(breaker, 0))
    assert fail(breaker, 0)


@pytest.mark.parametrize("failures_max", [1, 2, 7])
def test_the_number_of_failures_is_kept(failures_max: int) -> None:
    breaker = CircuitBreaker(CircuitConfig(failures_max=failures_max))
    opening = [fail(breaker, 0) for _ in range(failures_max)]
    assert opening == [False] * (failures_max - 1) + [True]


class Life(RuleBasedStateMachine):
    """Calls begin and end in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.breaker = CircuitBreaker(CONFIG)
        self.now_ms = 0
        self.permits: list[int] = []

    @rule(ms=st.integers(0, 200))
    def wait(self, ms: int) -> None:
        self.now_ms += ms

    @rule()
    def begin(self) -> None:
        permit = self.breaker.enter(self.now_ms)
        if permit is not None:
            self.permits.append(permit)

    @rule(data=st.data(), end=st.sampled_from(["works", "fails", "cancelled"]))
    def end(self, data: st.DataObject, end: str) -> None:
        if not self.permits:
            return
        at = data.draw(st.integers(0, len(self.permits) - 1))
        permit = self.permits.pop(at)
        if end == "works":
            self.breaker.succeeded(permit)
        elif end == "fails":
            self.breaker.failed(permit, self.now_ms)
        else:
            self.breaker.abandoned(permit)

    @invariant()
    def it_never_stays_shut(self) -> None:
        """With nothing under way and the longest back-off over, a call may go."""
        if not self.permits:
            assert not self.breaker.holds_back(self.now_ms + CONFIG.back_off_ms_max)

    @invariant()
    def half_open_has_its_call(self) -> None:
        if self.breaker.circuit == Circuit.HALF_OPEN:
            assert self.permits


TestLife = Life.TestCase
TestLife.settings = settings(max_examples=100, stateful_step_count=40)
