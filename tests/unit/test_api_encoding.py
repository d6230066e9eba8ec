"""Events become records: the same bytes as the record format's own encoder gives."""

import json
import zlib
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from halfpast_api.config import BodyLimits
from halfpast_api.encoding import (
    REFUSED,
    Encoded,
    Row,
    Seed,
    Wrong,
    encode_events,
    row_of,
)
from halfpast_api.event_body import BatchBody, EventBody
from halfpast_api.problems import Refusal
from halfpast_api.reading import Format, Reader
from halfpast_api.times import parse_instant
from halfpast_api.topic_directory import Topic
from halfpast_core_store.record import (
    RecordFlag,
    RecordKind,
    decode_record,
    encode_record,
)
from halfpast_core_store.topics import SYS_SCHEDULE

NOW_NS = 1_795_168_800_000_000_001  # a nanosecond past 10:00:00.000
NOW_MS = 1_795_168_800_000
DAY_MS = 86_400_000
SEED = Seed(bytes.fromhex("01936f1e8c007abc8def012345670000"), NOW_NS)
READER = Reader(BatchBody, 128)


def topic(name: str = "orders", number: int = 1024, **settings: Any) -> Topic:
    known: dict[str, Any] = {
        "queue_count": 4,
        "max_delay_ms": 3660 * DAY_MS,
        "max_body_bytes": 4 * 1024 * 1024,
        "is_durable": True,
        "stale_at_s": 0.0,
    }
    return Topic(name=name, id=number, **(known | settings))


def encode(*events: dict[str, Any], **settings: Any) -> Encoded:
    body = json.dumps({"events": [{"topic": "orders"} | it for it in events]})
    rows = rows_of(READER.read(body.encode(), Format.JSON))
    return encode_events(rows, {"orders": topic(**settings)}, SEED, Format.JSON)


def rows_of(batch: BatchBody) -> list[Row]:
    return [msgspec.structs.astuple(event) for event in batch.events]


def refusal_of(event: dict[str, Any], **settings: Any) -> Refusal:
    encoded = encode(event, **settings)
    assert encoded.dues_ms == [REFUSED]
    assert encoded.runs == []
    refusal = encoded.refusals[0]
    assert isinstance(refusal, Refusal)
    return refusal


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@given(
    data=st.none() | st.integers() | texts | st.lists(texts, max_size=3),
    base64=st.none() | st.binary(max_size=50),
    key=st.none() | texts,
    tag=st.none() | st.sampled_from(["paid", "überfällig"]),
    properties=st.none() | st.dictionaries(texts, texts, max_size=3),
    delay_ms=st.none() | st.integers(0, DAY_MS),
    index=st.integers(0, 9_999),
)
def test_records_are_those_of_the_format(
    data: Any,
    base64: bytes | None,
    key: str | None,
    tag: str | None,
    properties: dict[str, str] | None,
    delay_ms: int | None,
    index: int,
) -> None:
    text = json.dumps(data).encode()
    event = EventBody(key=key, tag=tag, delay_ms=delay_ms)
    if base64 is None:
        event.data = msgspec.Raw(text)
    else:
        event.data_base64 = base64
    if properties is not None:
        event.properties = msgspec.Raw(json.dumps(properties).encode())
    orders = topic()
    rows: list[Row | None] = [None] * index
    rows.append(row_of(event, "orders"))
    nothing = {i: Refusal("invalid_data", "") for i in range(index)}
    encoded = encode_events(
        rows, {"orders": orders}, SEED, Format.JSON, Wrong(events=nothing)
    )

    due_ms = 0 if delay_ms is None else NOW_MS + 1 + delay_ms
    key_bytes = (key or "").encode()
    queue = zlib.crc32(key_bytes) % 4 if key_bytes else orders.turn % 4
    expected = encode_record(
        RecordKind.NORMAL if delay_ms is None else RecordKind.SCHEDULE,
        topic_id=1024,
        queue_id=queue,
        event_id=(int.from_bytes(SEED.base_id) + index).to_bytes(16),
        born_ms=NOW_MS,
        due_ms=due_ms,
        key=key_bytes,
        tag=(tag or "").encode(),
        properties=msgspec.msgpack.encode(properties) if properties else b"",
        body=text if base64 is None else base64,
        flags=RecordFlag.JSON if base64 is None else 0,
    )
    (run,) = encoded.runs
    assert run.records == [expected]
    assert encoded.dues_ms == [REFUSED] * index + [due_ms]
    place = (1024, queue) if delay_ms is None else (SYS_SCHEDULE, 0)
    assert (run.topic_id, run.queue_id) == place


def test_ids_of_a_request_are_consecutive_as_bytes_and_as_text() -> None:
    encoded = encode(*[{"data": i, "delay_ms": 1} for i in range(300)])
    ids = [decode_record(it).event_id for it in encoded.runs[0].records]
    base = int.from_bytes(SEED.base_id)
    assert [int.from_bytes(it) for it in ids] == list(range(base, base + 300))
    shown = [text for text, _ in zip(SEED.id_texts(), ids, strict=False)]
    assert [bytes.fromhex(text.replace("-", "")) for text in shown] == ids


def test_a_fresh_seed_leaves_room_for_a_block_of_ids() -> None:
    seed = Seed.fresh(lambda: b"\xff" * 16, 5)
    assert seed == Seed(b"\xff" * 14 + b"\0\0", 5)


def test_messages_without_key_share_a_queue_and_the_next_request_takes_another() -> (
    None
):
    orders = topic()
    rows = [row_of(EventBody(data=msgspec.Raw(b"1")), "orders")] * 3
    queues = [
        [run.queue_id for run in encode_events(
            rows, {"orders": orders}, SEED, Format.JSON).runs]
        for _ in range(4)
    ]  # fmt: skip
    assert sorted(queues) == [[0], [1], [2], [3]]


def test_messages_of_one_key_share_a_queue() -> None:
    encoded = encode(*[{"data": i, "key": f"customer-{i % 7}"} for i in range(70)])
    queue_of: dict[bytes, set[int]] = {}
    for run in encoded.runs:
        for record in map(decode_record, run.records):
            assert record.queue_id == run.queue_id
            queue_of.setdefault(record.key, set()).add(run.queue_id)
    assert all(len(queues) == 1 for queues in queue_of.values())
    assert len({next(iter(queues)) for queues in queue_of.values()}) > 1


def test_topics_of_one_request_do_not_mix() -> None:
    topics = {"a": topic("a", 1024), "b": topic("b", 1025, queue_count=1)}
    rows = [
        row_of(EventBody(data=msgspec.Raw(b"%d" % i)), name)
        for i, name in enumerate(["a", "b", "a", "b", "b"])
    ]
    encoded = encode_events(rows, topics, SEED, Format.JSON)
    bodies = {
        run.topic_id: [decode_record(it).body for it in run.records]
        for run in encoded.runs
    }
    assert bodies == {1024: [b"0", b"2"], 1025: [b"1", b"3", b"4"]}


def test_the_good_events_of_a_request_are_encoded_beside_bad_ones() -> None:
    encoded = encode({"data": 1}, {"data": 2, "delay_ms": -1}, {"data": 3})
    assert encoded.dues_ms == [0, REFUSED, 0]
    assert list(encoded.refusals) == [1]
    (run,) = encoded.runs
    ids = [decode_record(it).event_id[-2:] for it in run.records]
    assert ids == [b"\0\0", b"\0\2"]


def test_an_unknown_topic_is_refused_per_event() -> None:
    row = row_of(EventBody(data=msgspec.Raw(b"1")), "nosuch")
    why = Refusal("unknown_topic", "no")
    encoded = encode_events([row], {}, SEED, Format.JSON, Wrong(topics={"nosuch": why}))
    assert encoded.refusals == {0: why}


@pytest.mark.parametrize(
    ("time", "due_ms"),
    [
        ({"delay_ms": 0}, NOW_MS + 1),
        ({"delay": "PT0S"}, NOW_MS + 1),
        ({"delay": "PT5S"}, NOW_MS + 5001),
        ({"delay": "PT0.0000005S"}, NOW_MS + 1),
        ({"deliver_at": "2026-11-20T10:00:00.250Z"}, NOW_MS + 250),
        ({"deliver_at": "2026-11-20T09:00:00Z"}, NOW_MS + 1),
        ({"deliver_at": "1066-10-14T09:00:00Z"}, NOW_MS + 1),
        ({"delay": "P3660D"}, NOW_MS + 1 + 3660 * DAY_MS),
    ],
)
def test_due_times_are_rounded_up_and_past_means_now(
    time: dict[str, Any], due_ms: int
) -> None:
    encoded = encode({"data": 1} | time)
    assert encoded.dues_ms == [due_ms]
    assert encoded.runs[0].topic_id == SYS_SCHEDULE


@pytest.mark.parametrize(
    ("event", "code", "pointer"),
    [
        ({"delay_ms": -1}, "invalid_time", "/delay_ms"),
        ({"delay": "-PT5S"}, "invalid_time", "/delay"),
        ({"delay": "P1M"}, "invalid_time", "/delay"),
        ({"delay": "P1Y"}, "invalid_time", "/delay"),
        ({"deliver_at": "2026-11-20T10:00:00"}, "invalid_time", "/deliver_at"),
        ({"delay": "PT1S", "delay_ms": 1}, "several_times", "/delay_ms"),
        (
            {"deliver_at": "2026-11-20T10:00:00Z", "delay": "PT1S"},
            "several_times",
            "/delay",
        ),
        ({"delay_ms": 3660 * DAY_MS + 1}, "delay_too_long", "/delay_ms"),
        ({"delay_ms": 10**30}, "delay_too_long", "/delay_ms"),
        ({"delay": "P99999999D"}, "delay_too_long", "/delay"),
        ({"deliver_at": "9999-12-31T23:59:59Z"}, "delay_too_long", "/deliver_at"),
        ({"key": "k" * 513}, "invalid_key", "/key"),
        ({"key": "é" * 257}, "invalid_key", "/key"),
        ({"tag": "t" * 129}, "invalid_tag", "/tag"),
        ({"tag": "a||b"}, "invalid_tag", "/tag"),
        ({"tag": " a"}, "invalid_tag", "/tag"),
        ({"tag": "*"}, "invalid_tag", "/tag"),
        ({"properties": {"a": 1}}, "invalid_properties", "/properties"),
        ({"properties": ["a"]}, "invalid_properties", "/properties"),
        ({"properties": {"a": "b" * 32768}}, "invalid_properties", "/properties"),
        ({"properties": {"a": "b" * 200000}}, "invalid_properties", "/properties"),
        ({"data_base64": "YQ=="}, "invalid_data", "/data_base64"),
    ],
)
def test_what_cannot_be_stored_is_refused(
    event: dict[str, Any], code: str, pointer: str
) -> None:
    refusal = refusal_of({"data": 1} | event)
    assert refusal.code == code
    assert [error.pointer for error in refusal.errors] == [pointer]


def test_an_event_without_data_is_refused_but_null_is_data() -> None:
    assert refusal_of({}).code == "missing_field"
    encoded = encode({"data": None})
    assert decode_record(encoded.runs[0].records[0]).body == b"null"


def test_a_limit_is_named() -> None:
    refusal = refusal_of({"data": 1, "delay": "P2D"}, max_delay_ms=DAY_MS)
    assert "max_delay_ms is 86400000 (1 days)" in refusal.detail
    refusal = refusal_of({"data": "x" * 100}, max_body_bytes=50)
    assert (refusal.code, "up to 50" in refusal.detail) == ("event_too_large", True)


def test_properties_given_twice_are_refused() -> None:
    body = b'{"data":1,"properties":{"a":"1","a":"2"}}'
    event = Reader(EventBody, 128).read(body, Format.JSON)
    encoded = encode_events(
        [row_of(event, "orders")], {"orders": topic()}, SEED, Format.JSON
    )
    refusal = encoded.refusals[0]
    assert isinstance(refusal, Refusal)
    assert refusal.code == "duplicate_key"
    assert refusal.errors[0].pointer == "/properties/a"


@pytest.mark.parametrize(
    "event", [{"delay": "PT5S"}, {"deliver_at": "2030-01-01T00:00:00Z"}]
)
def test_a_repeated_request_with_the_same_seed_is_encoded_alike(
    event: dict[str, Any],
) -> None:
    first, second = (encode({"data": 1, "key": "k"} | event) for _ in range(2))
    assert first.runs == second.runs
    if "deliver_at" in event:
        assert first.dues_ms == [parse_instant(event["deliver_at"])]


@pytest.mark.parametrize(
    ("data", "body", "flags"),
    [
        (b"raw\x00\xff", b"raw\x00\xff", 0),
        ({"a": [1, "é", None, True, 1.5]}, '{"a":[1,"é",null,true,1.5]}'.encode(), 1),
        ("text", b'"text"', 1),
        (None, b"null", 1),
        (2**63, b"9223372036854775808", 1),
    ],
)
def test_msgpack_bin_is_stored_raw_and_other_values_as_json(
    data: Any, body: bytes, flags: int
) -> None:
    packed = msgspec.msgpack.encode({"data": data, "properties": {"a": "b"}})
    event = Reader(EventBody, 128).read(packed, Format.MSGPACK)
    encoded = encode_events(
        [row_of(event, "orders")], {"orders": topic()}, SEED, Format.MSGPACK
    )
    record = decode_record(encoded.runs[0].records[0])
    assert (record.body, record.flags) == (body, flags)
    assert record.properties == msgspec.msgpack.encode({"a": "b"})


@pytest.mark.parametrize(
    "data",
    [
        float("nan"),
        float("inf"),
        {"a": b"bytes"},
        msgspec.msgpack.Ext(5, b"x"),
        {(): 1},
    ],
)
def test_msgpack_without_a_form_in_json_is_refused(data: Any) -> None:
    packed = b"\x81\xa4data" + msgspec.msgpack.encode(data)
    event = Reader(EventBody, 128).read(packed, Format.MSGPACK)
    encoded = encode_events(
        [row_of(event, "orders")], {"orders": topic()}, SEED, Format.MSGPACK
    )
    refusal = encoded.refusals[0]
    assert isinstance(refusal, Refusal)
    assert refusal.code == "invalid_data"


def test_deep_msgpack_is_refused() -> None:
    packed = b"\x81\xa4data" + b"\x91" * 600 + b"\xc0"
    event = Reader(EventBody, 128).read(packed, Format.MSGPACK)
    encoded = encode_events(
        [row_of(event, "orders")], {"orders": topic()}, SEED, Format.MSGPACK
    )
    refusal = encoded.refusals[0]
    assert isinstance(refusal, Refusal)
    assert refusal.code == "too_deep"


@pytest.mark.parametrize("count", [0, 10_001])
def test_a_batch_may_not_be_configured_larger_than_its_block_of_ids(count: int) -> None:
    with pytest.raises(ValueError, match="1 to 10000"):
        BodyLimits(batch_count_max=count)
