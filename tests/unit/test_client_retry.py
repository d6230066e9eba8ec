"""When the SDK tries again: the arithmetic, without a clock."""

from hypothesis import given
from hypothesis import strategies as st

from halfpast.retry import RetryPolicy, worth_repeating

chances = st.floats(0, 1)


@given(st.integers(1, 10_000), chances)
def test_a_pause_stays_within_its_bounds(attempt: int, chance: float) -> None:
    policy = RetryPolicy(backoff_initial_s=0.05, backoff_max_s=2.0)
    assert 0 <= policy.pause_s(attempt, chance) <= 2.0


def test_pauses_double_up_to_the_maximum() -> None:
    policy = RetryPolicy(backoff_initial_s=0.5, backoff_max_s=3.0)
    assert [policy.pause_s(n, 1.0) for n in (1, 2, 3, 4, 5)] == [0.5, 1, 2, 3, 3]


@given(st.integers(1, 100), chances, st.floats(0, 600))
def test_never_sooner_than_the_server_asked(
    attempt: int, chance: float, retry_after_s: float
) -> None:
    assert RetryPolicy().pause_s(attempt, chance, retry_after_s) >= retry_after_s


def test_overload_is_repeated_and_a_full_disk_is_not() -> None:
    assert worth_repeating(503, retryable=False)
    assert worth_repeating(429, retryable=False)
    assert worth_repeating(507, retryable=True)
    assert not worth_repeating(507, retryable=False)
    assert not worth_repeating(422, retryable=False)
