"""What is due when, as a map of days and hours in the reader's time zone."""

import math
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Final
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

import msgspec

from halfpast_api.console.wording import compact, number, plural

DAYS: Final = 7
HOUR_MS: Final = 3_600_000
LEVELS: Final = 6


class Cell(msgspec.Struct):
    """An hour of a day. `level` 0 is nothing, and 6 the most of all."""

    count: int
    level: int
    text: str
    label: str
    url: str
    is_now: bool


class Row(msgspec.Struct):
    """A day."""

    name: str
    cells: list[Cell | None]


def first_hour_ms(now_ms: int, zone: ZoneInfo) -> int:
    """When the first day of the map begins: today, where the reader is; the first hour
    of UTC of which all is today."""
    today = datetime.fromtimestamp(now_ms / 1000, zone).date()
    begin = datetime(today.year, today.month, today.day, tzinfo=zone)
    return -(-int(begin.timestamp()) * 1000 // HOUR_MS) * HOUR_MS


def heat_map(counts: Mapping[int, int], now_ms: int, zone: ZoneInfo) -> list[Row]:
    """`counts` by the epoch ms at which an hour begins."""
    by_place: dict[tuple[date, int], tuple[int, int, int]] = {}
    for at_ms in range(
        first_hour_ms(now_ms, zone), now_ms + (DAYS + 1) * 24 * HOUR_MS, HOUR_MS
    ):
        local = datetime.fromtimestamp(at_ms / 1000, zone)
        place = (local.date(), local.hour)
        first, _, count = by_place.get(place, (at_ms, 0, 0))
        by_place[place] = (first, at_ms + HOUR_MS, count + counts.get(at_ms, 0))
    today = datetime.fromtimestamp(now_ms / 1000, zone).date()
    days = [today + timedelta(days=it) for it in range(DAYS)]
    most = max(
        (by_place.get((day, hour), (0, 0, 0))[2] for day in days for hour in range(24)),
        default=0,
    )
    now = datetime.fromtimestamp(now_ms / 1000, zone)
    rows: list[Row] = []
    for day in days:
        cells: list[Cell | None] = []
        for hour in range(24):
            found = by_place.get((day, hour))
            is_now = (day, hour) == (now.date(), now.hour)
            cells.append(
                None if found is None else _cell(day, hour, found, most, is_now)
            )
        rows.append(Row(f"{day:%a} {day.day} {day:%b}", cells))
    return rows


def level_of(count: int, most: int) -> int:
    """On a log scale: 1 is the least that is not nothing."""
    if count <= 0:
        return 0
    if count >= most:
        return LEVELS if most > 1 else 1
    return 1 + min(LEVELS - 1, int((LEVELS - 1) * math.log(count) / math.log(most)))


def _cell(
    day: date, hour: int, found: tuple[int, int, int], most: int, is_now: bool
) -> Cell:
    first_ms, end_ms, count = found
    label = f"{day:%A} {day.day} {day:%B}, {hour:02}:00: {plural(count, 'event')} due"
    query = {"due_after": _iso(first_ms), "due_before": _iso(end_ms)}
    text = compact(count).replace(" ", "") if count >= 10_000 else number(count)
    if count >= 1_000 and count < 10_000:
        text = f"{count / 1000:.1f}k"
    url = f"/console/events?{urlencode(query)}"
    return Cell(count, level_of(count, most), text, label, url, is_now)


def _iso(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"
