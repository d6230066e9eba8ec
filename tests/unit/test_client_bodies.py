"""What the SDK sends and how it reads what comes back."""

from base64 import b64decode
from datetime import UTC, datetime, timedelta, timezone

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from halfpast.answer_body import EventBody, MessageBody, ProblemBody, PublishedBody
from halfpast.model import EventState, NewEvent
from halfpast.request_body import (
    json_body,
    json_event,
    milliseconds,
    packed_batch,
    packed_event,
)


@given(st.binary(max_size=100))
def test_bytes_stay_bytes(data: bytes) -> None:
    event = NewEvent(topic="t", data=data)
    assert b64decode(msgspec.json.decode(json_event(event))["data_base64"]) == data
    assert msgspec.msgpack.decode(packed_event(event))["data"] == data


def test_only_what_is_given_is_sent() -> None:
    event = NewEvent(topic="t", data=None)
    assert msgspec.json.decode(json_event(event)) == {"data": None}
    assert msgspec.msgpack.decode(packed_event(event)) == {"topic": "t", "data": None}
    assert json_body(topic="t", filter=None) == b'{"topic":"t"}'


def test_a_batch_holds_its_events_in_order() -> None:
    packed = [packed_event(NewEvent(topic="t", data=n)) for n in range(3)]
    batch = msgspec.msgpack.decode(packed_batch(packed, atomic=True))
    assert [event["data"] for event in batch["events"]] == [0, 1, 2]
    assert batch["atomic"] is True


@given(st.timedeltas(timedelta(0), timedelta(days=4000)))
def test_a_delay_is_rounded_up(delay: timedelta) -> None:
    ms = milliseconds(delay)
    assert timedelta(0) <= timedelta(milliseconds=ms) - delay < timedelta(0, 0, 1000)


def test_a_time_keeps_its_zone_and_microseconds() -> None:
    at = datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=timezone(timedelta(hours=2)))
    body = msgspec.json.decode(json_event(NewEvent(topic="t", data=1, deliver_at=at)))
    assert datetime.fromisoformat(body["deliver_at"]) == at


def test_an_event_that_cannot_be_encoded_fails_in_its_own_call() -> None:
    with pytest.raises(TypeError, match="unsupported"):
        packed_event(NewEvent(topic="t", data=object()))


def test_unknown_fields_of_a_newer_server_are_ignored() -> None:
    body = b'{"id":"i","topic":"t","state":"scheduled","colour":"blue","version":3}'
    published = msgspec.json.decode(body, type=PublishedBody)
    assert published.published(created=True, replayed=False).version == 3


def test_an_event_is_read_whole() -> None:
    body = b"""{"id":"i","topic":"t","state":"delivered","lateness_ms":4,
        "deliver_at":"2026-11-20T10:00:00.000Z","data_base64":"AP8=",
        "timeline":[{"at":"2026-11-20T10:00:00.004Z","what":"delivered"}]}"""
    event = msgspec.json.decode(body, type=EventBody).event()
    assert event.state is EventState.DELIVERED
    assert event.lateness == timedelta(milliseconds=4)
    assert event.data == b"\x00\xff"
    assert event.timeline[0].at == datetime(2026, 11, 20, 10, 0, 0, 4000, tzinfo=UTC)


def test_lateness_is_only_known_for_what_was_delayed() -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    late = timedelta(milliseconds=4)
    body = MessageBody(id="i", topic="t", queue=0, offset=0, stored_at=at + late)
    assert body.message().lateness is None
    body.deliver_at = at
    assert body.message().lateness == late


def test_a_problem_without_a_code_gets_one_from_its_status() -> None:
    problem = ProblemBody(title="Bad Gateway").problem(502)
    assert (problem.status, problem.code) == (502, "http_502")
