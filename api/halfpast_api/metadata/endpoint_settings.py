"""What is administered of an endpoint: where messages are pushed to, and how."""

from dataclasses import dataclass, field

from halfpast_api.metadata.errors import InvalidSettings
from halfpast_api.metadata.settings_rules import in_range, one_of, text, word

HOUR_MS = 3_600_000
URL_CHARS_MAX = 2000
TOPICS_MAX = 100
TOPIC_CHARS_MAX = 127
FILTER_CHARS_MAX = 8000
SECRETS_MAX = 2  # the new one and, until all know it, the old one
SECRET_CHARS_MAX = 100
RATE_MIN = 0.01
RATE_MAX = 10_000
CONCURRENCY_MAX = 100
TIMEOUT_MS_MIN = 100
TIMEOUT_MS_MAX = 60_000
ATTEMPTS_MAX = 1000
RETRY_MS_MIN = 100
RETRY_MS_MAX = 24 * HOUR_MS
TEXT_CHARS_MAX = 1000

WEBHOOK, BINARY, STRUCTURED = (
    *("webhook", "cloudevents-binary", "cloudevents-structured"),
)
MODES = (WEBHOOK, BINARY, STRUCTURED)
PARALLEL, PER_KEY = "parallel", "per_key"
ENABLED, PAUSED, DISABLED = "enabled", "paused", "disabled"
LATEST, EARLIEST = "latest", "earliest"


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointSettings:
    """`topics` are names, or patterns with `*`. `filter` is JSON (`push.event_match`).

    `secrets`: the newest first, every one signs. `rate_per_s` 0 is no limit. A failed
    delivery is tried again after `retry_initial_ms`, then twice as long each time up to
    `retry_max_ms`, `max_attempts` times in all.

    `start`: with which messages it began. `state` tells whether any are delivered, and
    `reason` why not.
    """

    url: str = ""
    topics: tuple[str, ...] = ()
    filter: str = ""
    mode: str = WEBHOOK
    ordering: str = PARALLEL
    secrets: tuple[str, ...] = field(default=(), repr=False)
    rate_per_s: float = 0.0
    concurrency: int = 10
    timeout_ms: int = 15_000
    max_attempts: int = 16
    retry_initial_ms: int = 5_000
    retry_max_ms: int = 4 * HOUR_MS
    start: str = LATEST
    description: str = ""
    state: str = ENABLED
    reason: str = ""


def check_endpoint(settings: EndpointSettings) -> None:
    """Numbers, words and sizes. What a URL, a secret, a topic or a filter must look
    like, the API knows. Raises InvalidSettings."""
    text("url", settings.url, URL_CHARS_MAX)
    if not 1 <= len(settings.topics) <= TOPICS_MAX:
        raise InvalidSettings("topics", f"must be 1 to {TOPICS_MAX} names or patterns")
    for topic in settings.topics:
        word("topics", topic, TOPIC_CHARS_MAX)
    text("filter", settings.filter, FILTER_CHARS_MAX)
    one_of("mode", settings.mode, MODES)
    one_of("ordering", settings.ordering, (PARALLEL, PER_KEY))
    if len(settings.secrets) > SECRETS_MAX:
        raise InvalidSettings("secrets", f"must be at most {SECRETS_MAX}")
    for secret in settings.secrets:
        word("secrets", secret, SECRET_CHARS_MAX)
    if settings.rate_per_s:
        in_range("rate_per_s", settings.rate_per_s, RATE_MIN, RATE_MAX)
    in_range("concurrency", settings.concurrency, 1, CONCURRENCY_MAX)
    in_range("timeout_ms", settings.timeout_ms, TIMEOUT_MS_MIN, TIMEOUT_MS_MAX)
    in_range("retry/max_attempts", settings.max_attempts, 1, ATTEMPTS_MAX)
    first_ms, longest_ms = settings.retry_initial_ms, settings.retry_max_ms
    in_range("retry/initial_ms", first_ms, RETRY_MS_MIN, RETRY_MS_MAX)
    in_range("retry/max_ms", longest_ms, first_ms, RETRY_MS_MAX)
    one_of("start", settings.start, (LATEST, EARLIEST))
    one_of("state", settings.state, (ENABLED, PAUSED, DISABLED))
    text("description", settings.description, TEXT_CHARS_MAX)
    text("reason", settings.reason, TEXT_CHARS_MAX)
