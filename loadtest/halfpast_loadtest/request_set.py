"""Requests made before the clock starts: single events and batches, JSON and msgpack.

Bodies are real payloads cut or filled to one size; a set holds enough different
ones that neither side can profit from repetition.
"""

import random
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from halfpast_loadtest.event_request import batch_body, event_body
from halfpast_loadtest.http_wire import MSGPACK, Response, request_bytes
from halfpast_loadtest.message import now_ms, to_rfc3339
from halfpast_loadtest.payloads import PayloadMaker

HOUR_MS = 3_600_000


class Due(NamedTuple):
    """When an event is due: an absolute time, a delay, or (neither) at once."""

    due_ms: int | None = None
    delay_ms: int | None = None


Dues = Callable[[], Due]


def immediate() -> Due:
    """Due at once."""
    return Due()


def far_ahead(field: str = "delay_ms", seed: int = 1) -> Dues:
    """Random times in one to 24 hours: nothing comes due meanwhile.

    `field` is the one that carries them: delay_ms, or deliver_at (which costs the
    server the reading of a date).
    """
    chance = random.Random(seed)
    base_ms = now_ms()

    def due() -> Due:
        delay_ms = HOUR_MS + chance.randrange(23 * HOUR_MS)
        if field == "deliver_at":
            return Due(due_ms=base_ms + delay_ms)
        return Due(delay_ms=delay_ms)

    return due


def bodies(size: int, count: int, seed: int = 1) -> list[bytes]:
    """`count` JSON documents of exactly `size` bytes."""
    maker = PayloadMaker(seed)
    chance = random.Random(seed)
    made: list[bytes] = []
    for _ in range(count):
        payload = maker.make("payments")
        start = {"serial": payload.serial, "customer": payload.key, "pad": ""}
        room = size - len(msgspec.json.encode(start))
        start["pad"] = f"{chance.getrandbits(max(room, 1) * 4):0{max(room, 0)}x}"[:room]
        made.append(msgspec.json.encode(start))
    assert {len(body) for body in made} == {size}, "bodies of 80 bytes or more, please"
    return made


def single_requests(topic: str, datas: list[bytes], dues: Dues) -> list[bytes]:
    """One publish request per document."""
    path = f"/v1/topics/{topic}/events"
    return [
        request_bytes(
            "POST", path, event_body(data, due_ms=due.due_ms, delay_ms=due.delay_ms)
        )
        for data, due in ((data, dues()) for data in datas)
    ]


def batch_requests(
    topic: str, datas: list[bytes], size: int, dues: Dues, *, packed: bool
) -> list[bytes]:
    """The documents in batches of `size`, as JSON or as msgpack with raw bytes."""
    make = _packed_batch if packed else _json_batch
    content_type = MSGPACK if packed else "application/json"
    return [
        request_bytes(
            "POST",
            "/v1/events:batch",
            make(topic, datas[at : at + size], dues),
            content_type=content_type,
        )
        for at in range(0, len(datas) - size + 1, size)
    ]


def one_if_created(response: Response) -> int:
    """Events accepted by the answer to a single publish."""
    return 1 if response.status == 201 else 0


def created_in_batch(response: Response) -> int:
    """Events accepted by the answer to a batch, in either format."""
    if response.status != 200:
        return 0
    decoder = _PACKED if b"msgpack" in response.head else _JSON
    return sum(item.status == 201 for item in decoder.decode(response.body).results)


def _json_batch(topic: str, datas: list[bytes], dues: Dues) -> bytes:
    return batch_body(
        [
            event_body(data, topic=topic, due_ms=due.due_ms, delay_ms=due.delay_ms)
            for data, due in ((data, dues()) for data in datas)
        ]
    )


def _packed_batch(topic: str, datas: list[bytes], dues: Dues) -> bytes:
    events: list[dict[str, object]] = []
    for data in datas:
        event: dict[str, object] = {"topic": topic, "data": data}
        due = dues()
        if due.due_ms is not None:
            event["deliver_at"] = to_rfc3339(due.due_ms)
        if due.delay_ms is not None:
            event["delay_ms"] = due.delay_ms
        events.append(event)
    return msgspec.msgpack.encode({"events": events})


class _Item(msgspec.Struct):
    status: int


class _Results(msgspec.Struct):
    results: list[_Item]


_JSON = msgspec.json.Decoder(_Results)
_PACKED = msgspec.msgpack.Decoder(_Results)
