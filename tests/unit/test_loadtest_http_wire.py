"""The lean HTTP client, fed by hand: no socket is opened here."""

import asyncio
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halfpast_loadtest.errors import BadResponse
from halfpast_loadtest.http_wire import (
    Exchange,
    Response,
    ResponseReader,
    request_bytes,
)

CREATED = (
    b"HTTP/1.1 201 Created\r\nContent-Type: application/json\r\n"
    b'ETag: "1"\r\ncontent-LENGTH: 11\r\n\r\n{"id":"x1"}'
)
EMPTY = b"HTTP/1.1 204 No Content\r\nServer: x\r\n\r\n"


@given(st.lists(st.integers(1, 2 * len(CREATED) + len(EMPTY)), max_size=6))
def test_answers_are_the_same_however_the_bytes_are_cut(cuts: list[int]) -> None:
    stream = CREATED + EMPTY + CREATED
    edges = [0, *sorted({cut for cut in cuts if cut < len(stream)}), len(stream)]
    reader = ResponseReader()
    answers: list[Response] = []
    for begin, end in pairwise(edges):
        answers += reader.feed(stream[begin:end])
    assert [answer.status for answer in answers] == [201, 204, 201]
    assert [answer.body for answer in answers] == [b'{"id":"x1"}', b"", b'{"id":"x1"}']


def test_headers_are_found_whatever_their_case() -> None:
    [answer] = ResponseReader().feed(CREATED)
    assert answer.header("etag") == '"1"'
    assert answer.header("Content-Type") == "application/json"
    assert answer.header("X-None") is None


@pytest.mark.parametrize(
    "wrong",
    [
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -4\r\n\r\n",
    ],
)
def test_what_is_not_understood_is_refused(wrong: bytes) -> None:
    with pytest.raises(BadResponse):
        ResponseReader().feed(wrong)


def test_a_request_carries_its_headers_and_its_length() -> None:
    request = request_bytes("POST", "/v1/x", b"{}", headers={"Idempotency-Key": "k"})
    head, _, body = request.partition(b"\r\n\r\n")
    assert body == b"{}"
    assert head.splitlines()[0] == b"POST /v1/x HTTP/1.1"
    assert {b"Content-Length: 2", b"Idempotency-Key: k"} <= set(head.splitlines())


def test_a_get_has_no_body() -> None:
    assert b"Content-Length" not in request_bytes("GET", "/readyz")


def test_a_post_without_a_body_says_so() -> None:
    assert b"Content-Length: 0\r\n" in request_bytes("POST", "/v1/events/x:deliver-now")


class _Wire(asyncio.Transport):
    """A transport that only remembers."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.aborted = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += bytes(data)

    def abort(self) -> None:
        self.aborted = True

    def is_closing(self) -> bool:
        return self.aborted


def test_an_exchange_hands_over_answers_and_losses() -> None:
    answers: list[Response] = []
    losses: list[Exception | None] = []
    wire = _Wire()
    exchange = Exchange(answers.append, losses.append)
    exchange.connection_made(wire)
    exchange.send(b"GET / HTTP/1.1\r\n\r\n")
    exchange.data_received(CREATED[:20])
    exchange.data_received(CREATED[20:])
    exchange.connection_lost(None)
    assert wire.written == b"GET / HTTP/1.1\r\n\r\n"
    assert [answer.status for answer in answers] == [201]
    assert losses == [None]
    assert not exchange.is_open


def test_nonsense_closes_the_connection() -> None:
    losses: list[Exception | None] = []
    wire = _Wire()
    exchange = Exchange(lambda _: None, losses.append)
    exchange.connection_made(wire)
    exchange.data_received(b"nonsense\r\n\r\n")
    assert wire.aborted
    assert isinstance(losses[0], BadResponse)
