"""Bodies become structs, or problems that point to what is wrong."""

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halfpast_api.event_body import BatchBody, EventBody
from halfpast_api.problems import Refusal
from halfpast_api.reading import Format, Reader, pointer_of

EVENT = Reader(EventBody, 128)
BATCH = Reader(BatchBody, 128)


def refused(
    body: bytes, reader: Reader[EventBody] | Reader[BatchBody] = EVENT
) -> Refusal:
    with pytest.raises(Refusal) as raised:
        reader.read(body, Format.JSON)
    return raised.value


def pointers(refusal: Refusal) -> list[str]:
    return [error.pointer for error in refusal.errors]


def test_data_stays_as_it_came_to_the_byte() -> None:
    text = b'{"b" : 1.50, "a":[ 1e3 ],"z":"\\u00e9\\/"}'
    event = EVENT.read(b'{"data": ' + text + b' , "key":"k"}', Format.JSON)
    assert bytes(event.data) == text  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("body", "code", "pointer"),
    [
        (b'{"data":1,"key":5}', "invalid_request", "/key"),
        (b'{"data":1,"delay_ms":"5"}', "invalid_request", "/delay_ms"),
        (b'{"data":1,"delay_ms":1.5}', "invalid_request", "/delay_ms"),
        (b'{"data":1,"delay_ms":true}', "invalid_request", "/delay_ms"),
        (b'{"data":1,"deliver_at":0}', "invalid_request", "/deliver_at"),
        (b'{"data_base64":"?"}', "invalid_request", "/data_base64"),
        (b'{"data_base64":"YQ"}', "invalid_request", "/data_base64"),
        (b'{"data":1,"dealy":"PT5S"}', "unknown_field", "/dealy"),
        (b'{"data":1,"key":"a","key":"b"}', "duplicate_key", "/key"),
        (b"[]", "invalid_request", ""),
        (b"null", "invalid_request", ""),
        (b'"data"', "invalid_request", ""),
    ],
)
def test_a_wrong_field_is_pointed_to(body: bytes, code: str, pointer: str) -> None:
    refusal = refused(body)
    assert (refusal.code, pointers(refusal)) == (code, [pointer])


@pytest.mark.parametrize(
    ("body", "code", "pointer"),
    [
        (
            b'{"events":[{"topic":"t"},{"topic":1}]}',
            "invalid_request",
            "/events/1/topic",
        ),
        (b'{"events":[{"topic":"t","x":1}]}', "unknown_field", "/events/0/x"),
        (b'{"events":[{"data":1}]}', "missing_field", "/events/0/topic"),
        (b'{"events":{}}', "invalid_request", "/events"),
        (b"{}", "missing_field", "/events"),
        (b'{"events":[],"x":1}', "unknown_field", "/x"),
        (b'{"events":[],"a~b/c":1}', "unknown_field", "/a~0b~1c"),
    ],
)
def test_a_wrong_field_in_a_batch_is_pointed_to(
    body: bytes, code: str, pointer: str
) -> None:
    refusal = refused(body, BATCH)
    assert (refusal.code, pointers(refusal)) == (code, [pointer])


def test_a_misspelt_field_gets_a_suggestion() -> None:
    assert 'did you mean "delay"?' in refused(b'{"data":1,"dealy":1}').detail
    assert 'did you mean "topic"?' in refused(b'{"events":[{"tpic":1}]}', BATCH).detail
    assert "known are data" in refused(b'{"zzz":1}').detail


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"", "empty"),
        (b" \n", "empty"),
        (b'{"data":', "ends too early, at byte 8"),
        (b'{"data":tru}', "byte 9"),
        (b"{'data':1}", "byte 1"),
        (b'{"data":1,}', "byte 10"),
        (b'{"data":1} x', "byte 12"),
        (b'{"data":NaN}', "byte 8"),
        (b'{"data":01}', "byte 9"),
        (b'{"data":"\x00"}', "byte 9"),
        (b'{"data":"\xff"}', "not UTF-8 at byte 9"),
        (b'{"key":"\xed\xa0\x80","data":1}', "not UTF-8 at byte 8"),
        (b'{"data":"\\ud800"}', "within a character"),
        (b'{"data":"\\udc00"}', "surrogate"),
        (b"\xef\xbb\xbf{}", "byte 0"),
        ('{"data":1}'.encode("utf-16"), "not UTF-8 at byte 0"),
    ],
)
def test_malformed_json_is_a_400_that_tells_the_byte(body: bytes, text: str) -> None:
    refusal = refused(body)
    assert refusal.code == "malformed_json"
    assert text in refusal.detail


@pytest.mark.parametrize("depth", [128, 500, 5_000, 500_000])
@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_deep_json_is_refused(depth: int, opening: str, closing: str) -> None:
    body = '{"data":' + opening * depth + "1" + closing * depth + "}"
    assert refused(body.encode()).code == "too_deep"
    packed = b"\x81\xa4data" + b"\x91" * depth + b"\xc0"
    if depth >= 5_000:
        with pytest.raises(Refusal, match="too_deep"):
            EVENT.read(packed, Format.MSGPACK)


def test_msgpack_is_read_into_the_same_struct() -> None:
    packed = b"\x83\xa4data\xc4\x02hi\xa3key\xa1k\xa8delay_ms\x05"
    event = EVENT.read(packed, Format.MSGPACK)
    assert (bytes(event.data), event.key, event.delay_ms) == (b"\xc4\x02hi", "k", 5)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("packed", "code"),
    [
        (b"", "malformed_msgpack"),
        (b"\x81\xa4data", "malformed_msgpack"),
        (b"\xc1", "malformed_msgpack"),
        (b"\x81\xa3key\xa1\xff", "malformed_msgpack"),
        (b"\x81\xa3kex\xa1a", "unknown_field"),
        (b"\x81\xa3key\x05", "invalid_request"),
    ],
)
def test_bad_msgpack_is_refused(packed: bytes, code: str) -> None:
    with pytest.raises(Refusal) as raised:
        EVENT.read(packed, Format.MSGPACK)
    assert raised.value.code == code


@pytest.mark.parametrize(
    ("path", "pointer"),
    [
        ("", ""),
        (".key", "/key"),
        (".events[3].delay", "/events/3/delay"),
        (".properties[...]", "/properties"),
        ("[0][1]", "/0/1"),
    ],
)
def test_paths_become_pointers(path: str, pointer: str) -> None:
    assert pointer_of(path) == pointer


VALID = (
    b'{"events":[{"topic":"t","data":{"a":[1,"\\u00e9"]},"key":"k","delay":"PT5S",'
    b'"properties":{"a":"b"}},{"topic":"t","data_base64":"AP8=","delay_ms":5}]}'
)


@given(st.binary(max_size=100))
def test_no_bytes_make_it_fail_in_another_way(body: bytes) -> None:
    for form in Format:
        for reader in (EVENT, BATCH):
            with suppress(Refusal):
                reader.read(body, form)


@given(st.integers(0, len(VALID)), st.integers(0, len(VALID)), st.binary(max_size=5))
def test_no_damage_makes_it_fail_in_another_way(
    start: int, end: int, put: bytes
) -> None:
    with suppress(Refusal):
        BATCH.read(VALID[:start] + put + VALID[end:], Format.JSON)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=20,
    )
)
def test_any_json_is_data(data: object) -> None:
    text = json.dumps(data, ensure_ascii=True)
    try:
        json.dumps(data, ensure_ascii=False).encode()
        json.dumps(data, allow_nan=False)
    except ValueError:
        return  # half characters and NaN are not JSON
    event = EVENT.read(f'{{"data":{text}}}'.encode(), Format.JSON)
    assert bytes(event.data) == text.encode()  # type: ignore[arg-type]
