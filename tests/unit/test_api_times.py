"""Times and durations: what is taken, what is refused, and never too early."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halfpast_api.times import (
    BadTime,
    due_ms_of,
    parse_duration,
    parse_instant,
    render_instant,
)

S = 1_000_000_000


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("2026-11-20T10:00:00Z", 1_795_168_800_000),
        ("2026-11-20t10:00:00z", 1_795_168_800_000),
        ("2026-11-20 10:00:00Z", 1_795_168_800_000),
        ("2026-11-20T11:30:00+01:30", 1_795_168_800_000),
        ("2026-11-20T10:00:00-00:00", 1_795_168_800_000),
        ("2026-11-20T10:00:00.25Z", 1_795_168_800_250),
        ("2026-11-20T10:00:00.2500000000000Z", 1_795_168_800_250),
        ("1969-12-31T23:59:59.999Z", -1),
    ],
)
def test_an_instant_is_read(text: str, ms: int) -> None:
    assert parse_instant(text) == ms


@pytest.mark.parametrize("digits", ["2501", "250000001", "2500000000000000001"])
def test_an_instant_between_two_milliseconds_is_rounded_up(digits: str) -> None:
    assert parse_instant(f"1970-01-01T00:00:00.{digits}Z") == 251


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Z",
        "soon",
        "1795168800",
        "2026-11-20",
        "2026-11-20T10:00Z",
        "20261120T100000Z",
        "2026-W47-5T10:00:00Z",
        "2026-11-20T10:00:00+01",
        "2026-11-20T10:00:00+0100",
        "2026-11-20T10:00:00.Z",
        "2026-11-20T10:00:00,5Z",
        "2026-11-20T10:00:00.٣Z",
        "2026-11-20T10:00:00.1.2Z",
        "2026-11-20T25:00:00Z",
        "2026-02-30T10:00:00Z",
        "2026-11-20T23:59:60Z",
        "2026-11-20T10:00:00+99:99",
        "0000-01-01T00:00:00Z",
        "2026-11-20T10:00:00\x00Z",
        "2026-11-20T10:00:00." + "1" * 100 + "Z",
    ],
)
def test_what_is_no_instant_is_refused(text: str) -> None:
    with pytest.raises(BadTime):
        parse_instant(text)


@pytest.mark.parametrize("text", ["2026-11-20T10:00:00", "2026-11-20T10:00:00.5"])
def test_a_naive_datetime_is_refused_with_the_reason(text: str) -> None:
    with pytest.raises(BadTime, match=r"no offset.*add Z"):
        parse_instant(text)


@given(st.datetimes(timezones=st.just(UTC), min_value=datetime(1970, 1, 1)))
def test_a_rendered_instant_reads_back(moment: datetime) -> None:
    ms = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    text = render_instant(ms)
    assert parse_instant(text) == ms
    assert text == moment.strftime("%Y-%m-%dT%H:%M:%S.").rjust(20, "0") + (
        f"{moment.microsecond // 1000:03d}Z"
    )


def test_times_beyond_the_calendar_are_cut() -> None:
    assert render_instant(-5) == "1970-01-01T00:00:00.000Z"
    assert render_instant(2**63) == "9999-12-31T23:59:59.999Z"


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("PT0S", 0),
        ("PT5S", 5 * S),
        ("PT1.5S", 3 * S // 2),
        ("PT1,5S", 3 * S // 2),
        ("PT30M", 1800 * S),
        ("PT0.5H", 1800 * S),
        ("P1D", 86_400 * S),
        ("P1DT2H3M4.5S", 93_784 * S + S // 2),
        ("P3660D", 3660 * 86_400 * S),
        ("PT100000H", 360_000_000 * S),
        ("PT0.0000000001S", 1),
    ],
)
def test_a_duration_is_read(text: str, ns: int) -> None:
    assert parse_duration(text) == ns


@pytest.mark.parametrize("text", ["P1M", "P1Y", "P2W", "P1Y2M3D", "P1MT5S"])
def test_months_and_years_are_refused_with_the_reason(text: str) -> None:
    with pytest.raises(BadTime, match="years, months or weeks"):
        parse_duration(text)


@pytest.mark.parametrize("text", ["-PT5S", "P-1D", "-P1D"])
def test_a_negative_duration_is_refused_with_the_reason(text: str) -> None:
    with pytest.raises(BadTime, match="negative"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "better"),
    [
        ("5s", "PT5S"),
        ("30 m", "PT30M"),
        ("2h", "PT2H"),
        ("1d", "P1D"),
        ("250ms", "0.25S"),
    ],
)
def test_a_shorthand_is_refused_with_the_right_form(text: str, better: str) -> None:
    with pytest.raises(BadTime, match=better):
        parse_duration(text)


@pytest.mark.parametrize(
    "text",
    [
        *("", "P", "PT", "P1DT", "1D", "pt5s", "PT5", "P5S", "PT1H1H", "PT5S5M"),
        *("PT1.5H30M", "PT.5S", "PT5.S", "PT1e3S", "PT+5S", "PT٥S", "PT5S "),  # noqa: RUF001
        "PT" + "9" * 100 + "S",
    ],
)
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(BadTime):
        parse_duration(text)


@given(
    st.integers(0, 10**6),
    st.integers(0, 10**6),
    st.integers(0, 10**6),
    st.integers(0, 10**6),
    st.text("0123456789", min_size=1, max_size=15),
)
def test_a_duration_is_exact_and_rounded_up(
    days: int, hours: int, minutes: int, seconds: int, digits: str
) -> None:
    text = f"P{days}DT{hours}H{minutes}M{seconds}.{digits}S"
    whole = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    exact = (whole + Fraction(int(digits), 10 ** len(digits))) * S
    assert exact <= parse_duration(text) < exact + 1


@given(st.integers(0, 2**62))
def test_a_due_time_is_the_first_millisecond_not_before(ns: int) -> None:
    assert (due_ms_of(ns) - 1) * 1_000_000 < ns <= due_ms_of(ns) * 1_000_000


@given(st.text() | st.from_regex(r"[-0-9PTDHMSZ:.+]{0,30}", fullmatch=True))
def test_no_text_makes_it_fail_in_another_way(text: str) -> None:
    for parse in (parse_instant, parse_duration):
        with suppress(BadTime):
            parse(text)
