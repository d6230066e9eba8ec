"""Times and spans as people type them into forms."""

from datetime import UTC, datetime
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from halfpast_api.cli_times import parse_span
from halfpast_api.problems import Refusal
from halfpast_api.times import BadTime, parse_instant, render_instant

_NAME_MAX: Final = 64
_MS: Final = 1_000


def zone_of(name: str) -> ZoneInfo:
    """The time zone of whoever fills in a form; UTC if nothing sane is said."""
    if 0 < len(name) <= _NAME_MAX and name.isascii():
        try:
            return ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            pass
    return ZoneInfo("UTC")


def instant_of(text: str, zone: str) -> str:
    """RFC 3339 in UTC, from what a field for a time holds (in `zone`), or from RFC 3339
    with an offset. Raises Refusal."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    try:
        if moment is not None and moment.tzinfo is None:
            local = moment.replace(tzinfo=zone_of(zone)).astimezone(UTC)
            since = local - datetime(1970, 1, 1, tzinfo=UTC)
            ms = (since.days * 86_400 + since.seconds) * _MS + since.microseconds // _MS
            return render_instant(ms)
        return render_instant(parse_instant(text))
    except (BadTime, OverflowError) as error:
        raise Refusal("invalid_time", str(error)) from None


def local_field(at: str | None, zone: str) -> str:
    """The other way round: RFC 3339 as a field for a time holds it."""
    if not at:
        return ""
    moment = datetime.fromisoformat(at).astimezone(zone_of(zone))
    return moment.strftime("%Y-%m-%dT%H:%M:%S")


def span_ms_of(text: str) -> int:
    """`30m`, `1h30m`, `PT30M`, or milliseconds as a bare number. Raises Refusal."""
    if text.isascii() and text.isdigit() and len(text) <= 15:
        return int(text)
    try:
        span = parse_span(text)
    except ValueError as error:
        raise Refusal("invalid_time", str(error)) from None
    return -(
        -(span.days * 86_400_000_000 + span.seconds * 1_000_000 + span.microseconds)
        // _MS
    )


def span_text(ms: int) -> str:
    """The same the other way round, exactly: `1h30m`, `250ms`."""
    if ms == 0:
        return "0s"
    found = ""
    for unit_ms, name in (
        (86_400_000, "d"),
        (3_600_000, "h"),
        (60_000, "m"),
        (1_000, "s"),
        (1, "ms"),
    ):
        count, ms = divmod(ms, unit_ms)
        if count:
            found += f"{count}{name}"
    return found
