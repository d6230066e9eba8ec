"""What requests say of endpoints, and what settings that makes."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal

import msgspec
from msgspec import UNSET, UnsetType

from halfpast_api.metadata.endpoint_settings import (
    TOPIC_CHARS_MAX,
    TOPICS_MAX,
    EndpointSettings,
    check_endpoint,
)
from halfpast_api.names import check_topic_to_read
from halfpast_api.problems import Refusal, refuse_field
from halfpast_api.push.event_match import EventFilter, render_filter
from halfpast_api.transactions.check_secrets import check_secrets
from halfpast_api.transactions.check_url import UrlUse, check_url
from halfpast_txn.address_rules import AllowList

PUSHES: Final = UrlUse(
    field="url",
    what="deliveries",
    advice="",
    secrets="secrets",
    option="push-allow",
    invalid="invalid_url",
    forbidden="forbidden_url",
)
_SECRETS_ADVICE: Final = "then an endpoint keeps those it has, or gets a new one"
_PATTERN: Final = re.compile(r"[A-Za-z0-9_*-]+")

Mode = Literal["webhook", "cloudevents-binary", "cloudevents-structured"]
Ordering = Literal["parallel", "per_key"]
Start = Literal["latest", "earliest"]


class RetryBody(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """When failed deliveries are tried again, and how often."""

    max_attempts: int | UnsetType = UNSET
    initial_ms: int | UnsetType = UNSET
    max_ms: int | UnsetType = UNSET


class EndpointBody(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Settings to give. What is left out gets its default, but for secrets and start;
    with PATCH it stays. A `filter` of null takes it away."""

    url: str | UnsetType = UNSET
    topics: list[str] | UnsetType = UNSET
    filter: EventFilter | UnsetType | None = UNSET
    mode: Mode | UnsetType = UNSET
    ordering: Ordering | UnsetType = UNSET
    secrets: list[str] | UnsetType = UNSET
    rate_per_s: float | UnsetType = UNSET
    concurrency: int | UnsetType = UNSET
    timeout_ms: int | UnsetType = UNSET
    retry: RetryBody | UnsetType = UNSET
    start: Start | UnsetType = UNSET
    description: str | UnsetType = UNSET


class ReasonBody(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Why; it is shown with the endpoint."""

    reason: str = ""


class RotateBody(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """`secret`: the new one, made here if it is left out. `finish`: from now on the
    newest alone signs."""

    secret: str | None = None
    finish: bool = False


class TestBody(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """What to send; left out, an event that says that it is a test."""

    __test__ = False  # it is no test

    topic: str | None = None
    data: msgspec.Raw | UnsetType = UNSET


_PLAIN: Final = (
    *("url", "mode", "ordering", "rate_per_s", "concurrency", "timeout_ms"),
    *("start", "description"),
)
_RETRY: Final = {
    "max_attempts": "max_attempts",
    "initial_ms": "retry_initial_ms",
    "max_ms": "retry_max_ms",
}


def settings_of(
    body: EndpointBody, base: EndpointSettings, allow: AllowList
) -> EndpointSettings:
    """`base`, with what the request gives. Raises Refusal, InvalidSettings."""
    new: dict[str, Any] = _given(body, {name: name for name in _PLAIN})
    if body.retry is not UNSET:
        new |= _given(body.retry, _RETRY)
    if body.topics is not UNSET:
        check_topics(body.topics)
        new["topics"] = tuple(dict.fromkeys(body.topics))
    if body.filter is not UNSET:
        new["filter"] = render_filter(body.filter)
    if body.secrets is not UNSET:
        check_secrets(body.secrets, "secrets", _SECRETS_ADVICE)
        new["secrets"] = tuple(body.secrets)
    settings = replace(base, **new)
    for name in ("url", "topics"):
        if not getattr(settings, name):
            detail = f"the field {name!r} is missing: say where to post, and what"
            raise refuse_field("missing_field", f"/{name}", detail)
    if body.url is not UNSET:
        check_url(settings.url, allow, PUSHES)
    check_endpoint(settings)
    return settings


def check_topics(topics: Sequence[str]) -> None:
    """Raise Refusal unless an endpoint may name these topics and patterns."""
    if not 1 <= len(topics) <= TOPICS_MAX:
        detail = f"give 1 to {TOPICS_MAX} names of topics, or patterns such as orders-*"
        raise refuse_field("invalid_settings", "/topics", detail)
    for index, topic in enumerate(topics):
        pointer = f"/topics/{index}"
        if "*" not in topic:
            try:
                check_topic_to_read(topic)
            except Refusal as refusal:
                raise refuse_field(refusal.code, pointer, refusal.detail) from None
        elif len(topic) > TOPIC_CHARS_MAX or not _PATTERN.fullmatch(topic):
            detail = "a pattern is made of A-Z a-z 0-9 _ - and *, such as orders-*"
            raise refuse_field("invalid_topic", pointer, detail)


def _given(body: msgspec.Struct, names: Mapping[str, str]) -> dict[str, Any]:
    return {
        field: value
        for name, field in names.items()
        if (value := getattr(body, name)) is not UNSET
    }
