"""Settings that an administrator gives, their defaults, and what is allowed.

A topic or group that nobody has administered has the defaults. Settings are
checked when they are written, never when they are read: what a later release
allows must not stop this one from reading the rest.
"""

from dataclasses import dataclass, field
from typing import Literal

from halfpast_api.metadata.access_settings import (
    KeySettings,
    NamespaceSettings,
    check_access,
)
from halfpast_api.metadata.endpoint_settings import EndpointSettings, check_endpoint
from halfpast_api.metadata.errors import InvalidSettings
from halfpast_api.metadata.settings_rules import in_range, one_of, text, word
from halfpast_core_store.record import BODY_SIZE_MAX
from halfpast_txn.policy import CheckPolicy

FlushMode = Literal["sync", "async"]

DAY_MS = 86_400_000
DELAY_MS_MAX = 36_525 * DAY_MS  # a hundred years
QUEUES_MAX = 1024
ATTEMPTS_MAX = 1000
BACKOFF_MS_MAX = 7 * DAY_MS
INVISIBLE_MS_MIN = 1000
INVISIBLE_MS_MAX = 43_200_000  # twelve hours
DESCRIPTION_CHARS_MAX = 1000
RELEASE_RATE_MAX = 1_000_000
PENDING_MAX = 1_000_000_000
LIMIT_VALUE_MAX = 2**53 - 1  # the largest that every JSON reader keeps exact
CHECK_AFTER_MS_MAX = 7 * DAY_MS
CHECK_INTERVAL_MS_MIN = 100
CHECK_INTERVAL_MS_MAX = DAY_MS
CHECKS_MAX = 1000
CHECK_TIMEOUT_MS_MIN = 100
CHECK_TIMEOUT_MS_MAX = 30_000
CHECK_CONCURRENCY_MAX = 100
CHECK_URL_CHARS_MAX = 2000
CHECK_SECRETS_MAX = 2  # the new one and, until all know it, the old one
CHECK_SECRET_CHARS_MAX = 100

_POLICY = CheckPolicy()  # for transactions that bring none and whose group has none


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSettings:
    """How a topic takes messages.

    `max_delay_ms`: the longest delay that is accepted; ten years, leap days
    and all. `flush`: "async" answers before the disk has the message, so it is
    for messages that may be lost.

    `paused`: what is scheduled is not released, and waits. `accepting`: without it
    nothing comes in; what was scheduled fails when it is due. `release_rate_per_s`
    and `max_pending` bound how fast scheduled events are released, and how many may
    wait; 0 is no limit.
    """

    queues: int = 4
    max_delay_ms: int = 3_660 * DAY_MS
    max_body_bytes: int = BODY_SIZE_MAX
    flush: FlushMode = "sync"
    description: str = ""
    paused: bool = False
    accepting: bool = True
    release_rate_per_s: int = 0
    max_pending: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """How a consumer group's messages are offered again, and how often.

    A failed message waits `backoff_initial_ms`, then twice as long each time up
    to `backoff_max_ms`; after `max_attempts` it is a dead letter.
    `invisible_ms`: how long a popped message stays hidden unless a pop says.
    `ordered`: messages of one key and queue are given one at a time, in order.
    """

    max_attempts: int = 16
    backoff_initial_ms: int = 1000
    backoff_max_ms: int = 300_000
    invisible_ms: int = 60_000
    ordered: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerGroupSettings:
    """How a producer group is asked about transactions that it has left open.

    The first time after `check_after_ms`, the second `check_interval_ms` later,
    `check_max` times in all; a transaction may bring its own three. At `check_url`,
    if there is one, at most `check_concurrency_max` calls wait at once, each for
    `check_timeout_ms`, signed with each of `check_secrets`, the newest first.
    """

    check_url: str = ""
    check_secrets: tuple[str, ...] = field(default=(), repr=False)
    check_after_ms: int = _POLICY.check_after_ms
    check_interval_ms: int = _POLICY.check_interval_ms
    check_max: int = _POLICY.check_max
    check_timeout_ms: int = 5000
    check_concurrency_max: int = 8
    description: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """One quota. Its name tells the unit, as in `requests_per_s`."""

    value: float


AnySettings = (
    TopicSettings
    | GroupSettings
    | ProducerGroupSettings
    | EndpointSettings
    | Limit
    | KeySettings
    | NamespaceSettings
)


def check(settings: AnySettings) -> None:
    """Raise InvalidSettings for the first value that is not allowed."""
    match settings:
        case KeySettings() | NamespaceSettings():
            check_access(settings)
        case TopicSettings():
            in_range("queues", settings.queues, 1, QUEUES_MAX)
            in_range("max_delay_ms", settings.max_delay_ms, 0, DELAY_MS_MAX)
            in_range("max_body_bytes", settings.max_body_bytes, 1, BODY_SIZE_MAX)
            one_of("flush", settings.flush, ("sync", "async"))
            text("description", settings.description, DESCRIPTION_CHARS_MAX)
            rate_per_s = settings.release_rate_per_s
            in_range("release_rate_per_s", rate_per_s, 0, RELEASE_RATE_MAX)
            in_range("max_pending", settings.max_pending, 0, PENDING_MAX)
        case GroupSettings():
            first_ms = settings.backoff_initial_ms
            in_range("max_attempts", settings.max_attempts, 1, ATTEMPTS_MAX)
            in_range("backoff_initial_ms", first_ms, 0, BACKOFF_MS_MAX)
            last_ms = settings.backoff_max_ms
            in_range("backoff_max_ms", last_ms, first_ms, BACKOFF_MS_MAX)
            hidden_ms = settings.invisible_ms
            in_range("invisible_ms", hidden_ms, INVISIBLE_MS_MIN, INVISIBLE_MS_MAX)
        case ProducerGroupSettings():
            _check_producer_group(settings)
        case EndpointSettings():
            check_endpoint(settings)
        case Limit():
            in_range("value", settings.value, 0, LIMIT_VALUE_MAX)


def _check_producer_group(settings: ProducerGroupSettings) -> None:
    """Numbers and sizes. What a URL or a secret must look like, the API knows."""
    text("check_url", settings.check_url, CHECK_URL_CHARS_MAX)
    if len(settings.check_secrets) > CHECK_SECRETS_MAX:
        raise InvalidSettings("check_secrets", f"must be at most {CHECK_SECRETS_MAX}")
    for secret in settings.check_secrets:
        word("check_secrets", secret, CHECK_SECRET_CHARS_MAX)
    in_range("check_after_ms", settings.check_after_ms, 0, CHECK_AFTER_MS_MAX)
    low_ms, high_ms = CHECK_INTERVAL_MS_MIN, CHECK_INTERVAL_MS_MAX
    in_range("check_interval_ms", settings.check_interval_ms, low_ms, high_ms)
    in_range("check_max", settings.check_max, 1, CHECKS_MAX)
    low_ms, high_ms = CHECK_TIMEOUT_MS_MIN, CHECK_TIMEOUT_MS_MAX
    in_range("check_timeout_ms", settings.check_timeout_ms, low_ms, high_ms)
    at_once = settings.check_concurrency_max
    in_range("check_concurrency_max", at_once, 1, CHECK_CONCURRENCY_MAX)
    text("description", settings.description, DESCRIPTION_CHARS_MAX)
