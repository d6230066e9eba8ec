"""Times and spans as people type and read them."""

import re
from datetime import UTC, datetime, timedelta

_UNITS = {
    "ms": timedelta(milliseconds=1),
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "min": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
    "w": timedelta(weeks=1),
}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|min|s|m|h|d|w)")
_ISO = re.compile(
    r"P(?:(\d+)W)?(?:(\d+)D)?"
    r"(?:T(?=.)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?"
)


def parse_span(text: str) -> timedelta:
    """30m, 1h30m, 2d, 250ms or PT30M. Raises ValueError with advice."""
    compact = text.strip().replace(" ", "")
    parts = _PART.findall(compact.lower())
    try:
        if parts and "".join(n + u for n, u in parts) == compact.lower():
            return sum((float(n) * _UNITS[u] for n, u in parts), timedelta(0))
        iso = _ISO.fullmatch(compact.upper())
        if iso is not None and iso.lastindex is not None:
            weeks, days, hours, minutes, seconds = (float(n or 0) for n in iso.groups())
            return timedelta(
                weeks=weeks, days=days, hours=hours, minutes=minutes, seconds=seconds
            )
    except OverflowError:
        pass
    raise ValueError(
        f"{text!r} is not a span of time; write for example 250ms, 30s, 30m, 1h30m, "
        "2d or PT30M"
    )


def parse_moment(text: str) -> datetime:
    """An RFC 3339 time with its offset. Raises ValueError with advice."""
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ValueError(
            f"{text!r} is not a time; write for example 2026-11-20T18:00:00Z"
        ) from None
    if moment.utcoffset() is None:
        local = moment.astimezone().isoformat()
        utc = moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
        raise ValueError(
            f"{text!r} does not say in which time zone; if you mean this machine's, "
            f"write {local} or {utc}"
        )
    return moment


def show_span(span: timedelta) -> str:
    """About how long, in the largest units: 4 ms, 2.5 s, 30 min, 1 h 30 min."""
    ms = round(span / timedelta(milliseconds=1))
    if ms < 0:
        return f"-{show_span(-span)}"
    if ms < 1000:
        return f"{ms} ms"
    if ms < 60_000:
        return f"{ms / 1000:.3f}".rstrip("0").rstrip(".") + " s"
    minutes, seconds = divmod(ms // 1000, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    parts = [(days, "d"), (hours, "h"), (minutes, "min"), (seconds, "s")]
    first = next(i for i, (number, _) in enumerate(parts) if number)
    shown = parts[first : first + 2]
    return " ".join(f"{number} {unit}" for number, unit in shown if number)


def show_moment(moment: datetime) -> str:
    """In UTC, to the millisecond."""
    utc = moment.astimezone(UTC)
    return f"{utc:%Y-%m-%d %H:%M:%S}.{utc.microsecond // 1000:03d}Z"
