"""Endpoints and attempts as the API shows them, as far as pages need it."""

from typing import Any

import msgspec


class Now(msgspec.Struct):
    """How it goes, as the push process knows it since it began."""

    circuit: str = "closed"
    held_back_until: str | None = None
    in_flight: int = 0
    waiting: int = 0
    delivered: int = 0
    failed: int = 0
    last_delivered_at: str | None = None
    last_failed_at: str | None = None
    last_error: str = ""


class Retry(msgspec.Struct):
    """How often a delivery is tried, and with which pauses."""

    max_attempts: int = 16
    initial_ms: int = 5_000
    max_ms: int = 14_400_000


class Filter(msgspec.Struct):
    """Which messages are wanted."""

    tags: list[str] = []
    properties: dict[str, list[str]] = {}


class Endpoint(msgspec.Struct, kw_only=True):
    """`secrets` counts them, and is the secrets themselves where one was just made."""

    name: str
    url: str
    topics: list[str] = []
    filter: Filter | None = None
    mode: str = "webhook"
    ordering: str = "parallel"
    secrets: int | list[str] = 0
    rate_per_s: float = 0
    concurrency: int = 10
    timeout_ms: int = 15_000
    retry: Retry = msgspec.field(default_factory=Retry)
    start: str = "latest"
    description: str = ""
    state: str = "enabled"
    reason: str = ""
    group: str = ""
    version: int = 0
    created_at: str | None = None
    updated_at: str | None = None
    now: Now | None = None


class EndpointPage(msgspec.Struct):
    endpoints: list[Endpoint]
    next_page_token: str | None = None


class Attempt(msgspec.Struct, kw_only=True):
    """One call that was made. `response`: how its answer began."""

    id: str
    kind: str = "delivery"
    state: str
    event_id: str | None = None
    topic: str | None = None
    attempt: int | None = None
    at: str
    duration_ms: int | None = None
    result: str = ""
    status: int | None = None
    error: str | None = None
    response: str | None = None
    next_attempt_at: str | None = None


class AttemptPage(msgspec.Struct):
    attempts: list[Attempt]
    next_page_token: str | None = None


class TestResult(msgspec.Struct, kw_only=True):
    """What came of a message that was sent to try it out."""

    __test__ = False  # of pytest

    delivered: bool
    result: str = ""
    status: int | None = None
    error: str | None = None
    response: str | None = None
    duration_ms: int | None = None
    request: dict[str, Any] = {}


class NewSecret(msgspec.Struct):
    """The answer to a rotation."""

    secrets: int
    secret: str | None = None
