"""A message as a producer sends it, read and checked before anything is stored.

Bodies are stored as they are meant, not as they travel: a compressed one is unpacked,
so that consumers over HTTP and webhooks can read it. One that is an object or a list in
JSON is stored as JSON, and HTTP shows it as `data`; all others are bytes.
"""

import hashlib
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from halfpast_api.payload import event_too_large, tag_bytes, too_long
from halfpast_api.problems import Refusal, refuse_field
from halfpast_api.rocketmq import marks
from halfpast_api.rocketmq.protocol import (
    Code,
    DigestType,
    Encoding,
    Message,
    MessageType,
    SystemProperties,
)
from halfpast_api.rocketmq.statuses import CallRefused
from halfpast_api.strictness import check_depth, check_utf8
from halfpast_api.topic_directory import Topic
from halfpast_api.tracing.request_trace import REQUEST_TRACE, with_trace
from halfpast_core_store.record import (
    KEY_SIZE_MAX,
    PROPERTIES_SIZE_MAX,
    RecordFlag,
)

_ID_CHARS_MAX: Final = 255
_DEPTH_MAX: Final = 128
_JSON_BEGINS: Final = (b"{", b"[")
_YEAR_10000_S: Final = 253_402_300_800
# An enum's values are looked up by name each time, and these are for every message.
_UNSPECIFIED: Final = MessageType.MESSAGE_TYPE_UNSPECIFIED
_NORMAL, _FIFO = MessageType.NORMAL, MessageType.FIFO
_DELAY, _TRANSACTION = MessageType.DELAY, MessageType.TRANSACTION
_TYPES: Final = frozenset((_NORMAL, _FIFO, _DELAY, _TRANSACTION))
_PACKED: Final = Encoding.GZIP
_DIGESTS: Final = {DigestType.MD5: "md5", DigestType.SHA1: "sha1"}
_GZIP: Final = 16 + zlib.MAX_WBITS
_pack: Final = msgspec.msgpack.Encoder().encode
_skip_json: Final = msgspec.json.Decoder(msgspec.Raw).decode


@dataclass(slots=True)
class Incoming:
    """A message that may be stored. `due_ms` is 0 for one that is delivered at once."""

    topic: Topic
    message_id: str
    kind: "MessageType"
    key: bytes
    tag: bytes
    properties: dict[str, str]
    body: bytes
    flags: int
    due_ms: int
    check_after_ms: int | None

    def queue(self, free: int) -> int:
        """The queue that it goes to; `free` if it has no key, which would tell."""
        return zlib.crc32(self.key) % self.topic.queue_count if self.key else free

    def packed_properties(self) -> bytes:
        """For the record. Raises Refusal."""
        packed = _pack(self.properties)
        if trace := REQUEST_TRACE.get():
            packed = with_trace(packed, trace)
        if len(packed) > PROPERTIES_SIZE_MAX:
            raise too_long(
                "properties", len(packed), PROPERTIES_SIZE_MAX, "invalid_properties"
            )
        return packed


def read_message(message: Message, topic: Topic, now_ms: int) -> Incoming:
    """Raises CallRefused, Refusal. `now_ms` is when it is accepted, rounded up."""
    system = message.system_properties
    kind = _kind(system)
    properties = _user_properties(message)
    properties[marks.MESSAGE_ID] = _message_id(system)
    key = _key(system, properties)
    for name, value in (
        (marks.BORN_HOST, system.born_host),
        (marks.TRACE_CONTEXT, system.trace_context),
    ):
        if value:
            properties[name] = value
    body, flags = _body(message, topic.max_body_bytes)
    due_ms = 0
    if system.HasField("delivery_timestamp"):
        due_ms = _due_ms(system, now_ms, topic.max_delay_ms)
    return Incoming(
        topic=topic,
        message_id=system.message_id,
        kind=kind,
        key=key,
        tag=tag_bytes(system.tag),
        properties=properties,
        body=body,
        flags=flags,
        due_ms=due_ms,
        check_after_ms=_check_after_ms(system),
    )


def _kind(system: SystemProperties) -> "MessageType":
    kind = system.message_type
    if kind == _UNSPECIFIED:
        if system.HasField("delivery_timestamp"):
            return _DELAY
        return _FIFO if system.message_group else _NORMAL
    if kind not in _TYPES:
        raise CallRefused(
            Code.UNSUPPORTED,
            "lite and priority messages are not known here; send a normal, FIFO, delay "
            "or transaction message",
        )
    missing = ""
    if kind == _FIFO and not system.message_group:
        missing = "FIFO message has no message group"
    elif kind == _DELAY and not system.HasField("delivery_timestamp"):
        missing = "delay message has no delivery timestamp"
    if missing:
        raise CallRefused(
            Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE,
            f"the {missing}; give one, or send it as a normal message",
        )
    return kind


def _message_id(system: SystemProperties) -> str:
    message_id = system.message_id
    if not message_id or len(message_id) > _ID_CHARS_MAX:
        raise CallRefused(
            Code.ILLEGAL_MESSAGE_ID,
            f"a message needs an id of 1 to {_ID_CHARS_MAX} characters, by which a "
            "repetition is recognised",
        )
    return message_id


def _user_properties(message: Message) -> dict[str, str]:
    properties = dict(message.user_properties)
    if reserved := marks.RESERVED & properties.keys():
        raise CallRefused(
            Code.ILLEGAL_MESSAGE_PROPERTY_KEY,
            f"the property {min(reserved)!r} is kept by RocketMQ itself; use another "
            "name",
        )
    return properties


def _key(system: SystemProperties, properties: dict[str, str]) -> bytes:
    """The record's key, by which groups that want it take messages in order: the
    message group, or else the first of the keys."""
    keys: Sequence[str] = system.keys
    group = system.message_group
    if group:
        key = group.encode()
        if len(key) > KEY_SIZE_MAX:
            raise CallRefused(
                Code.ILLEGAL_MESSAGE_GROUP,
                f"the message group takes {len(key)} bytes, the limit is "
                f"{KEY_SIZE_MAX}; shorten it",
            )
        properties[marks.MESSAGE_GROUP] = group
    else:
        key = keys[0].encode() if keys else b""
        if len(key) > KEY_SIZE_MAX:
            key = b""
    if keys and (len(keys) > 1 or keys[0].encode() != key):
        properties[marks.KEYS] = " ".join(keys)
    return key


def _body(message: Message, size_max: int) -> tuple[bytes, int]:
    body = message.body
    system = message.system_properties
    algorithm = _DIGESTS.get(system.body_digest.type)
    if algorithm is not None:  # of CRC32 clients have two forms, so it tells nothing
        digest = hashlib.new(algorithm, body, usedforsecurity=False).hexdigest()
        if digest != system.body_digest.checksum.lower():
            raise CallRefused(
                Code.MESSAGE_CORRUPTED,
                "the body is not what its digest says; send the message again",
            )
    if system.body_encoding == _PACKED:
        body = _unpacked(body, size_max)
    if len(body) > size_max:
        raise event_too_large(len(body), size_max)
    return body, RecordFlag.JSON if _is_json(body) else 0


def _unpacked(body: bytes, size_max: int) -> bytes:
    """Never more than one byte too many, whatever it claims to be."""
    unpacker = zlib.decompressobj(_GZIP)
    try:
        unpacked = unpacker.decompress(body, size_max + 1)
        if len(unpacked) > size_max:
            raise event_too_large(len(unpacked), size_max)
        if not unpacker.eof or unpacker.unused_data:
            raise zlib.error("it ends too early, or something follows")
    except zlib.error as error:
        raise CallRefused(
            Code.MESSAGE_CORRUPTED,
            f"the body is said to be compressed by gzip, and is not: {error}",
        ) from None
    return unpacked


def _is_json(body: bytes) -> bool:
    if not body.startswith(_JSON_BEGINS):
        return False
    try:
        check_utf8(body)
        _skip_json(body)
        check_depth(body, _DEPTH_MAX)
    except (msgspec.DecodeError, RecursionError, Refusal):
        return False
    return True


def _due_ms(system: SystemProperties, now_ms: int, max_delay_ms: int) -> int:
    """Epoch ms, rounded up. What is past is due at once."""
    at = system.delivery_timestamp
    if at.seconds >= _YEAR_10000_S:
        # The Python client puts what its callers give into `seconds`, and its manual
        # has them give milliseconds. No Timestamp reaches so far, so that is meant.
        due_ms = at.seconds
    else:
        due_ms = at.seconds * 1000 - (-at.nanos // 1_000_000)
    due_ms = max(due_ms, now_ms)
    if due_ms - now_ms > max_delay_ms:
        raise refuse_field(
            "delay_too_long",
            "/delivery_timestamp",
            f"this is {(due_ms - now_ms) / 86_400_000:.6g} days ahead, and the topic's "
            f"max_delay_ms is {max_delay_ms}; give a nearer time, or raise the limit "
            "in the settings of the topic",
        )
    return due_ms


def _check_after_ms(system: SystemProperties) -> int | None:
    if not system.HasField("orphaned_transaction_recovery_duration"):
        return None
    wait = system.orphaned_transaction_recovery_duration
    return max(0, wait.seconds * 1000 + wait.nanos // 1_000_000)
