"""Times and spans as people type and read them."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halfpast_api.cli_times import parse_moment, parse_span, show_moment, show_span

MINUTE = timedelta(minutes=1)


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("250ms", timedelta(milliseconds=250)),
        ("5s", timedelta(seconds=5)),
        ("1.5s", timedelta(seconds=1.5)),
        ("30m", 30 * MINUTE),
        ("30min", 30 * MINUTE),
        ("1h30m", 90 * MINUTE),
        ("1h 30m", 90 * MINUTE),
        ("2D", timedelta(days=2)),
        ("1w", timedelta(weeks=1)),
        ("PT30M", 30 * MINUTE),
        ("P1DT12H", timedelta(days=1.5)),
        ("pt0.25s", timedelta(milliseconds=250)),
        ("0s", timedelta(0)),
    ],
)
def test_spans_as_people_write_them(text: str, span: timedelta) -> None:
    assert parse_span(text) == span


@pytest.mark.parametrize(
    "text", ["", "30", "m", "30 minutes ago", "-5s", "PT", "P1M", "P", "1e9999s", "5s5"]
)
def test_other_texts_get_advice(text: str) -> None:
    with pytest.raises(ValueError, match="write for example"):
        parse_span(text)


def test_a_span_beyond_all_time_gets_advice() -> None:
    with pytest.raises(ValueError, match="write for example"):
        parse_span("99999999999d")


def test_a_time_needs_its_zone() -> None:
    moment = datetime(2026, 11, 20, 18, tzinfo=UTC)
    assert parse_moment("2026-11-20T18:00:00Z") == moment
    assert parse_moment("2026-11-20T19:00:00+01:00") == moment
    with pytest.raises(ValueError, match="time zone"):
        parse_moment("2026-11-20T18:00:00")
    with pytest.raises(ValueError, match="not a time"):
        parse_moment("tomorrow")


@pytest.mark.parametrize(
    ("span", "text"),
    [
        (timedelta(milliseconds=4), "4 ms"),
        (timedelta(0), "0 ms"),
        (timedelta(seconds=2.5), "2.5 s"),
        (timedelta(seconds=60), "1 min"),
        (timedelta(seconds=59.9996), "1 min"),
        (90 * MINUTE, "1 h 30 min"),
        (timedelta(days=2, hours=3, minutes=4), "2 d 3 h"),
        (-timedelta(milliseconds=4), "-4 ms"),
    ],
)
def test_spans_as_people_read_them(span: timedelta, text: str) -> None:
    assert show_span(span) == text


@given(st.datetimes(min_value=datetime(1970, 1, 1), timezones=st.just(UTC)))
def test_a_time_is_shown_to_the_millisecond(moment: datetime) -> None:
    shown = datetime.fromisoformat(show_moment(moment))
    assert timedelta(0) <= moment - shown < timedelta(milliseconds=1)
