"""Percentiles from histograms: from above, and by no more than a bucket."""

import math

from hypothesis import given
from hypothesis import strategies as st

from halfpast_api.console.audits.percentiles import Bucket, percentile, percentiles


def bucket_of(value: int) -> tuple[int, int]:
    """Powers of two, as bounds."""
    lower = 1 << (value.bit_length() - 1) if value else 0
    return lower, max(0, 2 * lower - 1)


@given(
    st.lists(st.integers(0, 100_000), min_size=1),
    st.sampled_from([0.5, 0.95, 0.99, 0.999]),
)
def test_a_percentile_is_that_of_the_values_rounded_up_to_its_bucket(
    values: list[int], quantile: float
) -> None:
    counts: dict[tuple[int, int], int] = {}
    for value in values:
        counts[bucket_of(value)] = counts.get(bucket_of(value), 0) + 1
    buckets = [Bucket(*bounds, count) for bounds, count in counts.items()]
    exact = sorted(values)[max(0, math.ceil(quantile * len(values)) - 1)]
    assert percentile(buckets, quantile) == bucket_of(exact)[1]


def test_nothing_has_no_percentile() -> None:
    assert percentile([], 0.5) is None
    assert percentile([Bucket(1, 1, 0)], 0.5) is None


def test_no_percentile_is_above_the_largest_value() -> None:
    found = percentiles([Bucket(0, 9, 99), Bucket(1000, 1999, 1)], 1234.0)
    assert found == {"p50": 9, "p95": 9, "p99": 9, "p999": 1234.0}
