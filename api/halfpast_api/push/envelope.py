"""A message as it is posted: Standard Webhooks, or CloudEvents 1.0.

    webhook                 {"type": topic, "timestamp": …, "data": …, "event": {…}}
    cloudevents-binary      the data as the body, all else in `ce-…` headers
    cloudevents-structured  one JSON object, application/cloudevents+json

The body of a message is the same at each attempt. All three are signed.
"""

import re
from base64 import b64encode
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote

import msgspec
from msgspec import UNSET, Raw, UnsetType

from halfpast_api.access.namespaced_names import names_in
from halfpast_api.event_id import id_text
from halfpast_api.metadata.endpoint_settings import BINARY, STRUCTURED
from halfpast_api.push.endpoint_name import split_stored
from halfpast_api.times import render_instant
from halfpast_core_store.record import Record, RecordFlag
from halfpast_txn.signature import signed_headers

JSON_TYPE: Final = "application/json"
BYTES_TYPE: Final = "application/octet-stream"
STRUCTURED_TYPE: Final = "application/cloudevents+json; charset=utf-8"
USER_AGENT: Final = "Halfpast"
TYPE_PROPERTY: Final = "type"
_ATTRIBUTE: Final = re.compile(r"[a-z0-9]{1,20}")
_TAKEN: Final = frozenset(
    (
        *("id", "source", "specversion", "type", "datacontenttype", "dataschema"),
        *("subject", "time", "data", "data_base64", "partitionkey", "tag"),
    )
)
_HEADER_SAFE: Final = "!#$&'()*+,-./:;<=>?@[\\]^_`{|}~"
_encode: Final = msgspec.json.Encoder().encode


class EventInfo(msgspec.Struct, kw_only=True):
    """What is known of an event beside its data."""

    id: str
    topic: str
    key: str | None
    tag: str | None
    properties: dict[str, str]
    created_at: str
    stored_at: str
    deliver_at: str | None


class WebhookBody(msgspec.Struct, kw_only=True):
    """What is posted in the mode `webhook`. `type` is the topic, `timestamp` when the
    event was stored there. `data_base64` takes the place of data that is no JSON."""

    type: str
    timestamp: str
    data: Raw | UnsetType = UNSET
    data_base64: str | UnsetType = UNSET
    event: EventInfo


class Message(msgspec.Struct, kw_only=True):
    """What is to be posted; `stored_ms` is when the topic got it. The topic is by its
    name in the store, and shown as its namespace knows it."""

    namespace: str
    topic: str
    stored_ms: int
    record: Record
    properties: dict[str, str]

    @property
    def event_id(self) -> str:
        return id_text(self.record.event_id)


def webhook_id(message: Message, endpoint: str) -> str:
    """The same at each attempt, and another for each endpoint."""
    return f"{message.event_id}_{split_stored(endpoint)[1]}"


def signed(
    secrets: tuple[str, ...],
    identity: str,
    now_ms: int,
    body: bytes,
    headers: Mapping[str, str],
) -> dict[str, str]:
    """All headers of one attempt. Raises ValueError if a secret is none."""
    return {
        **headers,
        "User-Agent": USER_AGENT,
        "Accept-Encoding": "identity",
        **signed_headers(secrets, identity, now_ms // 1000, body),
    }


def render(message: Message, mode: str) -> tuple[bytes, dict[str, str]]:
    """Body and headers, before they are signed."""
    if mode == BINARY:
        return _binary(message)
    if mode == STRUCTURED:
        return _structured(message)
    record = message.record
    stored_at = render_instant(message.stored_ms)
    topic = shown_topic(message)
    body = WebhookBody(
        type=topic,
        timestamp=stored_at,
        event=EventInfo(
            id=message.event_id,
            topic=topic,
            key=_text(record.key),
            tag=_text(record.tag),
            properties=message.properties,
            created_at=render_instant(record.born_ms),
            stored_at=stored_at,
            deliver_at=render_instant(record.due_ms) if record.due_ms else None,
        ),
    )
    if record.flags & RecordFlag.JSON:
        body.data = Raw(record.body)
    else:
        body.data_base64 = b64encode(record.body).decode()
    return _encode(body), {"Content-Type": JSON_TYPE}


def shown_topic(message: Message) -> str:
    """The topic as its namespace knows it."""
    return names_in(message.namespace).outside(message.topic) or message.topic


def _attributes(message: Message) -> dict[str, str]:
    """The attributes of a CloudEvent. Properties of the event become extensions where
    their names allow that; `type` is one of them, or the topic."""
    record, topic = message.record, shown_topic(message)
    attributes = {
        "specversion": "1.0",
        "id": message.event_id,
        "source": f"/topics/{quote(topic)}",
        "type": message.properties.get(TYPE_PROPERTY) or topic,
        "time": render_instant(message.stored_ms),
    }
    if record.key:
        attributes["subject"] = attributes["partitionkey"] = record.key.decode(
            errors="replace"
        )
    if record.tag:
        attributes["tag"] = record.tag.decode(errors="replace")
    for name, value in message.properties.items():
        if name not in _TAKEN and _ATTRIBUTE.fullmatch(name):
            attributes[name] = value
    return attributes


def _binary(message: Message) -> tuple[bytes, dict[str, str]]:
    is_json = message.record.flags & RecordFlag.JSON
    headers = {"Content-Type": JSON_TYPE if is_json else BYTES_TYPE}
    for name, value in _attributes(message).items():
        headers[f"ce-{name}"] = quote(value, safe=_HEADER_SAFE, errors="replace")
    return message.record.body, headers


def _structured(message: Message) -> tuple[bytes, dict[str, str]]:
    event: dict[str, object] = dict(_attributes(message))
    if message.record.flags & RecordFlag.JSON:
        event["datacontenttype"] = JSON_TYPE
        event["data"] = Raw(message.record.body)
    else:
        event["datacontenttype"] = BYTES_TYPE
        event["data_base64"] = b64encode(message.record.body).decode()
    return _encode(event), {"Content-Type": STRUCTURED_TYPE}


def _text(data: bytes) -> str | None:
    return data.decode(errors="replace") if data else None
