"""Buckets of milliseconds, and quantiles from them."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halfpast_spark.histogram import EARLY, bounds_of, bucket_of, merged, quantile

values = st.one_of(st.integers(-1000, 100_000), st.integers(-(1 << 50), 1 << 50))


@given(values)
def test_a_value_lies_within_the_bounds_of_its_bucket(value: int) -> None:
    lower, upper = bounds_of(bucket_of(value))
    assert lower <= value <= upper
    if value >= 0:
        assert upper - lower <= lower / 8


def test_buckets_follow_one_another_without_a_gap() -> None:
    borders = [bounds_of(bucket) for bucket in range(300)]
    assert borders[0][1] == -1
    for (_, upper), (lower, _) in pairwise(borders):
        assert lower == upper + 1


@given(values, values)
def test_buckets_are_in_the_order_of_values(one: int, other: int) -> None:
    if one <= other:
        assert bucket_of(one) <= bucket_of(other)


@given(
    st.lists(st.integers(0, 1_000_000), min_size=1),
    st.sampled_from([0.0, 0.5, 0.95, 0.999, 1.0]),
)
def test_a_quantile_is_at_most_an_eighth_too_high(
    many: list[int], share: float
) -> None:
    counts: list[tuple[int, int]] = [(bucket_of(value), 1) for value in many]
    wanted = sorted(many)[max(0, -int(-share * len(many) // 1) - 1)]
    found = quantile(merged(counts, []), share)
    assert found is not None
    assert wanted <= found <= wanted * 9 / 8


def test_no_counts_have_no_quantile() -> None:
    assert quantile([], 0.5) is None
    assert quantile([(3, 0)], 0.5) is None


def test_early_ones_are_below_all_others() -> None:
    assert bucket_of(-1) == bucket_of(-(10**12)) == EARLY
    assert quantile([(EARLY, 1), (bucket_of(5), 1)], 0.5) == -1


def test_histograms_add_up() -> None:
    assert merged([(1, 2), (3, 4)], [(3, 1), (2, 7)]) == [(1, 2), (2, 7), (3, 5)]


@pytest.mark.parametrize(("value", "bucket"), [(0, 1), (7, 8), (8, 9), (16, 17)])
def test_small_values_have_a_bucket_of_their_own(value: int, bucket: int) -> None:
    """The numbers are stored: they must not change."""
    assert bucket_of(value) == bucket
    assert bucket_of(40) == 27
