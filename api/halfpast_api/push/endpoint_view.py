"""Endpoints as the API shows them, and how they stand now."""

from typing import Final

import msgspec

from halfpast_api.metadata.endpoint_settings import EndpointSettings
from halfpast_api.metadata.entry import Entry
from halfpast_api.push.endpoint_name import GROUP_PREFIX
from halfpast_api.push.event_match import FilterView, view_filter
from halfpast_api.push.push_server import EndpointNow
from halfpast_api.times import render_instant

RECENT_MS: Final = 100
"""Waits shorter than this are not worth telling."""


class RetryView(msgspec.Struct):
    """When failed deliveries are tried again, and how often."""

    max_attempts: int
    initial_ms: int
    max_ms: int


class NowView(msgspec.Struct, kw_only=True):
    """How an endpoint stands, as counted since the push process knows it."""

    circuit: str
    held_back_until: str | None
    in_flight: int
    waiting: int
    delivered: int
    failed: int
    last_delivered_at: str | None
    last_failed_at: str | None
    last_error: str


class EndpointView(msgspec.Struct, kw_only=True):
    """An endpoint. `secrets` counts them, and is the list itself in the one answer to
    the request that had one made."""

    name: str
    url: str
    topics: list[str]
    filter: FilterView | None
    mode: str
    ordering: str
    secrets: int | list[str]
    rate_per_s: float
    concurrency: int
    timeout_ms: int
    retry: RetryView
    start: str
    description: str
    state: str
    reason: str
    group: str
    version: int
    created_at: str
    updated_at: str
    now: NowView | None


class EndpointListView(msgspec.Struct):
    """A page of endpoints, in the order of their names."""

    endpoints: list[EndpointView]
    next_page_token: str | None


class DeletedEndpointView(msgspec.Struct):
    """Nothing is delivered there any more."""

    name: str
    outcome: str = "deleted"


class RotatedView(msgspec.Struct):
    """`secret` is shown this once; null if a rotation was finished. So many sign."""

    name: str
    secret: str | None
    secrets: int
    version: int


class SentView(msgspec.Struct):
    """What was posted; `body` as text."""

    url: str
    headers: dict[str, str]
    body: str


class TestView(msgspec.Struct, kw_only=True):
    """What came of a test. `status` is null where there was no answer."""

    __test__ = False  # it is no test

    name: str
    delivered: bool
    result: str
    status: int | None
    error: str
    response: str
    duration_ms: int
    event_id: str
    request: SentView


def view_endpoint(
    entry: Entry[EndpointSettings], now: EndpointNow | None = None
) -> EndpointView:
    """One endpoint."""
    settings = entry.settings
    return EndpointView(
        name=entry.name,
        url=settings.url,
        topics=list(settings.topics),
        filter=view_filter(settings.filter),
        mode=settings.mode,
        ordering=settings.ordering,
        secrets=len(settings.secrets),
        rate_per_s=settings.rate_per_s,
        concurrency=settings.concurrency,
        timeout_ms=settings.timeout_ms,
        retry=RetryView(
            settings.max_attempts, settings.retry_initial_ms, settings.retry_max_ms
        ),
        start=settings.start,
        description=settings.description,
        state=settings.state,
        reason=settings.reason,
        group=GROUP_PREFIX + entry.name,
        version=entry.version,
        created_at=render_instant(entry.created_at_ms),
        updated_at=render_instant(entry.updated_at_ms),
        now=_view_now(now) if now is not None and now.is_known else None,
    )


def _view_now(now: EndpointNow) -> NowView:
    until = None
    if now.back_ms > RECENT_MS:
        until = render_instant(now.back_until_ms)
    return NowView(
        circuit=now.circuit,
        held_back_until=until,
        in_flight=now.in_flight,
        waiting=now.waiting,
        delivered=now.delivered,
        failed=now.failed,
        last_delivered_at=_instant(now.last_delivered_ms),
        last_failed_at=_instant(now.last_failed_ms),
        last_error=now.last_error,
    )


def _instant(ms: int) -> str | None:
    return render_instant(ms) if ms else None
