"""A record as consumers receive it, and as producers are asked about it."""

import gzip
import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from halfpast_api.event_id import id_text
from halfpast_api.message_view import render_receipt
from halfpast_api.rocketmq import marks
from halfpast_api.rocketmq.protocol import (
    DeadLetterQueue,
    Digest,
    DigestType,
    Encoding,
    Message,
    MessageType,
    Resource,
    SystemProperties,
)
from halfpast_core_store.broker import Delivered
from halfpast_core_store.record import Record, RecordFlag, decode_record

if TYPE_CHECKING:
    from google.protobuf.timestamp_pb2 import Timestamp

_BROKER_NAME: Final = "halfpast"
_PLAIN_MAX: Final = 4 * 1024 * 1024 - 4 * 1024
_properties: Final = msgspec.msgpack.Decoder(dict[str, str])
_NOTHING: Final[Mapping[str, str]] = {}


def received_message(
    one: Delivered, namespace: str, topic: str, invisible_ms: int
) -> Message:
    """One message on its way to a consumer."""
    record = decode_record(one.record)
    message = sent_message(record, namespace, topic)
    system = message.system_properties
    system.receipt_handle = render_receipt(one.receipt)
    system.delivery_attempt = one.attempt
    system.queue_offset = one.offset
    system.invisible_duration.seconds = invisible_ms // 1000
    system.invisible_duration.nanos = invisible_ms % 1000 * 1_000_000
    _set_time(system.store_timestamp, one.stored_ms)
    return message


def sent_message(record: Record, namespace: str, topic: str) -> Message:
    """A message as it was published, by whatever way.

    Every field is set without which some client fails: the digest, the encoding, when
    and where it was born.
    """
    stored = _properties.decode(record.properties) if record.properties else _NOTHING
    body, encoding = _body(record.body)
    system = SystemProperties(
        message_id=stored.get(marks.MESSAGE_ID) or id_text(record.event_id),
        keys=_keys(record, stored),
        message_type=_type(record, stored),
        # Of the digests only MD5 and SHA-1 are read alike by all clients, and only in
        # capitals; without one the Node client throws.
        body_digest=Digest(
            type=DigestType.SHA1,
            checksum=hashlib.sha1(body, usedforsecurity=False).hexdigest().upper(),
        ),
        body_encoding=encoding,
        born_host=stored.get(marks.BORN_HOST, _BROKER_NAME),
        store_host=_BROKER_NAME,
    )
    _set_time(system.born_timestamp, record.born_ms)
    if record.tag:
        system.tag = record.tag.decode(errors="replace")
    if group := stored.get(marks.MESSAGE_GROUP):
        system.message_group = group
    if context := stored.get(marks.TRACE_CONTEXT):
        system.trace_context = context
    if record.due_ms and not record.flags & RecordFlag.AFTER_COMMIT:
        _set_time(system.delivery_timestamp, record.due_ms)
    if record.flags & RecordFlag.DEAD_LETTER:
        system.dead_letter_queue.CopyFrom(
            DeadLetterQueue(
                topic=stored.get("dead_letter_topic", ""), message_id=system.message_id
            )
        )
    return Message(
        topic=Resource(resource_namespace=namespace, name=topic),
        user_properties={
            name: value
            for name, value in stored.items()
            if name not in marks.OURS or name in marks.SHOWN
        },
        system_properties=system,
        body=body,
    )


def _body(body: bytes) -> "tuple[bytes, Encoding]":
    """The body as it travels. Clients in Node receive less than 4 MiB at a time, and
    HTTP takes bodies of so much: those are packed, where that makes them smaller."""
    if len(body) > _PLAIN_MAX:
        packed = gzip.compress(body, compresslevel=1, mtime=0)
        if len(packed) < len(body):
            return packed, Encoding.GZIP
    return body, Encoding.IDENTITY


def _keys(record: Record, stored: Mapping[str, str]) -> list[str]:
    if text := stored.get(marks.KEYS):
        return text.split(" ")
    if record.key and marks.MESSAGE_GROUP not in stored:
        return [record.key.decode(errors="replace")]
    return []


def _type(record: Record, stored: Mapping[str, str]) -> "MessageType":
    if marks.TRANSACTION_ID in stored:
        return MessageType.TRANSACTION
    if marks.MESSAGE_GROUP in stored:
        return MessageType.FIFO
    return MessageType.DELAY if record.due_ms else MessageType.NORMAL


def _set_time(field: "Timestamp", ms: int) -> None:
    field.seconds, field.nanos = ms // 1000, ms % 1000 * 1_000_000
