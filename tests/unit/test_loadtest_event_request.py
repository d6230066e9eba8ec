"""Request bodies keep the payload's bytes; answers say id, state and due time."""

import pytest

from halfpast_loadtest.event_request import (
    batch_body,
    due_body,
    event_body,
    parse_accepted,
    parse_batch,
    problem_code,
    state_or_code,
)

DATA = b'{ "total" : 1.10, "name":"\xc3\xa9" }'


def test_the_payload_is_put_in_as_it_is() -> None:
    body = event_body(DATA, key="k", delay_ms=5, properties={"a": "b"})
    assert DATA in body
    assert b'"delay_ms":5' in body


def test_a_due_time_is_given_in_utc() -> None:
    assert b'"deliver_at":"1970-01-01T00:00:01.500Z"' in event_body(DATA, due_ms=1500)
    assert due_body(1500) == b'{"deliver_at":"1970-01-01T00:00:01.500Z"}'


def test_a_batch_holds_its_events() -> None:
    one = event_body(DATA, topic="orders")
    assert batch_body([one, one]) == b'{"events":[' + one + b"," + one + b"]}"
    assert batch_body([one], atomic=True).endswith(b'],"atomic":true}')


def test_an_acceptance_is_read() -> None:
    accepted = parse_accepted(
        b'{"id":"x","topic":"t","state":"scheduled","due_in_ms":1,'
        b'"deliver_at":"1970-01-01T00:00:01.500Z"}'
    )
    assert accepted == ("x", "scheduled", 1500)


def test_results_of_a_batch_come_in_the_order_of_its_events() -> None:
    refused, accepted = parse_batch(
        b'{"results":[{"index":1,"status":201,"id":"x","state":"stored"},'
        b'{"index":0,"status":422,"problem":{"code":"unknown_field"}}]}'
    )
    assert refused == (422, None)
    assert accepted.accepted == ("x", "stored", None)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b'{"code":"unknown_queue","status":404}', "unknown_queue"),
        (b"{}", ""),
        (b"<html>", ""),
    ],
)
def test_the_code_of_a_problem(body: bytes, code: str) -> None:
    assert problem_code(body) == code


def test_the_state_of_an_event_or_why_there_is_none() -> None:
    assert (
        state_or_code(b'{"id":"x","state":"delivered","lateness_ms":1}') == "delivered"
    )
    assert state_or_code(b'{"status":404,"code":"unknown_event"}') == "unknown_event"
