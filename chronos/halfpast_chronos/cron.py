"""Cron expressions in a time zone: when they occur, over clock changes too.

cronsim reads the expression and finds matching times in the calendar; which moment
such a wall-clock time is, if any, is decided here. As in Debian's cron there are two
kinds of expressions:

    at fixed times     neither the minutes nor the hours begin with `*`. Each time of
                       the calendar counts once: one that is skipped when clocks go
                       forward counts at the first moment after the gap, one that
                       comes twice when they go back counts the first time.
    every so often     each moment counts whose wall-clock time matches: nothing
                       happens in the gap, and the repeated hour counts twice.

`after` has no memory: asked about the same moment it gives the same answer, and what
it gives is always later than what it was asked about. Moments are kept in UTC, for
Python compares times of one zone by what the clocks show.
"""

from copy import copy
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo, available_timezones

from cronsim import CronSim, CronSimError

from .errors import BadCron, UnknownTimeZone

ALIASES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
LENGTH_MAX = 200
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)
SECOND = timedelta(seconds=1)
WINDOW = timedelta(hours=25)
"""No zone changes its clocks twice within this, nor by more than it."""
LAST_MS = 250_000_000_000_000  # in the year 9892: datetime ends soon behind it


class Cron:
    """One expression in one time zone. Raises BadCron, UnknownTimeZone."""

    def __init__(self, expression: str, time_zone: str) -> None:
        self._zone = zone_of(time_zone)
        if len(expression) > LENGTH_MAX:
            raise BadCron(expression[:20] + "…", f"longer than {LENGTH_MAX} characters")
        plain = ALIASES.get(expression.strip().lower(), expression)
        try:
            self._calendar = CronSim(plain, datetime(2000, 1, 1))
        except CronSimError as error:
            raise BadCron(expression, str(error).lower()) from None
        _, minute, hour, *_ = self._calendar.parts
        self._fixed = not minute.startswith("*") and not hour.startswith("*")

    def after(self, moment_ms: int) -> int | None:
        """The first occurrence after a moment, both epoch ms; None if there is none
        within fifty years."""
        if moment_ms > LAST_MS:
            return None
        moment = EPOCH + moment_ms * MILLISECOND
        found = self._fixed_after(moment) if self._fixed else self._any_after(moment)
        return None if found is None else (found - EPOCH) // MILLISECOND

    def _fixed_after(self, moment: datetime) -> datetime | None:
        """Wall-clock times up to that of `moment` are over: the first pass counts."""
        for wall in self._walls_after(wall_of(moment, self._zone)):
            found = first_moment(wall, self._zone)
            if found > moment:
                return found
        return None

    def _any_after(self, moment: datetime) -> datetime | None:
        """Goes ahead in stretches in which the clocks are changed once at most."""
        while True:
            start = wall_of(moment, self._zone)
            wall = next(self._walls_after(start), None)
            if wall is None:
                return None
            found = moment + (wall - start)
            change = next_change(moment, self._zone)
            if change is not None and change <= found:
                shown = wall_of(change, self._zone)
                if next(self._walls_after(shown - SECOND), None) == shown:
                    return change
                moment = change
            elif wall - start <= WINDOW:
                return found
            else:
                moment = first_moment(wall - WINDOW, self._zone)

    def _walls_after(self, wall: datetime) -> CronSim:
        """The calendar's times from there on; to read the expression costs more."""
        found = copy(self._calendar)
        found.dt = wall.replace(microsecond=0)
        return found


@lru_cache(maxsize=1)
def known_zones() -> frozenset[str]:
    """The names of IANA time zones that this machine knows."""
    return frozenset(available_timezones()) - {"localtime", "Factory"}


def zone_of(name: str) -> ZoneInfo:
    """Raises UnknownTimeZone."""
    if name not in known_zones():
        raise UnknownTimeZone(name)
    return ZoneInfo(name)


def wall_of(moment: datetime, zone: ZoneInfo) -> datetime:
    """What clocks there show, without a zone."""
    return moment.astimezone(zone).replace(tzinfo=None)


def first_moment(wall: datetime, zone: ZoneInfo) -> datetime:
    """When clocks there first show this time; if they skip it, the end of the gap."""
    found = wall.replace(tzinfo=zone, fold=0).astimezone(UTC)
    if wall_of(found, zone) == wall:
        return found
    # It was read with the offset before the gap, so it lies behind the gap.
    change = next_change(found - WINDOW, zone)
    assert change is not None, "only a change of clocks skips a time"
    return change


def next_change(moment: datetime, zone: ZoneInfo) -> datetime | None:
    """The first moment within the WINDOW after this one at which clocks are changed."""
    offset = moment.astimezone(zone).utcoffset()
    near, far = moment, moment + WINDOW
    if far.astimezone(zone).utcoffset() == offset:
        return None
    while far - near >= SECOND:
        middle = near + (far - near) / 2
        if middle.astimezone(zone).utcoffset() == offset:
            near = middle
        else:
            far = middle
    return far.replace(microsecond=0)
