"""Messages as producers send them: what is stored of them, and what is refused."""

import gzip
import hashlib
import zlib
from typing import Any

import pytest

from halfpast_api.problems import Refusal
from halfpast_api.rocketmq import marks
from halfpast_api.rocketmq import protocol as wire
from halfpast_api.rocketmq.message_in import Incoming, read_message
from halfpast_api.rocketmq.message_out import sent_message
from halfpast_api.rocketmq.statuses import CallRefused, code_of
from halfpast_api.topic_directory import Topic
from halfpast_core_store.record import (
    RecordFlag,
    RecordKind,
    decode_record,
    encode_record,
)

NOW_MS = 1_760_000_000_000
TOPIC = Topic(
    name="t",
    id=1024,
    queue_count=4,
    max_delay_ms=1_000_000,
    max_body_bytes=1000,
    is_durable=True,
    stale_at_s=0.0,
)
NORMAL, FIFO = wire.MessageType.NORMAL, wire.MessageType.FIFO
DELAY, TRANSACTION = wire.MessageType.DELAY, wire.MessageType.TRANSACTION


def message(body: bytes = b"x", **system: Any) -> wire.Message:
    given: dict[str, Any] = {"message_id": "01AB", "message_type": NORMAL, **system}
    return wire.Message(system_properties=wire.SystemProperties(**given), body=body)


def due(seconds: int, nanos: int = 0, **system: Any) -> wire.Message:
    sent = message(message_type=DELAY, **system)
    sent.system_properties.delivery_timestamp.seconds = seconds
    sent.system_properties.delivery_timestamp.nanos = nanos
    return sent


def read(sent: wire.Message) -> Incoming:
    return read_message(sent, TOPIC, NOW_MS)


def refused(sent: wire.Message) -> wire.Code:
    with pytest.raises((CallRefused, Refusal)) as raised:
        read(sent).packed_properties()
    error = raised.value
    if isinstance(error, CallRefused):
        return error.code
    assert isinstance(error, Refusal)
    return code_of(error)


def round_trip(sent: wire.Message) -> wire.Message:
    """As a consumer sees it."""
    draft = read(sent)
    record = encode_record(
        RecordKind.NORMAL,
        topic_id=TOPIC.id,
        event_id=bytes(16),
        born_ms=NOW_MS,
        due_ms=draft.due_ms,
        key=draft.key,
        tag=draft.tag,
        properties=draft.packed_properties(),
        body=draft.body,
        flags=draft.flags,
    )
    return sent_message(decode_record(record), "", "t")


@pytest.mark.parametrize(
    ("keys", "group", "key"),
    [
        ([], "", b""),
        (["a"], "", b"a"),
        (["a", "b"], "", b"a"),
        (["a"], "g", b"g"),
        (["k" * 600], "", b""),
    ],
)
def test_keys_and_group_come_back(keys: list[str], group: str, key: bytes) -> None:
    kind = FIFO if group else NORMAL
    sent = message(keys=keys, message_type=kind)
    if group:
        sent.system_properties.message_group = group
    assert read(sent).key == key
    system = round_trip(sent).system_properties
    assert list(system.keys) == keys
    assert system.message_group == group
    assert system.message_type == kind


def test_messages_of_a_group_share_a_queue() -> None:
    sent = message(message_type=FIFO, message_group="g")
    assert read(sent).queue(free=9) == zlib.crc32(b"g") % TOPIC.queue_count
    assert read(message()).queue(free=9) == 9


@pytest.mark.parametrize(
    ("body", "is_json"),
    [
        (b'{"a": 1}', True),
        (b"[]", True),
        (b"17", False),
        (b'"text"', False),
        (b"{not json}", False),
        (b'{"a": "\xff"}', False),
        (b"[" * 500 + b"]" * 500, False),
        (b"", False),
    ],
)
def test_objects_and_lists_are_stored_as_json(body: bytes, is_json: bool) -> None:
    draft = read(message(body))
    assert draft.body == body
    assert bool(draft.flags & RecordFlag.JSON) is is_json


@pytest.mark.parametrize(
    ("seconds", "nanos", "due_ms"),
    [
        (NOW_MS // 1000 + 5, 0, NOW_MS + 5000),
        (NOW_MS // 1000 + 5, 1, NOW_MS + 5001),  # never too early
        (NOW_MS // 1000 + 5, 7_000_000, NOW_MS + 5007),
        (NOW_MS // 1000 - 5, 0, NOW_MS),  # in the past: now
        (-1, 0, NOW_MS),
        (NOW_MS + 5000, 0, NOW_MS + 5000),  # milliseconds in place of seconds
    ],
)
def test_times_are_exact(seconds: int, nanos: int, due_ms: int) -> None:
    assert read(due(seconds, nanos)).due_ms == due_ms


@pytest.mark.parametrize("type_", [wire.DigestType.MD5, wire.DigestType.SHA1])
@pytest.mark.parametrize("capitals", [True, False])
def test_digests_are_compared(type_: wire.DigestType, capitals: bool) -> None:
    name = "md5" if type_ == wire.DigestType.MD5 else "sha1"
    checksum = hashlib.new(name, b"x").hexdigest()
    sent = message()
    sent.system_properties.body_digest.type = type_
    sent.system_properties.body_digest.checksum = (
        checksum.upper() if capitals else checksum
    )
    assert read(sent).body == b"x"
    sent.body = b"y"
    assert refused(sent) == wire.Code.MESSAGE_CORRUPTED


def packed(body: bytes) -> wire.Message:
    return message(body, body_encoding=wire.Encoding.GZIP)


def test_a_compressed_body_is_unpacked() -> None:
    assert read(packed(gzip.compress(b"plain"))).body == b"plain"


@pytest.mark.parametrize(
    "body", [b"", b"not gzip", gzip.compress(b"x")[:-3], gzip.compress(b"x") + b"more"]
)
def test_what_cannot_be_unpacked_is_refused(body: bytes) -> None:
    assert refused(packed(body)) == wire.Code.MESSAGE_CORRUPTED


def test_a_bomb_is_refused() -> None:
    """A thousand times as large as the topic takes, in a few kilobytes."""
    bomb = packed(gzip.compress(bytes(1_000_000)))
    assert refused(bomb) == wire.Code.MESSAGE_BODY_TOO_LARGE


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (message(message_id=""), wire.Code.ILLEGAL_MESSAGE_ID),
        (message(message_id="x" * 256), wire.Code.ILLEGAL_MESSAGE_ID),
        (message(bytes(1001)), wire.Code.MESSAGE_BODY_TOO_LARGE),
        (message(tag="a||b"), wire.Code.ILLEGAL_MESSAGE_TAG),
        (message(tag="t" * 129), wire.Code.ILLEGAL_MESSAGE_TAG),
        (
            message(message_type=FIFO, message_group="g" * 513),
            wire.Code.ILLEGAL_MESSAGE_GROUP,
        ),
        (message(message_type=FIFO), wire.Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE),
        (message(message_type=DELAY), wire.Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE),
        (message(message_type=wire.MessageType.LITE), wire.Code.UNSUPPORTED),
        (message(message_type=wire.MessageType.PRIORITY), wire.Code.UNSUPPORTED),
        (due(NOW_MS // 1000 + 2000), wire.Code.ILLEGAL_DELIVERY_TIME),
        (due(2**62), wire.Code.ILLEGAL_DELIVERY_TIME),
        (message(keys=["k" * 40_000]), wire.Code.MESSAGE_PROPERTIES_TOO_LARGE),
    ],
)
def test_what_cannot_be_stored_is_told(sent: wire.Message, code: wire.Code) -> None:
    assert refused(sent) == code


@pytest.mark.parametrize("name", sorted(marks.RESERVED))
def test_names_that_are_rocketmqs_are_refused(name: str) -> None:
    sent = message()
    sent.user_properties[name] = "mine"
    assert refused(sent) == wire.Code.ILLEGAL_MESSAGE_PROPERTY_KEY


def test_without_a_type_a_message_is_what_it_looks_like() -> None:
    unspecified = wire.MessageType.MESSAGE_TYPE_UNSPECIFIED
    assert read(message(message_type=unspecified)).kind == NORMAL
    grouped = message(message_type=unspecified, message_group="g")
    assert read(grouped).kind == FIFO
    timed = due(NOW_MS // 1000)
    timed.system_properties.message_type = unspecified
    assert read(timed).kind == DELAY


def test_a_transaction_may_say_when_it_is_asked_about() -> None:
    sent = message(message_type=TRANSACTION)
    assert read(sent).check_after_ms is None
    sent.system_properties.orphaned_transaction_recovery_duration.seconds = 7
    assert read(sent).check_after_ms == 7000
