"""Which windows a page shows, in which steps."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from halfpast_api.console.audits.links import page_link
from halfpast_api.console.audits.scope import (
    DAY_MS,
    HOUR_MS,
    MINUTE_MS,
    PARAMETERS,
    RANGES,
    STEPS_MAX,
    Wish,
    read_wish,
    settle,
    step_for,
)
from halfpast_api.problems import Refusal
from halfpast_api.query import Query

NOON = 1_767_268_800_000  # 2026-01-01T12:00:00Z
WINDOW = 5 * MINUTE_MS


def read(text: str) -> Wish:
    return read_wish(Query.parse(text, PARAMETERS))


def test_the_newest_windows_are_shown_even_if_they_are_old() -> None:
    scope = settle(Wish(), WINDOW, NOON, NOON + 90 * DAY_MS)
    assert (scope.from_ms, scope.to_ms, scope.step_ms) == (NOON - DAY_MS, NOON, WINDOW)
    assert scope.is_exact


def test_windows_to_come_are_shown_only_when_asked_for() -> None:
    scope = settle(Wish(range="1h"), WINDOW, NOON + DAY_MS, NOON - 1)
    assert (scope.from_ms, scope.to_ms) == (NOON - HOUR_MS, NOON)
    later = settle(
        Wish(from_ms=NOON, to_ms=NOON + HOUR_MS), WINDOW, NOON + DAY_MS, NOON - 1
    )
    assert (later.from_ms, later.to_ms) == (NOON, NOON + HOUR_MS)


def test_a_month_is_gathered_in_round_steps() -> None:
    scope = settle(Wish(range="30d"), WINDOW, NOON, NOON)
    assert (scope.step_ms, len(scope.steps)) == (3 * HOUR_MS, 240)
    assert not scope.is_exact


@given(
    st.sampled_from([1000, MINUTE_MS, 7 * MINUTE_MS, WINDOW, HOUR_MS, DAY_MS]),
    st.sampled_from(list(RANGES)),
    st.integers(0, 10 * DAY_MS),
)
def test_windows_steps_and_span_go_into_one_another(
    window_ms: int, name: str, before_ms: int
) -> None:
    now_ms = NOON - before_ms
    assume(RANGES[name] // window_ms < 100_000)
    scope = settle(Wish(range=name), window_ms, NOON, now_ms)
    assert scope.from_ms % scope.step_ms == scope.to_ms % scope.step_ms == 0
    assert scope.step_ms % window_ms == 0
    assert 0 < len(scope.steps) <= STEPS_MAX + 2
    assert scope.to_ms >= now_ms
    assert scope.to_ms - scope.from_ms >= RANGES[name]


@given(st.integers(1, 400 * DAY_MS), st.integers(1, DAY_MS))
def test_there_are_never_more_steps_than_can_be_drawn(
    span_ms: int, window_ms: int
) -> None:
    step_ms = step_for(span_ms, window_ms)
    assert step_ms % window_ms == 0
    assert step_ms * STEPS_MAX >= span_ms


def test_times_are_read_as_forms_and_people_write_them() -> None:
    wish = read("from=2026-01-01T12:00&to=2026-01-01T13:30:00%2B01:00&topic=a&group=b")
    assert wish == Wish(from_ms=NOON, to_ms=NOON + HOUR_MS // 2, topic="a", group="b")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("from=yesterday", "'from' must be a time"),
        ("from=2026-01-02T00:00&to=2026-01-01T00:00", "before"),
        ("range=2h", "1h, 6h, 24h"),
        ("window=-1", "window"),
        ("colour=red", "colour"),
    ],
)
def test_what_cannot_be_meant_is_refused(text: str, said: str) -> None:
    with pytest.raises(Refusal, match=said):
        read(text)


def test_too_many_windows_are_refused() -> None:
    with pytest.raises(Refusal, match="take less"):
        settle(Wish(from_ms=0, to_ms=NOON), 1000, NOON, NOON)


def test_a_link_keeps_what_it_does_not_change() -> None:
    wish = read("range=7d&topic=a%25b&group=g&from=2026-01-01T12:00")
    link = page_link(wish, group="", from_="")
    assert link == "/console/audits?range=7d&topic=a%25b"
    assert page_link(Wish()) == "/console/audits"
    assert read(page_link(wish).partition("?")[2]) == wish
