"""Which windows a run is about."""

from dataclasses import replace

import pytest

from halfpast_spark.job_config import RunConfig, period_of
from halfpast_spark.job_errors import BadPeriod
from halfpast_spark.windows import Period

CONFIG = RunConfig(database="sqlite:///x", window_ms=100, grace_ms=10)


def period(config: RunConfig, *, first_ms: int = 250, zero: bool = True) -> Period:
    return period_of(config, first_ms=first_ms, starts_at_zero=zero, horizon_ms=730)


def test_all_that_the_data_tell_of() -> None:
    found = period(CONFIG)
    assert (found.from_ms, found.to_ms) == (200, 800)
    assert found.settled_ms == 720


def test_a_log_that_was_cut_begins_with_a_whole_window() -> None:
    assert period(CONFIG, zero=False).from_ms == 300
    assert period(CONFIG, first_ms=300, zero=False).from_ms == 300


def test_borders_are_moved_outwards() -> None:
    found = period(replace(CONFIG, from_ms=310, to_ms=410))
    assert (found.from_ms, found.to_ms) == (300, 500)
    assert period(replace(CONFIG, from_ms=310), zero=False).from_ms == 300


@pytest.mark.parametrize(
    ("config", "text"),
    [
        (
            replace(CONFIG, to_ms=801),
            r"end in the future.*known up to .*00\.730Z, .*00\.800Z",
        ),
        (replace(CONFIG, from_ms=800), "no window lies between"),
        (replace(CONFIG, from_ms=500, to_ms=500), "no window lies between"),
        (replace(CONFIG, window_ms=0), "longer than 0"),
        (replace(CONFIG, grace_ms=-1), "negative"),
        (replace(CONFIG, from_ms=-(10**9)), "longer ones"),
    ],
)
def test_others_are_refused(config: RunConfig, text: str) -> None:
    with pytest.raises(BadPeriod, match=text):
        period(config)
