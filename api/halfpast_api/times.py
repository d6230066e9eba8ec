"""Times and durations as the API writes them, in whole milliseconds or better.

In: RFC 3339 with an offset, ISO 8601 durations of days to seconds. Out: RFC 3339
in UTC with milliseconds. All arithmetic is on integers, and due times are rounded
up, so that nothing is ever due before the moment that was asked for.
"""

import re
from contextlib import suppress
from datetime import UTC, date, datetime
from functools import lru_cache
from typing import Final

NS_PER_MS: Final = 1_000_000
_NS_PER_S: Final = 1_000_000_000
_DAY_MS: Final = 86_400_000
_TEXT_SIZE_MAX: Final = 64
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
_LAST_MS: Final = 253_402_300_799_999  # the end of the year 9999
_UNITS_NS: Final = (86_400 * _NS_PER_S, 3600 * _NS_PER_S, 60 * _NS_PER_S, _NS_PER_S)

_NUMBER = r"([0-9]+(?:[.,][0-9]+)?)"
_DURATION = re.compile(
    rf"P(?:{_NUMBER}D)?(?:T(?=[0-9])(?:{_NUMBER}H)?(?:{_NUMBER}M)?(?:{_NUMBER}S)?)?"
)
_SHORTHAND = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(ms|s|m|h|d)\s*", re.IGNORECASE)


class BadTime(ValueError):
    """The text is not a time or duration that the API takes; it says which are."""


def parse_instant(text: str) -> int:
    """RFC 3339 with an offset, as epoch ms, rounded up. Raises BadTime.

    Times before 1970 give negative numbers.
    """
    if len(text) == 24 and text[4:20:3] == "--T::." and text[23] == "Z":
        with suppress(ValueError):  # as we write it ourselves: the quick way
            since = datetime.fromisoformat(text) - _EPOCH
            ms = since.days * _DAY_MS + since.seconds * 1000
            return ms + since.microseconds // 1000
    zoned = text[-1:] in ("Z", "z")
    head, tail = (text[:-1], "+00:00") if zoned else (text[:-6], text[-6:])
    stamp, dot, fraction = head[:19], head[19:20], head[20:]
    if (
        len(text) > _TEXT_SIZE_MAX
        or stamp[7:8] != "-"  # or the week of a year
        or stamp[10:11] not in ("T", "t", " ")
        or stamp[13:14] != ":"
        or stamp[16:17] != ":"
        or tail[:1] not in ("+", "-")
        or tail[3:4] != ":"
        or dot not in ("", ".")
        or (dot == ".") != (fraction.isascii() and fraction.isdigit())
    ):
        raise BadTime(_instant_advice(text))
    try:
        moment = datetime.fromisoformat(stamp + tail)
        since = moment - _EPOCH
    except (ValueError, OverflowError):
        raise BadTime(_instant_advice(text)) from None
    ms = since.days * _DAY_MS + since.seconds * 1000
    if not dot:
        return ms
    ms += int(fraction[:3].ljust(3, "0"))
    return ms + 1 if fraction[3:].strip("0") else ms


@lru_cache(maxsize=4096)  # pure, and clients repeat a few delays for ever
def parse_duration(text: str) -> int:
    """An ISO 8601 duration in ns, rounded up. Raises BadTime.

    Only days, hours, minutes and seconds, which always are equally long. The last
    of them may have a fraction.
    """
    match = _DURATION.fullmatch(text) if len(text) <= _TEXT_SIZE_MAX else None
    if match is None or match.lastindex is None:
        raise BadTime(_duration_advice(text))
    total = 0
    for index, (number, unit_ns) in enumerate(
        zip(match.groups(), _UNITS_NS, strict=True), start=1
    ):
        if number is None:
            continue
        whole, _, fraction = number.replace(",", ".").partition(".")
        if fraction and index != match.lastindex:
            raise BadTime(f"only the last part of {text!r} may have a fraction")
        total += int(whole) * unit_ns
        if fraction:
            total += -(-int(fraction) * unit_ns // 10 ** len(fraction))
    return total


def due_ms_of(moment_ns: int) -> int:
    """The first whole millisecond at or after `moment_ns`."""
    return -(-moment_ns // NS_PER_MS)


def render_instant(ms: int) -> str:
    """Epoch ms as RFC 3339 in UTC. What lies outside of 1970 to 9999 is cut there."""
    if not 0 <= ms <= _LAST_MS:
        ms = min(max(ms, 0), _LAST_MS)
    second, ms = divmod(ms, 1000)
    day, second = divmod(second, 86_400)
    return _day(day) + _MINUTES[second // 60] + _SECONDS[second % 60] + _MS[ms]


_MINUTES: Final = tuple(f"T{n // 60:02d}:{n % 60:02d}:" for n in range(1440))
_SECONDS: Final = tuple(f"{number:02d}." for number in range(60))
_MS: Final = tuple(f"{number:03d}Z" for number in range(1000))


# The times of an answer share a few days; their seconds need not come again.
@lru_cache(maxsize=4096)
def _day(days: int) -> str:
    return date.fromordinal(_EPOCH_DAY + days).isoformat()


def _instant_advice(text: str) -> str:
    shown = _shown(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return (
            f"{shown} is not a time; write RFC 3339 with an offset, such as "
            '"2026-11-20T10:00:00Z" or "2026-11-20T11:00:00.250+01:00"'
        )
    if moment.tzinfo is None:
        return (
            f"{shown} has no offset, so it could mean any time zone; add Z for UTC "
            'or an offset, such as "2026-11-20T11:00:00+01:00"'
        )
    return f'{shown} is not RFC 3339; write it as "{moment.isoformat()}"'


def _duration_advice(text: str) -> str:
    shown = _shown(text)
    if text.startswith("-") or "-" in text[:2]:
        return f"{shown} is negative; a delay counts forward, from now"
    date_part = text.partition("T")[0]
    if text.startswith("P") and any(unit in date_part for unit in "YMW"):
        return (
            f"{shown} has years, months or weeks, which are not allowed in a delay; "
            'write days (a week is "P7D"), or give the moment itself as deliver_at'
        )
    if shorthand := _SHORTHAND.fullmatch(text):
        number, unit = shorthand.groups()
        return f'{shown} is not ISO 8601; write "{_iso(number, unit.lower())}"'
    return (
        f"{shown} is not an ISO 8601 duration of days to seconds; write for example "
        '"PT5S", "PT1.5S", "PT30M", "P1DT12H"'
    )


def _iso(number: str, unit: str) -> str:
    if unit == "ms":
        return f"PT{float(number) / 1000:g}S"
    return f"P{number}D" if unit == "d" else f"PT{number}{unit.upper()}"


def _shown(text: str) -> str:
    return repr(text if len(text) <= _TEXT_SIZE_MAX else text[:_TEXT_SIZE_MAX] + "…")
