"""Samples come from all over a run, whatever the batches."""

import pytest

from halfpast_loadtest.event_sample import EventSample


@pytest.mark.parametrize("batch", [1, 7, 500, 1000])
def test_the_sample_is_spread_evenly(batch: int) -> None:
    sample = EventSample("t", 50, 1000)
    ids = [str(number) for number in range(1000)]
    for at in range(0, 1000, batch):
        sample.take(ids[at : at + batch])
    assert sample.kept == [str(number) for number in range(0, 1000, 10)]


def test_half_of_it_gets_cancelled() -> None:
    sample = EventSample("t", 10, 20)
    sample.take([str(number) for number in range(20)])
    cancelled = sample.to_cancel()
    assert cancelled == sample.cancelled
    assert len(cancelled) == len(sample.kept) == 10
    assert set(cancelled) | set(sample.kept) == {str(number) for number in range(20)}


def test_a_small_run_is_taken_whole() -> None:
    sample = EventSample("t", 100, 3)
    sample.take(["a", "b", "c"])
    assert sample.kept == ["a", "b", "c"]
