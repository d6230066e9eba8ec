"""Plans and their times: intervals, back-off, jitter, and what is refused."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.chronos_line import START_MS

from halfpast_chronos.errors import BadPlan
from halfpast_chronos.recurrence import (
    INTERVAL_MS_MAX,
    JITTER_MS_MAX,
    TIME_MS_MAX,
    Plan,
    Recurrence,
)

SECOND_MS, MINUTE_MS, HOUR_MS, DAY_MS = 1_000, 60_000, 3_600_000, 86_400_000
ONE, OTHER = bytes(15) + b"\1", bytes(15) + b"\2"


def times(plan: Plan, count: int, start_ms: int = START_MS) -> list[int]:
    """The next nominal times after a moment, counted from START_MS."""
    recurrence = Recurrence(plan)
    found: list[int] = []
    moment_ms = start_ms
    while len(found) < count and (after := recurrence.after(moment_ms)) is not None:
        moment_ms = after
        found.append(moment_ms - START_MS)
    return found


def every(interval_ms: int, **fields: Any) -> Plan:
    return Plan(interval_ms=interval_ms, anchor_ms=START_MS, **fields)


def test_an_interval_counts_from_its_anchor() -> None:
    assert times(every(5000), 3) == [5000, 10000, 15000]
    assert times(every(5000), 2, START_MS + 12_345) == [15000, 20000]
    assert times(every(5000), 1, START_MS - 1_000_000) == [5000]


def test_an_interval_that_starts_has_its_anchor_too() -> None:
    assert times(every(5000, starts=True), 2, START_MS - 1) == [0, 5000]
    assert times(every(5000, starts=True), 2, START_MS - 99_000) == [0, 5000]
    assert times(every(5000, starts=True), 2, START_MS + 12_345) == [15000, 20000]


def test_back_off_doubles_up_to_the_longest_pause() -> None:
    plan = Plan(first_ms=1000, longest_ms=5000, anchor_ms=START_MS)
    assert times(plan, 6) == [1000, 3000, 7000, 12000, 17000, 22000]
    assert times(plan, 2, START_MS + 6_999) == [7000, 12000]
    assert times(plan, 2, START_MS + 7_000) == [12000, 17000]
    assert times(plan, 1, START_MS + 100_000_000) == [100_002_000]


def test_back_off_that_starts_and_with_another_factor() -> None:
    plan = Plan(first_ms=1000, factor=1.5, anchor_ms=START_MS, starts=True)
    assert times(plan, 4, START_MS - 1) == [0, 1000, 2500, 4750]


def test_back_off_without_a_longest_pause_goes_on() -> None:
    found = times(Plan(first_ms=1000, factor=1000.0, anchor_ms=START_MS), 7)
    pauses = [b - a for a, b in pairwise(found)]
    assert pauses[-2:] == [INTERVAL_MS_MAX, INTERVAL_MS_MAX]


def test_until_is_the_last_that_counts() -> None:
    assert times(every(5000, until_ms=START_MS + 10_000), 9) == [5000, 10000]
    assert times(every(5000, until_ms=START_MS + 9_999), 9) == [5000]


def test_a_cron_expression_may_start_later() -> None:
    plan = Plan(cron="* * * * *", anchor_ms=START_MS + DAY_MS + 1, starts=True)
    minute_ms = START_MS + DAY_MS + MINUTE_MS - (START_MS + DAY_MS) % MINUTE_MS
    assert times(plan, 1) == [minute_ms - START_MS]


@dataclass(frozen=True)
class Case:
    plan: Plan
    start_ms: int


@st.composite
def cases(draw: st.DrawFn) -> Case:
    moment_ms = st.integers(START_MS - 40 * DAY_MS, START_MS + 400 * DAY_MS)
    jitter_ms = draw(st.sampled_from([0, 1, 500, MINUTE_MS, JITTER_MS_MAX]))
    rule = draw(st.sampled_from(["cron", "interval", "exponential"]))
    fields: dict[str, Any] = {"jitter_ms": jitter_ms, "starts": draw(st.booleans())}
    if rule == "cron":
        fields["cron"] = draw(
            st.sampled_from(["* * * * *", "30 2 * * *", "*/7 1-3 * * *", "0 0 1 * *"])
        )
        fields["time_zone"] = draw(st.sampled_from(["UTC", "Europe/Berlin"]))
    elif rule == "interval":
        fields["interval_ms"] = draw(st.integers(1000, 3 * DAY_MS))
    else:
        fields["first_ms"] = draw(st.integers(1000, DAY_MS))
        fields["factor"] = draw(st.floats(1.1, 5))
        fields["longest_ms"] = draw(st.integers(fields["first_ms"], 9 * DAY_MS))
    return Case(Plan(anchor_ms=START_MS, **fields), draw(moment_ms))


@settings(max_examples=200, deadline=None)
@given(cases())
def test_occurrences_keep_their_order_and_jitter_its_bounds(case: Case) -> None:
    recurrence = Recurrence(case.plan)
    moment_ms, last_due_ms = case.start_ms, 0
    for _ in range(8):
        nominal_ms = recurrence.after(moment_ms)
        assert nominal_ms is not None
        assert nominal_ms > moment_ms
        due_ms = recurrence.due(ONE, nominal_ms)
        assert nominal_ms <= due_ms <= nominal_ms + case.plan.jitter_ms
        assert due_ms > last_due_ms
        following_ms = recurrence.after(nominal_ms)
        assert following_ms is not None
        assert due_ms < following_ms, "it would reach the next one's time"
        assert due_ms == Recurrence(case.plan).due(ONE, nominal_ms)
        moment_ms, last_due_ms = nominal_ms, due_ms


@settings(max_examples=200, deadline=None)
@given(cases(), st.integers(0, 300 * DAY_MS))
def test_the_last_one_is_the_one_before_the_next(case: Case, ahead_ms: int) -> None:
    recurrence = Recurrence(case.plan)
    floor_ms = recurrence.after(case.start_ms)
    assert floor_ms is not None
    moment_ms = floor_ms + ahead_ms
    last_ms = recurrence.last(floor_ms, moment_ms)
    assert floor_ms <= last_ms <= moment_ms
    following_ms = recurrence.after(last_ms)
    assert following_ms is not None
    assert following_ms > moment_ms
    assert last_ms == floor_ms or recurrence.after(last_ms - 1) == last_ms


def test_jitter_spreads_schedules_and_occurrences() -> None:
    recurrence = Recurrence(every(HOUR_MS, jitter_ms=10 * MINUTE_MS))
    nominals = [START_MS + n * HOUR_MS for n in range(1, 200)]
    late = [recurrence.due(ONE, it) - it for it in nominals]
    assert len(set(late)) > 190
    assert min(late) < MINUTE_MS
    assert max(late) > 9 * MINUTE_MS
    assert late != [recurrence.due(OTHER, it) - it for it in nominals]


def test_jitter_does_not_lead_beyond_until() -> None:
    until_ms = START_MS + HOUR_MS + 5
    plan = every(HOUR_MS, jitter_ms=MINUTE_MS, until_ms=until_ms)
    due_ms = Recurrence(plan).due(ONE, START_MS + HOUR_MS)
    assert START_MS + HOUR_MS <= due_ms <= until_ms


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({}, "cron"),
        ({"cron": "* * * * *", "interval_ms": 5000}, "cron"),
        ({"interval_ms": 5000, "first_ms": 5000}, "cron"),
        ({"interval_ms": 999}, "interval"),
        ({"interval_ms": -5}, "interval"),
        ({"interval_ms": INTERVAL_MS_MAX + 1}, "interval"),
        ({"interval_ms": 5000, "time_zone": "Europe/Berlin"}, "time_zone"),
        ({"first_ms": 999}, "exponential"),
        ({"first_ms": 5000, "factor": 1.0}, "exponential"),
        ({"first_ms": 5000, "factor": 1001.0}, "exponential"),
        ({"first_ms": 5000, "factor": float("nan")}, "exponential"),
        ({"first_ms": 5000, "longest_ms": 4999}, "exponential"),
        ({"first_ms": 5000, "longest_ms": INTERVAL_MS_MAX + 1}, "exponential"),
        ({"interval_ms": 5000, "jitter_ms": -1}, "jitter"),
        ({"interval_ms": 5000, "jitter_ms": JITTER_MS_MAX + 1}, "jitter"),
        ({"interval_ms": 5000, "times": -1}, "times"),
        ({"interval_ms": 5000, "grace_ms": -1}, "grace_ms"),
        ({"interval_ms": 5000, "until_ms": TIME_MS_MAX + 1}, "until"),
        ({"interval_ms": 5000, "anchor_ms": TIME_MS_MAX + 1}, "start_at"),
    ],
)
def test_what_cannot_be_meant(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(BadPlan) as caught:
        Recurrence(Plan(**fields))
    assert caught.value.field == field
