"""Calls that the server makes, to addresses that you give it."""

from typing import Final

import msgspec

from halfpast_api.openapi import parameters, samples
from halfpast_api.openapi.operation import Parameter, Webhook
from halfpast_api.openapi.operations import endpoints, producer_groups
from halfpast_api.push.envelope import WebhookBody
from halfpast_api.transactions.bodies import CheckState
from halfpast_txn.check_call import CALL_TYPE, CallView

SIGNED: Final[tuple[Parameter, ...]] = (
    Parameter(
        "webhook-id",
        "header",
        "The same for every attempt of this call: by it you know repetitions.",
        {"type": "string"},
        f"{samples.TRANSACTION}.1",
        required=True,
    ),
    Parameter(
        "webhook-timestamp",
        "header",
        "When this attempt was made, in seconds since 1970.",
        {"type": "string", "pattern": "^[0-9]+$"},
        "1795168806",
        required=True,
    ),
    parameters.header(
        "webhook-signature",
        "`v1,` and a base64 HMAC-SHA256 of id, timestamp and body, for each live "
        "secret, with spaces between them (Standard Webhooks).",
        {"type": "string"},
        "v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4=",
    ),
)


class CheckReply(msgspec.Struct):
    """How the transaction ended; anything else than these words is `unknown`."""

    state: CheckState


CHECK_BACK: Final = Webhook(
    name="transaction.check",
    tag=producer_groups.TAG.name,
    summary="How did this transaction end?",
    text="Posted to the `check_url` of a producer group for each transaction without "
    "an outcome. Answer from your own database. An error, a redirect, a time-out or "
    "any other answer counts as `unknown`, and it is asked again.",
    body=CallView,
    headers=SIGNED,
    answer=CheckReply,
    example={
        "type": CALL_TYPE,
        "timestamp": "2026-11-20T10:00:06.007Z",
        "data": {
            "id": samples.TRANSACTION,
            "check": 1,
            "producer_group": "orders",
            "begun_at": "2026-11-20T10:00:00.007Z",
            "reference": "order 17",
            "message_count": 2,
            "messages": [
                {"id": samples.MESSAGE, "topic": "order-created", "key": "17"}
            ],
        },
    },
)

DELIVERY: Final = Webhook(
    name="event.delivered",
    tag=endpoints.TAG.name,
    summary="A message of an endpoint",
    text="Posted to the `url` of an endpoint for each message that it wants. Any 2xx "
    "takes it; `Retry-After` is honoured, 410 disables the endpoint, a redirect is a "
    "failure. The same message comes under the same `webhook-id`. In the modes "
    "`cloudevents-binary` and `cloudevents-structured` it is a CloudEvent instead.",
    body=WebhookBody,
    headers=SIGNED,
    example={
        "type": "reminders",
        "timestamp": "2026-11-20T10:00:05.123Z",
        "data": {"order": 17},
        "event": {
            "id": samples.EVENT,
            "topic": "reminders",
            "key": "customer-42",
            "tag": "paid",
            "properties": {"region": "eu"},
            "created_at": "2026-11-20T09:30:05.123Z",
            "stored_at": "2026-11-20T10:00:05.123Z",
            "deliver_at": "2026-11-20T10:00:05.123Z",
        },
    },
)
