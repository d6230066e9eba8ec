"""Settings that an administrator gives, their defaults, and what is allowed.

A topic or group that nobody has administered has the defaults. Settings are
checked when they are written, never when they are read: what a later release
allows must not stop this one from reading the rest.
"""

from dataclasses import dataclass
from typing import Literal

from halfpast_api.metadata.errors import InvalidSettings
from halfpast_core_store.record import BODY_SIZE_MAX

FlushMode = Literal["sync", "async"]

DAY_MS = 86_400_000
DELAY_MS_MAX = 36_525 * DAY_MS  # a hundred years
QUEUES_MAX = 1024
ATTEMPTS_MAX = 1000
BACKOFF_MS_MAX = 7 * DAY_MS
INVISIBLE_MS_MIN = 1000
INVISIBLE_MS_MAX = 43_200_000  # twelve hours
DESCRIPTION_CHARS_MAX = 1000
LIMIT_VALUE_MAX = 2**53 - 1  # the largest that every JSON reader keeps exact


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSettings:
    """How a topic takes messages.

    `max_delay_ms`: the longest delay that is accepted; ten years, leap days
    and all. `flush`: "async" answers before the disk has the message, so it is
    for messages that may be lost.
    """

    queues: int = 4
    max_delay_ms: int = 3_660 * DAY_MS
    max_body_bytes: int = BODY_SIZE_MAX
    flush: FlushMode = "sync"
    description: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """How a consumer group's messages are offered again, and how often.

    A failed message waits `backoff_initial_ms`, then twice as long each time up
    to `backoff_max_ms`; after `max_attempts` it is a dead letter.
    `invisible_ms`: how long a popped message stays hidden unless a pop says.
    """

    max_attempts: int = 16
    backoff_initial_ms: int = 1000
    backoff_max_ms: int = 300_000
    invisible_ms: int = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """One quota. Its name tells the unit, as in `publish_per_s`."""

    value: int


def check(settings: TopicSettings | GroupSettings | Limit) -> None:
    """Raise InvalidSettings for the first value that is not allowed."""
    match settings:
        case TopicSettings():
            _in_range("queues", settings.queues, 1, QUEUES_MAX)
            _in_range("max_delay_ms", settings.max_delay_ms, 0, DELAY_MS_MAX)
            _in_range("max_body_bytes", settings.max_body_bytes, 1, BODY_SIZE_MAX)
            _one_of("flush", settings.flush, ("sync", "async"))
            _text("description", settings.description, DESCRIPTION_CHARS_MAX)
        case GroupSettings():
            first_ms = settings.backoff_initial_ms
            _in_range("max_attempts", settings.max_attempts, 1, ATTEMPTS_MAX)
            _in_range("backoff_initial_ms", first_ms, 0, BACKOFF_MS_MAX)
            last_ms = settings.backoff_max_ms
            _in_range("backoff_max_ms", last_ms, first_ms, BACKOFF_MS_MAX)
            hidden_ms = settings.invisible_ms
            _in_range("invisible_ms", hidden_ms, INVISIBLE_MS_MIN, INVISIBLE_MS_MAX)
        case Limit():
            _in_range("value", settings.value, 0, LIMIT_VALUE_MAX)


def _in_range(field: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise InvalidSettings(field, f"must be {low} to {high}, and is {value}")


def _one_of(field: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise InvalidSettings(field, f"must be {' or '.join(allowed)}")


def _text(field: str, value: str, chars_max: int) -> None:
    """No NUL and no lone surrogate: databases refuse both, in different ways."""
    if len(value) > chars_max:
        detail = f"must have at most {chars_max} characters, and has {len(value)}"
        raise InvalidSettings(field, detail)
    if "\0" in value or any("\ud800" <= char <= "\udfff" for char in value):
        raise InvalidSettings(field, "must be text without NUL or surrogates")
