"""Transactions as bytes: what is asked, and what the answers are taken for."""

import msgspec
import pytest

from halfpast_loadtest.errors import RequestFailed
from halfpast_loadtest.http_wire import Response
from halfpast_loadtest.transaction_request import (
    CheckTimes,
    begin_batch_request,
    begin_request,
    begun_id,
    begun_ids,
    commit_request,
)

ID = b"01a1f807-b486-7688-9619-a5bb67a70000"
TIMES = CheckTimes(check_after_ms=1000)


def body_of(request: bytes) -> bytes:
    head, _, body = request.partition(b"\r\n\r\n")
    assert f"Content-Length: {len(body)}".encode() in head
    return body


def test_a_begin_carries_the_data_byte_for_byte() -> None:
    body = body_of(begin_request("g", "orders", b'{"a": 1.50}'))
    assert b'"data":{"a": 1.50}' in body
    assert msgspec.json.decode(body)["producer_group"] == "g"
    assert "check_after_ms" not in msgspec.json.decode(body)  # the server's own


def test_a_batch_of_begins_carries_raw_bytes_and_the_times() -> None:
    body = msgspec.msgpack.decode(
        body_of(begin_batch_request("g", "orders", [b"1", b"2"], TIMES))
    )
    assert [one["messages"][0]["data"] for one in body["transactions"]] == [b"1", b"2"]
    assert {one["check_after_ms"] for one in body["transactions"]} == {1000}


def test_a_commit_names_the_transaction_and_has_no_body() -> None:
    request = commit_request(ID)
    assert request.startswith(b"POST /v1/transactions/" + ID + b":commit HTTP/1.1\r\n")
    assert body_of(request) == b""


def test_the_id_is_cut_out_of_the_answer() -> None:
    answer = Response(201, b"", b'{"id":"' + ID + b'","state":"prepared"}')
    assert begun_id(answer) == ID
    assert begun_id(Response(503, b"", b"{}")) is None
    with pytest.raises(RequestFailed):
        begun_id(Response(201, b"", b'{"state":"prepared"}'))


def test_a_batch_must_begin_as_a_whole() -> None:
    good = {"index": 0, "status": 201, "id": "a"}
    bad = {"index": 1, "status": 422}
    answer = msgspec.msgpack.encode({"results": [good]})
    assert begun_ids(Response(200, b"", answer)) == ["a"]
    answer = msgspec.msgpack.encode({"results": [good, bad]})
    with pytest.raises(RequestFailed):
        begun_ids(Response(200, b"", answer))
