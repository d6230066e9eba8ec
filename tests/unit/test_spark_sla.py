"""SLAs and windows, as far as they need no Spark."""

import pytest

from halfpast_spark.job_errors import BadSla
from halfpast_spark.sla import DEFAULT, Sla, SlaRules, parse_sla
from halfpast_spark.windows import Period, ceil_ms, floor_ms


@pytest.mark.parametrize(
    ("text", "sla"),
    [
        ("99.9 % within 50 ms", Sla(50, 0.999)),
        ("100% within 1s", Sla(1000, 1.0)),
        (" 95 % within  1.5 s ", Sla(1500, 0.95)),
        ("99.99 % within 2 min", Sla(120_000, 0.9999)),
        ("50 % within 1 h", Sla(3_600_000, 0.5)),
    ],
)
def test_a_promise_is_read(text: str, sla: Sla) -> None:
    assert parse_sla(text) == sla


@pytest.mark.parametrize(
    "text",
    ["", "99.9", "0 % within 5 ms", "101 % within 5 ms", "9 % in 5 ms", "9 % within 5"],
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(BadSla, match=r"99\.9 % within 50 ms"):
        parse_sla(text)


def test_less_than_a_millisecond_is_not_measured() -> None:
    with pytest.raises(BadSla):
        parse_sla("99 % within 0.5 ms")


def test_a_topic_without_an_sla_has_the_default() -> None:
    rules = SlaRules(topics={"orders": Sla(5, 0.5)})
    assert rules.of("orders") == Sla(5, 0.5)
    assert rules.of("bills") == DEFAULT


def test_borders_of_windows() -> None:
    assert floor_ms(299_999, 300_000) == 0
    assert floor_ms(300_000, 300_000) == 300_000
    assert ceil_ms(300_000, 300_000) == 300_000
    assert ceil_ms(300_001, 300_000) == 600_000


def test_what_was_due_within_the_grace_is_not_lost_yet() -> None:
    period = Period(from_ms=0, to_ms=100, window_ms=100, horizon_ms=1_000, grace_ms=300)
    assert period.settled_ms == 700
