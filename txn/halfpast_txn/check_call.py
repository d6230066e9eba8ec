"""The question of a check-back as JSON, and what goes with it.

    {"type": "transaction.check", "timestamp": "2026-11-20T10:00:06.000Z",
     "data": {"id": …, "check": 1, "producer_group": …, "begun_at": …,
              "reference": …, "message_count": 2,
              "messages": [{"id": …, "topic": …, "key": …, "tag": …}, …]}}

`webhook-id` is the same for repeated attempts of one check, and differs between the
checks of a transaction.
"""

from datetime import UTC, datetime, timedelta

import msgspec

from .producer_group import CheckEndpoint
from .signature import signed_headers
from .status import transaction_text
from .transactions import Check

CALL_TYPE = "transaction.check"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_encode = msgspec.json.Encoder().encode


class CheckMessageView(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A message of the transaction. An empty key or tag is left out."""

    id: str
    topic: str
    key: str = ""
    tag: str = ""


class CheckView(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One question: how did this transaction end? `check` is its number (1, 2, …).

    `messages` may be the first few only. An empty reference is left out.
    """

    id: str
    check: int
    producer_group: str
    begun_at: str
    reference: str = ""
    message_count: int
    messages: list[CheckMessageView]


class CallView(msgspec.Struct, kw_only=True):
    """The body of a call."""

    type: str
    timestamp: str
    data: CheckView


def check_view(check: Check) -> CheckView:
    """The question as producers see it, called or polling."""
    return CheckView(
        id=transaction_text(check.transaction_id),
        check=check.check,
        producer_group=check.group,
        begun_at=_time_text(check.begun_ms),
        reference=check.reference,
        message_count=check.message_count,
        messages=[
            CheckMessageView(
                id=transaction_text(message.event_id),
                topic=message.topic,
                key=message.key,
                tag=message.tag,
            )
            for message in check.messages
        ],
    )


def call_body(check: Check, now_ms: int) -> bytes:
    """What is posted to an endpoint at `now_ms`."""
    return _encode(
        CallView(type=CALL_TYPE, timestamp=_time_text(now_ms), data=check_view(check))
    )


def call_headers(
    endpoint: CheckEndpoint, check: Check, now_ms: int, body: bytes
) -> dict[str, str]:
    """What goes with it, signed. Raises ValueError if a secret of the endpoint is
    none."""
    message_id = f"{transaction_text(check.transaction_id)}.{check.check}"
    return {
        "Content-Type": "application/json",
        "Accept": "application/json",
        "Accept-Encoding": "identity",
        "User-Agent": "Halfpast",
        **signed_headers(endpoint.secrets, message_id, now_ms // 1000, body),
    }


def _time_text(ms: int) -> str:
    """RFC 3339 in UTC, with milliseconds."""
    moment = _EPOCH + timedelta(milliseconds=ms)
    return moment.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"
