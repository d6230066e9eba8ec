"""Requests about transactions as bytes, and what their answers say.

A transaction over plain HTTP is two requests: one begins it with all its messages,
one ends it. `data` is put into the body as the JSON text it is, byte for byte.
"""

from collections.abc import Sequence

import msgspec

from halfpast_loadtest.errors import RequestFailed
from halfpast_loadtest.http_wire import MSGPACK, Response, request_bytes

ID_SIZE = 36
_ID = b'"id":"'
_COMMIT_HEAD = b"POST /v1/transactions/"
_COMMIT_TAIL = (
    b":commit HTTP/1.1\r\nHost: halfpast\r\nContent-Type: application/json\r\n"
    b"Content-Length: 0\r\n\r\n"
)


class CheckTimes(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """When the server asks back; what is None is the server's default."""

    check_after_ms: int | None = None
    check_interval_ms: int | None = None
    check_max: int | None = None


def begin_request(
    group: str, topic: str, data: bytes, times: CheckTimes | None = None
) -> bytes:
    """Begin a transaction with one message."""
    body = {
        "producer_group": group,
        "messages": [{"topic": topic, "data": msgspec.Raw(data)}],
        **msgspec.to_builtins(times or CheckTimes()),
    }
    return request_bytes("POST", "/v1/transactions", msgspec.json.encode(body))


def begin_batch_request(
    group: str, topic: str, datas: Sequence[bytes], times: CheckTimes
) -> bytes:
    """Begin many transactions, each with one message, as msgpack with raw bytes."""
    shared = {"producer_group": group, **msgspec.to_builtins(times)}
    begins = [{**shared, "messages": [{"topic": topic, "data": one}]} for one in datas]
    return request_bytes(
        "POST",
        "/v1/transactions:batch",
        msgspec.msgpack.encode({"transactions": begins}),
        content_type=MSGPACK,
    )


def commit_request(transaction_id: bytes) -> bytes:
    """Commit the transaction of this id, as the answer to its begin spelled it."""
    return _COMMIT_HEAD + transaction_id + _COMMIT_TAIL


def begun_id(response: Response) -> bytes | None:
    """The id of the transaction that an answer says is prepared, else None.

    It is cut out of the bytes: `id` comes first in the answer.
    """
    if response.status != 201:
        return None
    at = response.body.find(_ID) + len(_ID)
    found = response.body[at : at + ID_SIZE]
    if len(found) != ID_SIZE or at < len(_ID):
        raise RequestFailed("a begin", response.status, response.body)
    return found


def begun_ids(response: Response) -> list[str]:
    """The ids in the answer to a batch. Raises RequestFailed unless all began."""
    if response.status != 200:
        raise RequestFailed("a batch of begins", response.status, response.body)
    results = _BEGUN.decode(response.body).results
    if any(item.status != 201 for item in results):
        raise RequestFailed("a batch of begins", response.status, response.body)
    return [item.id for item in results]


def is_committed(response: Response) -> bool:
    """Whether a commit is durable. A repeated one is answered in the same way."""
    return response.status == 200


class _Item(msgspec.Struct):
    status: int
    id: str = ""


class _Begun(msgspec.Struct):
    results: list[_Item]


_BEGUN = msgspec.msgpack.Decoder(_Begun)
