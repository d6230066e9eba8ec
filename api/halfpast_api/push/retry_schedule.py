"""When a failed delivery is tried again: exponentially later, or as we are told."""

from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Final

RETRY_AFTER_MS_MAX: Final = 24 * 3_600_000
JITTER: Final = 0.2
"""A wait is up to this part shorter or longer, so that failures spread."""
OBEYED: Final = frozenset((429, 503))
"""Statuses whose `Retry-After` is honoured."""


def back_off_ms(initial_ms: int, max_ms: int, attempt: int, random: float) -> int:
    """How long to wait after failed attempt `attempt`; `random` is from 0 to 1."""
    wait_ms = min(initial_ms << min(attempt - 1, 40), max_ms)
    return round(wait_ms * (1 - JITTER + 2 * JITTER * random))


def retry_after_ms(value: str | None, now_ms: int) -> int:
    """What a `Retry-After` asks for: seconds, or a date. 0 if it cannot be read."""
    text = (value or "").strip()
    if text.isascii() and text.isdigit():
        return min(int(text[:12]) * 1000, RETRY_AFTER_MS_MAX)
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return 0
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    wait_ms = int(moment.timestamp() * 1000) - now_ms
    return min(max(wait_ms, 0), RETRY_AFTER_MS_MAX)
