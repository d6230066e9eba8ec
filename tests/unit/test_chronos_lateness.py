"""The histogram of lateness adds up."""

from hypothesis import given
from hypothesis import strategies as st

from halfpast_chronos.lateness import BOUNDS_MS, Lateness


def test_a_value_on_a_bound_belongs_to_it() -> None:
    lateness = Lateness()
    lateness.add(1)
    metrics = lateness.metrics()
    assert metrics['lateness_ms_bucket{le="0.5"}'] == 0
    assert metrics['lateness_ms_bucket{le="1"}'] == 1
    assert metrics['lateness_ms_bucket{le="+Inf"}'] == 1


def test_beyond_the_last_bound_only_infinity_counts() -> None:
    lateness = Lateness()
    lateness.add(BOUNDS_MS[-1] + 1)
    metrics = lateness.metrics()
    assert metrics['lateness_ms_bucket{le="3.6e+06"}'] == 0
    assert metrics['lateness_ms_bucket{le="+Inf"}'] == 1
    assert lateness.max_ms == BOUNDS_MS[-1] + 1


def test_early_ones_are_counted_for_all_to_see() -> None:
    lateness = Lateness()
    lateness.add(0)
    assert lateness.metrics()["early_total"] == 0
    lateness.add(-0.001)
    assert lateness.metrics()["early_total"] == 1


@given(st.lists(st.floats(0, 1e7, allow_nan=False)))
def test_buckets_are_cumulative(values: list[float]) -> None:
    lateness = Lateness()
    for value in values:
        lateness.add(value)
    metrics = lateness.metrics()
    buckets = [v for name, v in metrics.items() if name.startswith("lateness_ms_b")]
    expected = [sum(value <= bound for value in values) for bound in BOUNDS_MS]
    assert buckets == [*expected, len(values)]
    assert metrics["lateness_ms_count"] == len(values)
    assert metrics["lateness_ms_sum"] == sum(values)
