"""What an import takes for an event, and what it sends for it."""

import base64
import json

import pytest

from halfpast_api.problems import Refusal
from halfpast_api.transfer.event_line import EventLines


def code_of(raw: bytes, topic: str | None = None) -> str:
    with pytest.raises(Refusal) as caught:
        EventLines(topic).read(raw)
    return caught.value.code


def test_a_whole_event_stays_as_it_is() -> None:
    raw = b'{"topic": "t", "data": {"a" : 1.50}, "delay": "PT5S", "key": null}'
    assert EventLines(None).read(raw) is raw
    assert EventLines("other").read(raw) is raw


def test_the_default_topic_is_for_those_without() -> None:
    sent = EventLines("d").read(b'{"data": {"a" : 1.50}, "delay_ms": 0, "key": "k"}')
    assert b'"data":{"a" : 1.50}' in sent
    assert json.loads(sent) == {
        "topic": "d",
        "data": {"a": 1.5},
        "delay_ms": 0,
        "key": "k",
    }


def test_ids_and_reasons_are_left_out() -> None:
    data = base64.b64encode(b"\0\xff").decode()
    sent = EventLines(None).read(
        json.dumps(
            {
                "refused": {"line": 1, "code": "c", "reason": "r"},
                "id": "x",
                "topic": "t",
                "data_base64": data,
                "properties": {"a": "b"},
                "deliver_at": "2030-01-01T00:00:00.001Z",
                "tag": "g",
            }
        ).encode()
    )
    assert json.loads(sent) == {
        "topic": "t",
        "data_base64": data,
        "properties": {"a": "b"},
        "deliver_at": "2030-01-01T00:00:00.001Z",
        "tag": "g",
    }


def test_null_is_data_too() -> None:
    assert json.loads(EventLines("t").read(b'{"data":null}'))["data"] is None


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b"x", "malformed_json"),
        (b"1", "invalid_request"),
        (b'{"data":1}', "missing_field"),
        (b'{"topic":"","data":1}', "missing_field"),
        (b'{"topic":"t"}', "missing_field"),
        (b'{"topic":"t","data":1,"data_base64":""}', "invalid_data"),
        (b'{"topic":"t","data":1,"dely":1}', "unknown_field"),
        (b'{"topic":"t","data":1,"tag":"a","tag":"b"}', "duplicate_key"),
        (b'{"topic":"t","data":1,"tag":"a||b"}', "invalid_tag"),
        (b'{"topic":"t","data":1,"properties":{"a":1}}', "invalid_properties"),
        (b'{"topic":"t","data":1,"delay":"5s"}', "invalid_time"),
        (b'{"topic":"t","data":1,"delay":"PT1S","delay_ms":1}', "several_times"),
        (b'{"topic":"t","data":1,"deliver_at":"2030-01-01"}', "invalid_time"),
        (b'{"topic":"SYS_T","data":1}', "reserved_topic"),
        (b'{"topic":"t/u","data":1}', "invalid_topic"),
        (b'{"topic":"t","data":"\xff"}', "malformed_json"),
        (b'{"topic":"t","data":' + b"[" * 126 + b"]" * 126 + b"}", "too_deep"),
    ],
)
def test_what_the_server_would_refuse_is_refused_here(raw: bytes, code: str) -> None:
    assert code_of(raw) == code


def test_data_may_be_as_deep_as_in_a_request() -> None:
    raw = b'{"topic":"t","data":' + b"[" * 125 + b"]" * 125 + b"}"
    assert EventLines(None).read(raw) is raw


def test_a_default_topic_must_be_a_name() -> None:
    with pytest.raises(Refusal):
        EventLines("not a topic")
