"""Times and spans, as they are typed, in milliseconds."""

from datetime import datetime

from halfpast_api.cli_times import parse_moment, parse_span


def moment_ms(text: str | None, now: datetime) -> int | None:
    """A time, or how long ago, as epoch ms. Raises ValueError."""
    if text is None:
        return None
    try:
        moment = now - parse_span(text)
    except ValueError:
        moment = parse_moment(text)
    return round(moment.timestamp() * 1000)


def span_ms(text: str) -> int:
    """Raises ValueError."""
    return round(parse_span(text).total_seconds() * 1000)
