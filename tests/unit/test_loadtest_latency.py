"""Percentiles by nearest rank."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halfpast_loadtest.latency import summarise


def test_one_to_a_thousand() -> None:
    latency = summarise(float(value) for value in range(1000, 0, -1))
    assert (latency.p50_ms, latency.p99_ms) == (500, 990)
    assert (latency.p999_ms, latency.max_ms) == (999, 1000)
    assert latency.count == 1000


def test_of_nothing_all_is_zero() -> None:
    assert summarise([]).max_ms == 0


@given(st.lists(st.floats(-1e6, 1e6), min_size=1))
def test_each_percentile_is_a_value_that_occurred(values: list[float]) -> None:
    latency = summarise(values)
    assert {latency.p50_ms, latency.p99_ms, latency.p999_ms} <= set(values)
    assert latency.p50_ms <= latency.p99_ms <= latency.p999_ms <= latency.max_ms
    assert latency.max_ms == pytest.approx(max(values))
