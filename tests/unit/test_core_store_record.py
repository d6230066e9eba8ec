"""Records keep what they are given, and change only what is asked for."""

import struct
import zlib
from typing import TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halfpast_core_store.record import (
    HEADER_SIZE,
    Record,
    RecordKind,
    decode_record,
    encode_record,
    tag_hash,
    with_kind,
    with_time,
)

u16 = st.integers(0, 2**16 - 1)
u32 = st.integers(0, 2**32 - 1)
u64 = st.integers(0, 2**64 - 1)


class Fields(TypedDict):
    topic_id: int
    queue_id: int
    event_id: bytes
    born_ms: int
    due_ms: int
    key: bytes
    tag: bytes
    properties: bytes
    body: bytes
    flags: int
    attempt: int
    group_id: int
    version: int


fields = st.fixed_dictionaries(
    {
        "topic_id": u32,
        "queue_id": u16,
        "event_id": st.binary(min_size=16, max_size=16),
        "born_ms": u64,
        "due_ms": u64,
        "key": st.binary(max_size=512),
        "tag": st.binary(max_size=128),
        "properties": st.binary(max_size=100),
        "body": st.binary(max_size=300),
        "flags": st.integers(0, 255),
        "attempt": u16,
        "group_id": u32,
        "version": u32,
    }
)
kinds = st.sampled_from(RecordKind)


def encode(kind: int, given: Fields) -> bytes:
    return encode_record(kind, **given)


@given(kinds, fields, st.binary(max_size=20), st.binary(max_size=20))
def test_what_goes_in_comes_out_wherever_it_stands(
    kind: RecordKind, values: Fields, before: bytes, after: bytes
) -> None:
    data = before + encode(kind, values) + after
    record = decode_record(data, len(before))
    assert record.kind == kind
    assert record.tag_hash == (tag_hash(values["tag"]) if values["tag"] else 0)
    for name, value in values.items():
        assert getattr(record, name) == value
    assert decode_record(memoryview(data), len(before)) == record


@given(kinds, kinds, fields)
def test_with_kind_changes_the_kind_alone(
    kind: RecordKind, other: RecordKind, values: Fields
) -> None:
    record = encode(kind, values)
    assert with_kind(record, other) == encode(other, values)


@given(kinds, fields, u64, u32)
def test_with_time_changes_time_and_version_alone(
    kind: RecordKind, values: Fields, due_ms: int, version: int
) -> None:
    expected = decode_record(encode(kind, values))._replace(
        due_ms=due_ms, version=version
    )
    changed = with_time(encode(kind, values), due_ms, version)
    assert decode_record(changed) == expected
    assert len(changed) == len(encode(kind, values))


def test_a_record_as_bytes() -> None:
    record = encode_record(
        RecordKind.NORMAL, topic_id=1024, queue_id=2, tag=b"t", body=b"hi", key=b"k"
    )
    assert len(record) == HEADER_SIZE + 4
    assert record[:8] == struct.pack("<IBBH", 68, 1, 0, 0)
    assert record[64:] == b"kthi"


def test_no_tag_has_a_hash_that_no_tag_has() -> None:
    assert decode_record(encode_record(RecordKind.NORMAL)).tag_hash == 0
    # A text whose CRC-32 is 0, so that its own hash would be taken for "no tag".
    assert zlib.crc32(b"\x9d\x0a\xd9\x6d") == 0
    assert tag_hash(b"\x9d\x0a\xd9\x6d") == 1


def test_kind_zero_is_never_written() -> None:
    with pytest.raises(AssertionError):
        encode_record(0)


def test_a_record_is_a_plain_tuple() -> None:
    assert len(Record._fields) == 15
