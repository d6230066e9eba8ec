"""Bodies of requests that publish, and what their answers say.

`data` is put into the body as the JSON text it is, byte for byte.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec

from halfpast_loadtest.message import to_ms, to_rfc3339


class Accepted(NamedTuple):
    """What a 2xx promised for one event. `due_ms` is None if it is due at once."""

    event_id: str
    state: str
    due_ms: int | None


class BatchItem(NamedTuple):
    """One result of a batch; `accepted` is None where the event was refused."""

    status: int
    accepted: Accepted | None


def event_body(
    data: bytes,
    *,
    topic: str | None = None,
    key: str | None = None,
    tag: str | None = None,
    properties: Mapping[str, str] | None = None,
    due_ms: int | None = None,
    delay_ms: int | None = None,
) -> bytes:
    """The body of one publish request, or (with `topic`) one entry of a batch."""
    assert due_ms is None or delay_ms is None
    body: dict[str, object] = {"data": msgspec.Raw(data)}
    if topic is not None:
        body["topic"] = topic
    if key is not None:
        body["key"] = key
    if tag is not None:
        body["tag"] = tag
    if properties:
        body["properties"] = dict(properties)
    if due_ms is not None:
        body["deliver_at"] = to_rfc3339(due_ms)
    if delay_ms is not None:
        body["delay_ms"] = delay_ms
    return msgspec.json.encode(body)


def due_body(due_ms: int) -> bytes:
    """The body of a PATCH that moves an event to an absolute time."""
    return b'{"deliver_at":"%s"}' % to_rfc3339(due_ms).encode()


def batch_body(events: Sequence[bytes], *, atomic: bool = False) -> bytes:
    """The body of /v1/events:batch. `events` are bodies with their topic."""
    tail = b'],"atomic":true}' if atomic else b"]}"
    return b'{"events":[' + b",".join(events) + tail


def parse_accepted(body: bytes) -> Accepted:
    """The answer to a publish, PUT or PATCH."""
    return _accepted(_ACCEPTED.decode(body))


def parse_batch(body: bytes) -> list[BatchItem]:
    """The answer to a batch, one item per event in the order they were sent."""
    results = sorted(_BATCH.decode(body).results, key=lambda item: item.index)
    return [
        BatchItem(item.status, _accepted(item) if 200 <= item.status < 300 else None)
        for item in results
    ]


def problem_code(body: bytes) -> str:
    """The `code` of a problem+json answer, empty if there is none."""
    try:
        return _PROBLEM.decode(body).code
    except msgspec.DecodeError:
        return ""


def state_or_code(body: bytes) -> str:
    """The state in an answer about one event, or the `code` of a problem."""
    answer = _STATE.decode(body)
    return answer.state or answer.code


class _Accepted(msgspec.Struct):
    id: str
    state: str
    deliver_at: datetime | None = None


class _BatchItem(msgspec.Struct):
    index: int
    status: int
    id: str = ""
    state: str = ""
    deliver_at: datetime | None = None


class _Batch(msgspec.Struct):
    results: list[_BatchItem]


class _State(msgspec.Struct):
    state: str = ""
    code: str = ""


class _Problem(msgspec.Struct):
    code: str = ""


_ACCEPTED = msgspec.json.Decoder(_Accepted)
_BATCH = msgspec.json.Decoder(_Batch)
_STATE = msgspec.json.Decoder(_State)
_PROBLEM = msgspec.json.Decoder(_Problem)


def _accepted(answer: _Accepted | _BatchItem) -> Accepted:
    due_ms = None if answer.deliver_at is None else to_ms(answer.deliver_at)
    return Accepted(answer.id, answer.state, due_ms)
