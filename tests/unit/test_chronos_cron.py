"""Cron expressions over clock changes: tables computed by hand, and an oracle that
looks at a clock on the wall minute by minute."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from halfpast_chronos.cron import EPOCH, MILLISECOND, Cron, next_change, wall_of
from halfpast_chronos.errors import BadCron, UnknownTimeZone

MINUTE = timedelta(minutes=1)


def ms(moment: datetime) -> int:
    return (moment - EPOCH) // MILLISECOND


def at(text: str) -> int:
    """A moment in UTC."""
    return ms(datetime.fromisoformat(text).replace(tzinfo=UTC))


def occurrences(cron: Cron, start_ms: int) -> Iterator[int]:
    """Those after a moment."""
    found = cron.after(start_ms)
    while found is not None:
        yield found
        found = cron.after(found)


def shown(expression: str, zone: str, start: str, count: int) -> list[str]:
    """The next occurrences after a moment in UTC, as local times with offset."""
    found = occurrences(Cron(expression, zone), at(start))
    moments = [EPOCH + next(found) * MILLISECOND for _ in range(count)]
    return [it.astimezone(ZoneInfo(zone)).isoformat()[5:] for it in moments]


# When clocks go forward, what is skipped counts at the end of the gap, once.
FORWARD = [
    # Berlin, 2027-03-28: 02:00 +01:00 becomes 03:00 +02:00.
    (
        "30 2 * * *",
        "Europe/Berlin",
        "2027-03-26T12:00",
        ["03-27T02:30:00+01:00", "03-28T03:00:00+02:00", "03-29T02:30:00+02:00"],
    ),
    (  # two skipped times, and the end of the gap itself: it occurs once
        "0,30 2,3 * * *",
        "Europe/Berlin",
        "2027-03-27T23:00",
        ["03-28T03:00:00+02:00", "03-28T03:30:00+02:00", "03-29T02:00:00+02:00"],
    ),
    (  # every so often: nothing in the gap
        "*/30 * * * *",
        "Europe/Berlin",
        "2027-03-28T00:15",
        ["03-28T01:30:00+01:00", "03-28T03:00:00+02:00", "03-28T03:30:00+02:00"],
    ),
    (
        "15 * * * *",
        "Europe/Berlin",
        "2027-03-28T00:00",
        ["03-28T01:15:00+01:00", "03-28T03:15:00+02:00", "03-28T04:15:00+02:00"],
    ),
    (  # a whole hour that does not exist that day: nothing until the next
        "*/20 2 * * *",
        "Europe/Berlin",
        "2027-03-27T23:00",
        ["03-29T02:00:00+02:00", "03-29T02:20:00+02:00", "03-29T02:40:00+02:00"],
    ),
    # New York, 2027-03-14: 02:00 -05:00 becomes 03:00 -04:00.
    (
        "5 2 * * *",
        "America/New_York",
        "2027-03-13T12:00",
        ["03-14T03:00:00-04:00", "03-15T02:05:00-04:00"],
    ),
    # Havana, 2027-03-14: midnight itself is skipped.
    (
        "0 0 * * *",
        "America/Havana",
        "2027-03-13T12:00",
        ["03-14T01:00:00-04:00", "03-15T00:00:00-04:00"],
    ),
    # Lord Howe, 2026-10-04: half an hour, 02:00 +10:30 becomes 02:30 +11:00.
    (
        "15 2 * * *",
        "Australia/Lord_Howe",
        "2026-10-03T00:00",
        ["10-04T02:30:00+11:00", "10-05T02:15:00+11:00"],
    ),
    (
        "*/15 2 * * *",
        "Australia/Lord_Howe",
        "2026-10-03T15:00",
        ["10-04T02:30:00+11:00", "10-04T02:45:00+11:00", "10-05T02:00:00+11:00"],
    ),
    # Apia had no 30 December in 2011.
    (
        "0 9 * * *",
        "Pacific/Apia",
        "2011-12-29T12:00",
        ["12-29T09:00:00-10:00", "12-31T00:00:00+14:00", "12-31T09:00:00+14:00"],
    ),
]

# When they go back, a fixed time counts the first time, the others both times.
BACK = [
    # Berlin, 2026-10-25: 03:00 +02:00 becomes 02:00 +01:00.
    (
        "30 2 * * *",
        "Europe/Berlin",
        "2026-10-24T12:00",
        ["10-25T02:30:00+02:00", "10-26T02:30:00+01:00"],
    ),
    (
        "15,45 2 * * *",
        "Europe/Berlin",
        "2026-10-25T00:20",  # 02:20, the first time
        ["10-25T02:45:00+02:00", "10-26T02:15:00+01:00", "10-26T02:45:00+01:00"],
    ),
    (
        "15,45 2 * * *",
        "Europe/Berlin",
        "2026-10-25T01:20",  # 02:20, the second time: both are over
        ["10-26T02:15:00+01:00", "10-26T02:45:00+01:00"],
    ),
    (
        "*/30 * * * *",
        "Europe/Berlin",
        "2026-10-24T23:45",
        [
            "10-25T02:00:00+02:00",
            "10-25T02:30:00+02:00",
            "10-25T02:00:00+01:00",
            "10-25T02:30:00+01:00",
            "10-25T03:00:00+01:00",
        ],
    ),
    # New York, 2026-11-01: 02:00 -04:00 becomes 01:00 -05:00.
    (
        "0 1 * * *",
        "America/New_York",
        "2026-10-31T12:00",
        ["11-01T01:00:00-04:00", "11-02T01:00:00-05:00"],
    ),
    (
        "20 * * * *",
        "America/New_York",
        "2026-11-01T05:00",
        ["11-01T01:20:00-04:00", "11-01T01:20:00-05:00", "11-01T02:20:00-05:00"],
    ),
    # Lord Howe, 2027-04-04: 02:00 +11:00 becomes 01:30 +10:30.
    (
        "0 */2 * * *",
        "Australia/Lord_Howe",
        "2027-04-03T12:00",
        ["04-04T00:00:00+11:00", "04-04T02:00:00+10:30", "04-04T04:00:00+10:30"],
    ),
    (
        "45 1 * * *",
        "Australia/Lord_Howe",
        "2027-04-03T12:00",
        ["04-04T01:45:00+11:00", "04-05T01:45:00+10:30"],
    ),
]

# Zones without changes, and other things that an expression may say.
CALENDAR = [
    (
        "30 5 * * *",
        "Asia/Kolkata",
        "2026-11-20T00:00",
        ["11-21T05:30:00+05:30", "11-22T05:30:00+05:30"],
    ),
    (
        "0 12 31 * *",
        "UTC",
        "2026-11-20T00:00",
        ["12-31T12:00:00+00:00", "01-31T12:00:00+00:00", "03-31T12:00:00+00:00"],
    ),
    ("0 0 29 2 *", "UTC", "2026-11-20T00:00", ["02-29T00:00:00+00:00"]),
    ("0 9 L * *", "UTC", "2027-02-01T00:00", ["02-28T09:00:00+00:00"]),
    ("0 9 * * MON#2", "UTC", "2026-11-20T00:00", ["12-14T09:00:00+00:00"]),
    (
        "*/20 30 2 * * *",  # with seconds
        "UTC",
        "2026-11-20T02:30",
        ["11-20T02:30:20+00:00", "11-20T02:30:40+00:00", "11-21T02:30:00+00:00"],
    ),
    ("@weekly", "UTC", "2026-11-20T00:00", ["11-22T00:00:00+00:00"]),
    (" @Daily ", "UTC", "2026-11-20T00:00", ["11-21T00:00:00+00:00"]),
]


@pytest.mark.parametrize(
    ("expression", "zone", "start", "wanted"), FORWARD + BACK + CALENDAR
)
def test_tables(expression: str, zone: str, start: str, wanted: list[str]) -> None:
    assert shown(expression, zone, start, len(wanted)) == wanted


ZONES = [
    "Europe/Berlin",
    "America/New_York",
    "America/Havana",
    "Australia/Lord_Howe",
    "Africa/Casablanca",
    "Pacific/Chatham",
    "Antarctica/Troll",
]
EXPRESSIONS = [
    (range(0, 60, 30), range(24), "*/30 * * * *", False),
    (range(60), range(2, 3), "* 2 * * *", False),
    ((5,), range(24), "5 * * * *", False),
    ((0,), range(0, 24, 2), "0 */2 * * *", False),
    ((0,), (0,), "0 0 * * *", True),
    ((0, 30), (2,), "0,30 2 * * *", True),
    ((15, 45), (0, 1, 2, 3), "15,45 0-3 * * *", True),
]


@pytest.mark.parametrize("zone", ZONES)
def test_as_a_clock_on_the_wall_shows(zone: str) -> None:
    for change in changes(ZoneInfo(zone)):
        walls = wall_clock(ZoneInfo(zone), change)
        for minutes, hours, expression, fixed in EXPRESSIONS:

            def matches(wall: datetime, m: object = minutes, h: object = hours) -> bool:
                return wall.minute in m and wall.hour in h  # type: ignore[operator]

            wanted = [
                ms(moment)
                for moment, wall, skipped, is_first in walls
                if (matches(wall) and (is_first or not fixed))
                or (fixed and any(map(matches, skipped)))
            ]
            start_ms, end_ms = ms(walls[0][0]) - 1, ms(walls[-1][0])
            found: list[int] = []
            for occurrence_ms in occurrences(Cron(expression, zone), start_ms):
                if occurrence_ms > end_ms:
                    break
                found.append(occurrence_ms)
            assert found == wanted, (expression, change)


def changes(zone: ZoneInfo) -> list[datetime]:
    """The two changes of the clocks behind this moment."""
    moment, found = datetime(2026, 9, 1, tzinfo=UTC), list[datetime]()
    while len(found) < 2:
        change = next_change(moment, zone)
        if change is not None:
            found.append(change)
        moment = change or moment + timedelta(hours=24)
    return found


Shown = tuple[datetime, datetime, list[datetime], bool]


def wall_clock(zone: ZoneInfo, change: datetime) -> list[Shown]:
    """Each minute about a change: the moment, what the clock shows, which times it
    has skipped, and whether it shows this for the first time."""
    found: list[Shown] = []
    seen = set[datetime]()
    moment = change - timedelta(hours=8)
    last = wall_of(moment - MINUTE, zone)
    while moment < change + timedelta(hours=5):
        wall = wall_of(moment, zone)
        skipped = [last + n * MINUTE for n in range(1, (wall - last) // MINUTE)]
        if moment >= change - timedelta(hours=4):
            found.append((moment, wall, skipped, wall not in seen))
        seen.add(wall)
        last, moment = wall, moment + MINUTE
    return found


@settings(max_examples=150, deadline=None)
@given(
    zone=st.sampled_from(ZONES),
    expression=st.sampled_from([it[2] for it in EXPRESSIONS]),
    start_ms=st.integers(at("2026-09-01"), at("2027-05-01")),
    data=st.data(),
)
def test_it_has_no_memory_and_never_goes_back(
    zone: str, expression: str, start_ms: int, data: st.DataObject
) -> None:
    cron = Cron(expression, zone)
    following = cron.after(start_ms)
    assert following is not None
    assert following > start_ms
    between_ms = data.draw(st.integers(start_ms, following - 1))
    assert cron.after(between_ms) == following
    after = cron.after(following)
    assert after is not None
    assert after > following


@pytest.mark.parametrize(
    "expression",
    [
        "",
        "* * * *",
        "60 * * * *",
        "* 24 * * *",
        "* * 30 2 *",
        "*/0 * * * *",
        "a b c d e",
        "5-1 * * * *",
        "@reboot",
        "² * * * *",
        "* * * * 8",
        "* * * * 1#6",
        "0 " * 200,
        "9" * 150 + " * * * *",
    ],
)
def test_what_is_no_expression(expression: str) -> None:
    with pytest.raises(BadCron):
        Cron(expression, "UTC")


@pytest.mark.parametrize(
    "zone",
    ["", "Berlin", "CEST", "Europe", "../etc/passwd", "europe/berlin", "localtime"],
)
def test_what_is_no_time_zone(zone: str) -> None:
    with pytest.raises(UnknownTimeZone):
        Cron("* * * * *", zone)


def test_what_never_happens_ends() -> None:
    assert Cron("* * */20 * 1L", "UTC").after(at("2026-01-01")) is None
    assert Cron("0 0 1 1 *", "UTC").after(at("9950-01-01")) is None
