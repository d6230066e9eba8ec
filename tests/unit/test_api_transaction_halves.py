"""Messages of a transaction become records that a commit turns into events."""

import json
import zlib
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from halfpast_api.encoding import Seed, encode_events
from halfpast_api.event_body import BatchEventBody
from halfpast_api.problems import Refusal
from halfpast_api.reading import Format
from halfpast_api.times import NS_PER_MS, parse_duration, render_instant
from halfpast_api.topic_directory import Topic
from halfpast_api.transactions.halves import encode_halves
from halfpast_core_store.errors import UnknownTopic
from halfpast_core_store.record import (
    Record,
    RecordFlag,
    RecordKind,
    decode_record,
    encode_record,
)
from halfpast_txn.half import message_id, released

NOW_NS = 1_795_168_800_000_500_001  # half a millisecond past 10:00:00.000
NOW_MS = 1_795_168_800_000
DAY_MS = 86_400_000
ID = bytes.fromhex("01936f1e8c007abc8def012345670000")
SEED = Seed(ID, NOW_NS)


def topic(name: str = "orders", number: int = 1024, **settings: Any) -> Topic:
    known: dict[str, Any] = {
        "queue_count": 4,
        "max_delay_ms": 3660 * DAY_MS,
        "max_body_bytes": 1000,
        "is_durable": True,
        "stale_at_s": 0.0,
    }
    return Topic(name=name, id=number, **(known | settings))


def halves_of(*messages: dict[str, Any], first_index: int = 0) -> list[bytes]:
    topics = {"orders": topic(), "bills": topic("bills", 1025)}
    return encode_halves(
        [row(**message) for message in messages],
        topics,
        {"nowhere": UnknownTopic("nowhere")},
        SEED,
        Format.JSON,
        first_index,
    )


def row(**message: Any) -> tuple[Any, ...]:
    body = msgspec.json.decode(json.dumps({"topic": "orders"} | message), type=_BODY)
    return msgspec.structs.astuple(body)


_BODY = BatchEventBody


def half_of(**message: Any) -> Record:
    (half,) = halves_of({"data": 1} | message)
    return decode_record(half)


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
durations = st.sampled_from(["PT0S", "PT0.0000005S", "PT0.4S", "PT5S", "P3DT0.0019S"])


@given(
    data=st.none() | st.integers() | texts,
    base64=st.none() | st.binary(max_size=50),
    key=texts,
    tag=st.none() | st.sampled_from(["paid", "überfällig"]),
    properties=st.none() | st.dictionaries(texts, texts, max_size=3),
    time=st.none()
    | st.integers(0, DAY_MS).map(lambda ms: {"delay_ms": ms})
    | durations.map(lambda text: {"delay": text})
    | st.integers(-DAY_MS, 2 * DAY_MS).map(
        lambda ms: {"deliver_at": render_instant(NOW_MS + ms)}
    ),
    commit_ms=st.integers(NOW_MS + 1, NOW_MS + DAY_MS),
)
def test_a_commit_releases_what_publishing_at_that_moment_would_give(
    data: Any,
    base64: bytes | None,
    key: str,
    tag: str | None,
    properties: dict[str, str] | None,
    time: dict[str, Any] | None,
    commit_ms: int,
) -> None:
    message: dict[str, Any] = {"key": key, "tag": tag} | (time or {})
    if base64 is None:
        message["data"] = data
    else:
        message["data_base64"] = msgspec.json.decode(msgspec.json.encode(base64))
    if properties is not None:
        message["properties"] = properties
    (half,) = halves_of(message)
    _, _, record = released(half, commit_ms)

    at_commit = encode_events(
        [row(**message)],
        {"orders": topic()},
        Seed(ID, commit_ms * NS_PER_MS),
        Format.JSON,
    )
    expected = decode_record(at_commit.runs[0].records[0])
    found = decode_record(record)
    is_now = not found.due_ms
    # A delay of nothing, which publishing schedules for now, needs no timer here.
    if is_now and time is not None:
        assert time.get("delay_ms") == 0 or time.get("delay") == "PT0S"
        expected = expected._replace(kind=RecordKind.NORMAL, due_ms=0)
    assert found == expected._replace(
        event_id=message_id(ID, 0), born_ms=NOW_MS, queue_id=found.queue_id
    )
    if key:
        assert found.queue_id == zlib.crc32(key.encode()) % 4


def test_a_half_is_the_format_s_own_record() -> None:
    (half,) = halves_of(
        {"data": {"a": 1}, "key": "k", "tag": "t", "properties": {"a": "b"}}
    )
    assert half == encode_record(
        RecordKind.HALF,
        topic_id=1024,
        queue_id=zlib.crc32(b"k") % 4,
        event_id=message_id(ID, 0),
        born_ms=NOW_MS,
        key=b"k",
        tag=b"t",
        properties=msgspec.msgpack.encode({"a": "b"}),
        body=b'{"a": 1}',
        flags=RecordFlag.JSON,
    )


@pytest.mark.parametrize(
    ("time", "due_ms", "is_delay"),
    [
        ({}, 0, False),
        ({"delay_ms": 0}, 0, False),
        ({"delay": "PT0S"}, 0, False),
        ({"delay_ms": 1}, 1, True),
        ({"delay_ms": 3660 * DAY_MS}, 3660 * DAY_MS, True),
        ({"delay": "PT5S"}, 5000, True),
        ({"delay": "PT0.0001S"}, 1, True),
        ({"delay": "PT0.0011S"}, 2, True),
        ({"deliver_at": "2026-11-20T10:00:00.250Z"}, NOW_MS + 250, False),
        ({"deliver_at": "2026-11-20T09:00:00Z"}, NOW_MS + 1, False),
    ],
)
def test_delays_stay_delays_and_times_stay_times(
    time: dict[str, Any], due_ms: int, is_delay: bool
) -> None:
    half = half_of(**time)
    assert half.kind == RecordKind.HALF
    assert half.due_ms == due_ms
    assert bool(half.flags & RecordFlag.AFTER_COMMIT) == is_delay
    assert half.flags & RecordFlag.JSON


@given(
    st.integers(0, 10**9).map(lambda ns: f"PT{ns / 10**9:.9f}S"),
    st.integers(0, 999_999),
)
def test_a_delay_is_never_cut(text: str, within_ms_ns: int) -> None:
    seed = Seed(ID, NOW_MS * NS_PER_MS + within_ms_ns)
    (half,) = encode_halves(
        [row(data=1, delay=text)], {"orders": topic()}, {}, seed, Format.JSON
    )
    wanted_ns = parse_duration(text)
    assert decode_record(half).due_ms == -(-wanted_ns // NS_PER_MS)


def test_messages_of_all_topics_keep_their_order_and_have_consecutive_ids() -> None:
    names = ["orders", "bills", "orders", "orders", "bills"]
    times: list[dict[str, Any]] = [{}, {"delay_ms": 5}, {"delay_ms": 0}, {}, {}]
    messages = [
        {"topic": name, "data": index} | time
        for index, (name, time) in enumerate(zip(names, times, strict=True))
    ]
    halves = [decode_record(half) for half in halves_of(*messages)]
    assert [half.body for half in halves] == [b"0", b"1", b"2", b"3", b"4"]
    assert [half.topic_id for half in halves] == [1024, 1025, 1024, 1024, 1025]
    assert [half.event_id for half in halves] == [message_id(ID, n) for n in range(5)]


def test_messages_that_are_added_go_on_behind_the_others() -> None:
    halves = halves_of({"data": 1}, {"data": 2}, first_index=7)
    ids = [decode_record(half).event_id for half in halves]
    assert ids == [message_id(ID, 7), message_id(ID, 8)]


def test_messages_without_key_share_a_queue() -> None:
    halves = halves_of(*[{"data": n} for n in range(20)])
    assert len({decode_record(half).queue_id for half in halves}) == 1


@pytest.mark.parametrize(
    ("message", "code", "pointer"),
    [
        ({"topic": "nowhere"}, "unknown_topic", "/messages/3"),
        ({"data": "x" * 1000}, "event_too_large", "/messages/3/data"),
        ({"key": "k" * 513}, "invalid_key", "/messages/3/key"),
        ({"tag": "a||b"}, "invalid_tag", "/messages/3/tag"),
        ({"properties": {"a": 1}}, "invalid_properties", "/messages/3/properties"),
        ({"delay_ms": -1}, "invalid_time", "/messages/3/delay_ms"),
        ({"delay": "P1M"}, "invalid_time", "/messages/3/delay"),
        ({"delay_ms": 3660 * DAY_MS + 1}, "delay_too_long", "/messages/3/delay_ms"),
        ({"deliver_at": "9999-01-01T00:00:00Z"}, "delay_too_long",
         "/messages/3/deliver_at"),
        ({"deliver_at": "2026-11-20T10:00:00"}, "invalid_time",
         "/messages/3/deliver_at"),
        ({"delay": "PT1S", "delay_ms": 1}, "several_times", "/messages/3/delay_ms"),
        ({"data_base64": "YQ=="}, "invalid_data", "/messages/3/data_base64"),
    ],
)  # fmt: skip
def test_one_message_that_cannot_be_stored_refuses_all(
    message: dict[str, Any], code: str, pointer: str
) -> None:
    good: list[dict[str, Any]] = [{"data": n} for n in range(3)]
    with pytest.raises(Refusal) as caught:
        halves_of(*good, {"data": 1} | message, {"data": 4})
    assert caught.value.code == code
    assert [error.pointer for error in caught.value.errors] == [pointer]
    assert "nothing was stored" in caught.value.detail


def test_all_that_is_wrong_is_pointed_to() -> None:
    with pytest.raises(Refusal) as caught:
        halves_of({"data": 1, "delay_ms": -1}, {"data": 1}, {"data": 1, "tag": "*"})
    assert caught.value.code == "invalid_time"
    pointers = [error.pointer for error in caught.value.errors]
    assert pointers == ["/messages/0/delay_ms", "/messages/2/tag"]
