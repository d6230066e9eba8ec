"""Limits as requests bring them and answers show them."""

import msgspec

from halfpast_api.limits.caller_limits import NAMES, CallerLimits
from halfpast_api.limits.limit_store import LimitEntry
from halfpast_api.times import render_instant


class LimitsBody(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Limits to give, all at once: what is left out, or null, is as for all of the
    kind. 0 is no limit."""

    requests_per_s: float | None = None
    request_burst: int | None = None
    bytes_per_s: float | None = None
    byte_burst: int | None = None
    max_pending: int | None = None
    max_delay_ms: int | None = None


class LimitsView(msgspec.Struct, kw_only=True):
    """The limits that a subject was given; null is as for all of its kind, 0 is no
    limit."""

    subject: str
    requests_per_s: float | None
    request_burst: int | None
    bytes_per_s: float | None
    byte_burst: int | None
    max_pending: int | None
    max_delay_ms: int | None
    version: int
    updated_at: str


class LimitsPageView(msgspec.Struct):
    """A page of subjects that have limits, by name."""

    limits: list[LimitsView]
    next_page_token: str | None


class DeletedLimitsView(msgspec.Struct):
    """It has no limits of its own any more."""

    subject: str
    outcome: str = "deleted"


class ShareView(msgspec.Struct, kw_only=True):
    """What holds for you as a key or user, or for your namespace, and what is left of
    it in the process that answers."""

    subject: str
    set_by: str
    requests_per_s: float | None
    request_burst: int | None
    requests_left: int | None
    bytes_per_s: float | None
    byte_burst: int | None
    bytes_left: int | None
    max_pending: int | None
    max_delay_ms: int | None


class ServerLimitsView(msgspec.Struct, kw_only=True):
    """What holds for everybody."""

    max_delay_ms: int
    event_bytes: int
    batch_bytes: int
    batch_events: int
    transaction_messages: int
    transaction_bytes: int
    key_bytes: int
    topic_characters: int
    pop_wait_ms: int


class OwnLimitsView(msgspec.Struct, kw_only=True):
    """Your limits and what is used of them. `pending`: events that wait in your
    namespace, to within a second; null if that cannot be told now."""

    limits: list[ShareView]
    pending: int | None
    server: ServerLimitsView


def limits_of(body: LimitsBody) -> CallerLimits:
    """What the body gives."""
    return CallerLimits(**{name: getattr(body, name) for name in NAMES})


def view_limits(entry: LimitEntry) -> LimitsView:
    """As it is shown."""
    return LimitsView(
        subject=entry.subject,
        version=entry.version,
        updated_at=render_instant(entry.updated_at_ms),
        **{name: getattr(entry.limits, name) for name in NAMES},
    )
