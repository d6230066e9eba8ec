"""Messages and events as callers see them."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from halfpast_api.event_view import view_event, view_stored
from halfpast_api.message_view import (
    MessagesView,
    parse_receipt,
    render_receipt,
    view_messages,
)
from halfpast_api.reading import Format
from halfpast_chronos.delay_server import Event, EventState, Happening
from halfpast_core_store.broker import Delivered
from halfpast_core_store.record import (
    RecordFlag,
    RecordKind,
    decode_record,
    encode_record,
)

ID = bytes.fromhex("01936f1e8c007abc8def0123456789ab")
ID_TEXT = "01936f1e-8c00-7abc-8def-0123456789ab"


def record(body: bytes = b'{"a": 1}', **fields: Any) -> bytes:
    known: dict[str, Any] = {"flags": RecordFlag.JSON, "born_ms": 1}
    return encode_record(RecordKind.NORMAL, event_id=ID, body=body, **(known | fields))


def shown(data: bytes, form: Format = Format.JSON, **delivered: Any) -> dict[str, Any]:
    one = Delivered(record=data, queue=3, offset=7, stored_ms=2000, **delivered)
    view = MessagesView(view_messages([one], "orders", form))
    if form is Format.MSGPACK:
        decoded = msgspec.msgpack.decode(msgspec.msgpack.encode(view))
    else:
        decoded = msgspec.json.decode(msgspec.json.encode(view))
    message: dict[str, Any] = decoded["messages"][0]
    return message


def test_a_message_has_all_fields() -> None:
    data = record(
        key=b"k", tag=b"t", properties=msgspec.msgpack.encode({"a": "b"}), due_ms=1500
    )
    assert shown(data, receipt=b"\xff\xfe", attempt=2) == {
        "receipt": "__4",
        "id": ID_TEXT,
        "topic": "orders",
        "queue": 3,
        "offset": 7,
        "key": "k",
        "tag": "t",
        "properties": {"a": "b"},
        "data": {"a": 1},
        "born_at": "1970-01-01T00:00:00.001Z",
        "stored_at": "1970-01-01T00:00:02.000Z",
        "deliver_at": "1970-01-01T00:00:01.500Z",
        "attempt": 2,
    }


def test_a_plain_message_shows_what_is_missing_as_null() -> None:
    message = shown(record())
    assert "receipt" not in message
    assert (message["key"], message["tag"], message["deliver_at"]) == (None, None, None)
    assert message["properties"] == {}


def test_json_comes_back_to_the_byte() -> None:
    text = b'{"b" : 1.50, "a":[1e3]}'
    one = Delivered(record=record(text), queue=0, offset=0, stored_ms=0)
    encoded = msgspec.json.encode(view_messages([one], "orders", Format.JSON))
    assert b'"data":' + text in encoded


def test_opaque_bytes_are_base64_in_json_and_raw_in_msgpack() -> None:
    data = record(b"\x00\xff", flags=0)
    assert shown(data)["data_base64"] == "AP8="
    assert "data" not in shown(data)
    packed = shown(data, Format.MSGPACK)
    assert (packed["data"], packed["json"]) == (b"\x00\xff", False)
    packed = shown(record(), Format.MSGPACK)
    assert (packed["data"], packed["json"]) == (b'{"a": 1}', True)


@given(st.binary(min_size=1, max_size=300))
def test_a_receipt_leads_back(receipt: bytes) -> None:
    assert parse_receipt(render_receipt(receipt)) == receipt


@pytest.mark.parametrize("text", ["", "!", "a", "A" * 600, "é", "AA==", "AB"])
def test_what_is_no_receipt_is_none(text: str) -> None:
    assert parse_receipt(text) is None


def event(**fields: Any) -> Event:
    known: dict[str, Any] = {
        "event_id": ID,
        "topic_id": 1024,
        "state": EventState.SCHEDULED,
        "version": 3,
        "due_ms": 5000,
        "created_ms": 1000,
        "key": b"k",
        "timeline": [(1000, Happening.SCHEDULED)],
    }
    return Event(**(known | fields))


def test_a_scheduled_event_shows_its_content() -> None:
    view = view_event(event(), "orders", record(tag=b"t", key=b"k"), Format.JSON)
    assert msgspec.json.decode(msgspec.json.encode(view)) == {
        "id": ID_TEXT,
        "topic": "orders",
        "key": "k",
        "tag": "t",
        "properties": {},
        "state": "scheduled",
        "deliver_at": "1970-01-01T00:00:05.000Z",
        "created_at": "1970-01-01T00:00:01.000Z",
        "delivered_at": None,
        "cancelled_at": None,
        "lateness_ms": None,
        "version": 3,
        "data": {"a": 1},
        "timeline": [{"at": "1970-01-01T00:00:01.000Z", "what": "scheduled"}],
    }


def test_a_delivered_event_tells_how_late_it_was() -> None:
    done = event(state=EventState.DELIVERED, finished_ms=5002, lateness_ms=2)
    view = view_event(done, "orders", None, Format.JSON)
    assert (view.state, view.lateness_ms) == ("delivered", 2)
    assert (view.delivered_at, view.cancelled_at) == ("1970-01-01T00:00:05.002Z", None)
    assert (view.key, view.data) == ("k", msgspec.UNSET)


def test_a_cancelled_event_tells_when() -> None:
    gone = event(state=EventState.CANCELLED, finished_ms=2000)
    view = view_event(gone, "orders", None, Format.JSON)
    assert (view.state, view.cancelled_at) == ("cancelled", "1970-01-01T00:00:02.000Z")
    assert (view.delivered_at, view.lateness_ms) == (None, None)


def test_a_list_leaves_the_data_out_but_not_the_rest() -> None:
    data = record(tag=b"t", properties=msgspec.msgpack.encode({"a": "b"}))
    view = view_event(event(), "orders", data, None)
    assert (view.data, view.data_base64) == (msgspec.UNSET, msgspec.UNSET)
    assert (view.tag, view.properties) == ("t", {"a": "b"})


def test_an_event_for_now_is_stored() -> None:
    view = view_stored(decode_record(record(key=b"k")), "orders", 2000, Format.MSGPACK)
    assert (view.state, view.deliver_at, view.version) == ("stored", None, 1)
    assert (view.key, view.data, view.json) == ("k", b'{"a": 1}', True)
    assert [entry.what for entry in view.timeline] == ["stored"]
