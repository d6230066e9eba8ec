"""The message of a schedule, from a request to a record."""

import zlib

import msgspec
from msgspec import UNSET

from halfpast_api.delay.schedule_bodies import MessageFields
from halfpast_api.payload import (
    data_bytes,
    event_too_large,
    properties_bytes,
    tag_bytes,
    too_long,
)
from halfpast_api.problems import refuse_field
from halfpast_api.reading import Format
from halfpast_api.topic_directory import Topic
from halfpast_core_store.record import (
    KEY_SIZE_MAX,
    PROPERTIES_SIZE_MAX,
    Record,
    RecordFlag,
    RecordKind,
    encode_record,
)

OWN_PROPERTIES = ("schedule_id", "schedule_occurrence", "schedule_time_ms")
OWN_SIZE = 256  # that these take in each message, at most
_properties = msgspec.msgpack.Decoder(dict[str, str])


def changes_message(body: MessageFields) -> bool:
    """Whether a request says anything of the message."""
    given = (body.data, body.data_base64, body.key, body.tag, body.properties)
    return any(it is not UNSET for it in given)


def encode_message(
    body: MessageFields,
    before: Record | None,
    topic: Topic,
    schedule_id: bytes,
    born_ms: int,
    form: Format,
) -> bytes:
    """The record of the message, new or changed. Raises Refusal."""
    key, queue = b"", topic.next_queue()
    tag, properties, data, flags = b"", b"", b"", 0
    if before is not None:
        key, queue, tag = before.key, before.queue_id, before.tag
        properties, data = before.properties, before.body
        flags = before.flags & RecordFlag.JSON
    if before is None or body.data is not UNSET or body.data_base64 is not UNSET:
        base64 = None if body.data_base64 is UNSET else body.data_base64
        data, flags = data_bytes(body.data, base64, form)
    if len(data) > topic.max_body_bytes:
        raise event_too_large(len(data), topic.max_body_bytes)
    if body.key is not UNSET:
        key = (body.key or "").encode()
        if len(key) > KEY_SIZE_MAX:
            raise too_long("key", len(key), KEY_SIZE_MAX)
        queue = zlib.crc32(key) % topic.queue_count if key else topic.next_queue()
    if body.tag is not UNSET:
        tag = tag_bytes(body.tag) if body.tag else b""
    if body.properties is not UNSET:
        properties = properties_bytes(body.properties, form)
        _check_properties(properties)
    return encode_record(
        RecordKind.NORMAL,
        topic_id=topic.id,
        queue_id=queue,
        event_id=schedule_id,
        born_ms=born_ms,
        key=key,
        tag=tag,
        properties=properties,
        body=data,
        flags=flags,
    )


def _check_properties(packed: bytes) -> None:
    """Each message gets some of ours beside these."""
    if len(packed) > PROPERTIES_SIZE_MAX - OWN_SIZE:
        limit = PROPERTIES_SIZE_MAX - OWN_SIZE
        raise too_long("properties", len(packed), limit, "invalid_properties")
    given = _properties.decode(packed) if packed else {}
    for name in OWN_PROPERTIES:
        if name in given:
            raise refuse_field(
                "invalid_properties",
                f"/properties/{name}",
                "each message of a schedule gets this one from the server; use "
                "another name",
            )
