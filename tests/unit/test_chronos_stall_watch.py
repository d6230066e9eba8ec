"""Stalls of the event loop, counted, and forgotten after a minute."""

import pytest

from halfpast_chronos.stall_watch import StallCounts


def longest(counts: StallCounts, since: str) -> float:
    return counts.gauges()[f'loop_stall_ms_max{{since="{since}"}}']


def count(counts: StallCounts, at_least_ms: int) -> float:
    return counts.counters()[f'loop_stalls_total{{at_least_ms="{at_least_ms}"}}']


def test_nothing_was_seen_yet() -> None:
    counts = StallCounts()
    assert longest(counts, "start") == longest(counts, "minute") == 0
    assert not any(counts.counters().values())


@pytest.mark.parametrize(
    ("late_ms", "reached"),
    [(9.9, []), (10, [10]), (49.9, [10, 20]), (50, [10, 20, 50]), (1e4, "all")],
)
def test_a_stall_counts_in_every_class_that_it_reaches(
    late_ms: float, reached: list[int] | str
) -> None:
    counts = StallCounts()
    counts.note(1.0, late_ms, 0.0)
    seen = [name for name, number in counts.counters().items() if number]
    if reached == "all":
        assert len(seen) == len(counts.counters())
    else:
        assert seen == [f'loop_stalls_total{{at_least_ms="{it}"}}' for it in reached]


def test_the_longest_is_forgotten_after_a_minute_but_not_since_the_start() -> None:
    counts = StallCounts()
    counts.note(100.2, 70.0, 5.0)
    counts.note(100.9, 30.0, 5.0)  # in the same second: the longer one stays
    counts.note(130.0, 20.0, 5.0)
    counts.note(159.9, 1.0, 0.0)
    assert longest(counts, "minute") == 70
    counts.note(160.0, 1.0, 0.0)
    assert longest(counts, "minute") == 20
    counts.note(189.0, 1.0, 0.0)
    assert longest(counts, "minute") == 20
    counts.note(190.0, 2.0, 0.0)
    assert longest(counts, "minute") == 2
    assert longest(counts, "start") == 70
    assert count(counts, 50) == 1
    assert count(counts, 10) == 3


def test_only_what_was_computed_during_the_stall_is_busy() -> None:
    counts = StallCounts()
    counts.note(1.0, 2.0, 11.0)  # busy all the time, and hardly late
    assert counts.gauges()["loop_stall_busy_ms_max"] == 2
    counts.note(2.0, 80.0, 15.0)  # waited for something
    assert counts.gauges()["loop_stall_busy_ms_max"] == 15
