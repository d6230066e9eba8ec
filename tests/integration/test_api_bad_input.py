"""Bad input over HTTP: each kind is refused with a reason, and nothing is stored."""

import gzip
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from tests.integration.api_server import Api, Reply, serve
from tests.integration.api_stub import StubServices

from halfpast_api.config import ApiConfig, BodyLimits

pytestmark = pytest.mark.asyncio
EVENTS = "/v1/topics/orders/events"
JSON = {"Content-Type": "application/json"}
SMALL = BodyLimits(single_max=100_000, batch_max=200_000, held_max=1_000_000)


@pytest_asyncio.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    """Fails the test if anything was stored."""
    services = StubServices()
    config = ApiConfig(port=0, bodies=SMALL)
    async with serve(*services.all, tmp_path, config) as api:
        yield api
    assert services.appended == []


async def refused(api: Api, event: dict[str, Any]) -> Reply:
    reply = await api.post(EVENTS, {"data": 1} | event)
    assert reply.status == 422, reply
    return reply


@pytest.mark.parametrize(
    ("event", "pointer"),
    [
        ({"dealy": "PT5S"}, "/dealy"),
        ({"topic": "orders"}, "/topic"),
        ({"id": "01936f1e-8c00-7abc-8def-0123456789ab"}, "/id"),
    ],
)
async def test_unknown_fields(api: Api, event: dict[str, Any], pointer: str) -> None:
    reply = await refused(api, event)
    assert (reply.code, reply.pointers) == ("unknown_field", [pointer])


@pytest.mark.parametrize(
    ("event", "pointer"),
    [
        ({"key": 5}, "/key"),
        ({"tag": ["a"]}, "/tag"),
        ({"delay_ms": "5"}, "/delay_ms"),
        ({"delay_ms": 1.5}, "/delay_ms"),
        ({"delay": 5}, "/delay"),
        ({"deliver_at": 1795168800}, "/deliver_at"),
        ({"properties": {"a": 1}}, "/properties"),
        ({"properties": "a"}, "/properties"),
    ],
)
async def test_wrong_types(api: Api, event: dict[str, Any], pointer: str) -> None:
    assert (await refused(api, event)).pointers == [pointer]


async def test_a_wrong_type_in_a_batch_is_pointed_to(api: Api) -> None:
    events = [{"topic": "orders", "data": 1, "delay": 5}]
    reply = await api.post("/v1/events:batch", {"events": events, "atomic": True})
    assert (reply.status, reply.pointers) == (422, ["/events/0/delay"])


@pytest.mark.parametrize(
    "names",
    [
        ["deliver_at", "delay"],
        ["deliver_at", "delay_ms"],
        ["delay", "delay_ms"],
        ["deliver_at", "delay", "delay_ms"],
    ],
)
async def test_two_times_at_once(api: Api, names: list[str]) -> None:
    times = {"deliver_at": "2030-01-01T00:00:00Z", "delay": "PT5S", "delay_ms": 5}
    reply = await refused(api, {name: times[name] for name in names})
    assert reply.code == "several_times"
    assert all(name in reply.body["detail"] for name in names)


@pytest.mark.parametrize("text", ["2030-01-01T00:00:00", "2030-01-01 00:00:00.5"])
async def test_naive_datetimes(api: Api, text: str) -> None:
    reply = await refused(api, {"deliver_at": text})
    assert (reply.code, reply.pointers) == ("invalid_time", ["/deliver_at"])
    assert "no offset" in reply.body["detail"]


@pytest.mark.parametrize(
    "text", ["", "tomorrow", "1795168800", "2030-01-01", "2030-13-01T00:00:00Z"]
)
async def test_times_that_are_none(api: Api, text: str) -> None:
    assert (await refused(api, {"deliver_at": text})).code == "invalid_time"


@pytest.mark.parametrize("time", [{"delay_ms": -1}, {"delay": "-PT5S"}])
async def test_negative_delays(api: Api, time: dict[str, Any]) -> None:
    reply = await refused(api, time)
    assert reply.code == "invalid_time"
    assert "negative" in reply.body["detail"]


@pytest.mark.parametrize(
    "time",
    [
        {"delay": "P4000D"},
        {"delay": "PT99999999999999999999H"},
        {"delay_ms": 2**63},
        {"delay_ms": 10**40},
        {"deliver_at": "9999-12-31T23:59:59Z"},
    ],
)
async def test_absurd_delays_name_the_limit(api: Api, time: dict[str, Any]) -> None:
    reply = await refused(api, time)
    assert reply.code == "delay_too_long"
    assert "3660 days" in reply.body["detail"]


@pytest.mark.parametrize("text", ["P1M", "P1Y", "P1Y2M", "P3W"])
async def test_month_and_year_durations(api: Api, text: str) -> None:
    reply = await refused(api, {"delay": text})
    assert (reply.code, reply.pointers) == ("invalid_time", ["/delay"])
    assert "years, months or weeks" in reply.body["detail"]


@pytest.mark.parametrize(
    ("segment", "status"),
    [
        ("a%2Fb", 422),
        ("a/b", 404),
        ("a.b", 422),
        ("..", 422),
        ("%2e%2e", 422),
        ("a%00b", 422),
        ("a" * 200, 422),
        ("a%20b", 422),
        ("%C3%A9", 422),
        ("%FF", 400),
        ("", 422),
        ("SYS_SCHEDULE", 422),
        ("TRANS_CHECK_MAX_TIME", 422),
        ("%25DLQ%25g", 422),
    ],
)
async def test_bad_topics(api: Api, segment: str, status: int) -> None:
    reply = await api.post(f"/v1/topics/{segment}/events", {"data": 1})
    assert reply.status == status
    assert reply.code


@pytest.mark.parametrize("name", ["a/b", "a.b", "a\0b", "a" * 200, "", "SYS_SCHEDULE"])
async def test_bad_topics_in_a_batch(api: Api, name: str) -> None:
    reply = await api.post("/v1/events:batch", {"events": [{"topic": name, "data": 1}]})
    assert reply.body["results"][0]["status"] == 422


async def test_a_body_over_the_limit_is_refused_before_it_is_sent(api: Api) -> None:
    head = b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    head %= EVENTS.encode()
    answer = await api.raw(head + b"Content-Length: 100001\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"Connection: close" in answer
    assert b"up to 100000 bytes" in answer
    asked = await api.raw(
        head + b"Content-Length: 100001\r\nExpect: 100-continue\r\n\r\n"
    )
    assert asked.startswith(b"HTTP/1.1 413 ")


async def test_a_chunked_body_over_the_limit(api: Api) -> None:
    head = b"POST %s HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunk = b"8000\r\n" + b" " * 0x8000 + b"\r\n"
    answer = await api.raw(head % EVENTS.encode() + chunk * 4)
    assert answer.startswith(b"HTTP/1.1 413 ")


async def test_a_compressed_body_over_the_limit(api: Api) -> None:
    bomb = gzip.compress(b" " * 50_000_000)
    assert len(bomb) < 100_000
    headers = JSON | {"Content-Encoding": "gzip"}
    reply = await api.post(EVENTS, bomb, headers=headers)
    assert (reply.status, reply.code) == (413, "body_too_large")


async def test_a_body_that_is_not_what_its_encoding_says(api: Api) -> None:
    headers = JSON | {"Content-Encoding": "gzip"}
    reply = await api.post(EVENTS, b'{"data":1}' * 100, headers=headers)
    assert (reply.status, reply.code) == (400, "malformed_body")


async def test_data_over_the_limit_of_the_topic(tmp_path: Path) -> None:
    services = StubServices()
    async with serve(*services.all, tmp_path) as api:
        reply = await api.post(EVENTS, {"data": "x" * (4 * 1024 * 1024)})
        assert (reply.status, reply.code) == (413, "event_too_large")
        exactly = {"data": "x" * (4 * 1024 * 1024 - 2)}
        assert (await api.post(EVENTS, exactly)).status == 201


async def test_more_receipts_than_can_be_settled_at_once(tmp_path: Path) -> None:
    services = StubServices()
    async with serve(*services.all, tmp_path) as api:
        receipts = ["QUJD"] * 10_001
        reply = await api.post("/v1/groups/g:ack", {"receipts": receipts})
        assert (reply.status, reply.pointers) == (422, ["/receipts"])


@pytest.mark.parametrize(
    "body",
    [
        b'{"data":"\xff"}',
        b'{"data":{"\xc3\x28":1}}',
        b'{"data":1,"key":"\xed\xa0\x80"}',
        b"\xff\xfe{\x00}\x00",
    ],
)
async def test_invalid_utf8(api: Api, body: bytes) -> None:
    reply = await api.post(EVENTS, body, headers=JSON)
    assert (reply.status, reply.code) == (400, "malformed_json")
    assert "not UTF-8 at byte" in reply.body["detail"]


@pytest.mark.parametrize("body", [b'{"data":"\\ud800"}', b'{"data":["\\udc00 "]}'])
async def test_half_characters(api: Api, body: bytes) -> None:
    reply = await api.post(EVENTS, body, headers=JSON)
    assert (reply.status, reply.code) == (400, "malformed_json")


@pytest.mark.parametrize(
    "body", [b"", b"{", b"{'data':1}", b'{"data":1}}', b'{"data":NaN}', b"data=1"]
)
async def test_what_is_not_json(api: Api, body: bytes) -> None:
    reply = await api.post(EVENTS, body, headers=JSON)
    assert (reply.status, reply.code) == (400, "malformed_json")


@pytest.mark.parametrize("depth", [128, 1_000, 40_000])
async def test_deep_json(api: Api, depth: int) -> None:
    for nested in ("[" * depth + "]" * depth, '{"a":' * depth + "1" + "}" * depth):
        body = f'{{"data":{nested}}}'.encode()[:99_999]
        reply = await api.post(EVENTS, body, headers=JSON)
        assert (reply.status, reply.code) == (422, "too_deep")
        batch = b'{"events":[{"topic":"orders","data":' + nested.encode() + b"}]}"
        reply = await api.post("/v1/events:batch", batch[:199_999], headers=JSON)
        assert (reply.status, reply.code) == (422, "too_deep")


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        (b'{"data":1,"data":2}', "/data"),
        (b'{"data":1,"delay":"PT5S","delay":"PT6S"}', "/delay"),
        (b'{"data":1, "delay":"PT5S", "d\\u0065lay":"PT6S"}', "/delay"),
        (b'{"data":1,"key":null,"key":"k"}', "/key"),
        (b'{"data":1,"properties":{"a":"1","a":"2"}}', "/properties/a"),
    ],
)
async def test_duplicate_keys(api: Api, body: bytes, pointer: str) -> None:
    reply = await api.post(EVENTS, body, headers=JSON)
    assert (reply.status, reply.code) == (422, "duplicate_key")
    assert reply.pointers == [pointer]


async def test_duplicate_keys_in_a_batch(api: Api) -> None:
    body = b'{"events":[{"topic":"orders","data":1,"data":2}],"atomic":true}'
    reply = await api.post("/v1/events:batch", body, headers=JSON)
    assert (reply.code, reply.pointers) == ("duplicate_key", ["/events/0/data"])
    body = body.replace(b"true", b"false")
    reply = await api.post("/v1/events:batch", body, headers=JSON)
    assert reply.body["results"][0]["problem"]["code"] == "duplicate_key"


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/xml", "multipart/form-data; boundary=x"]
)
async def test_wrong_content_types(api: Api, kind: str) -> None:
    reply = await api.post(EVENTS, b'{"data":1}', headers={"Content-Type": kind})
    assert (reply.status, reply.code) == (415, "unsupported_media_type")


async def test_a_web_page_of_somebody_else(api: Api) -> None:
    headers = {
        "Content-Type": "application/x-www-form-urlencoded",
        "Origin": "https://evil.example",
    }
    reply = await api.post(EVENTS, b'{"data":1}', headers=headers)
    assert reply.code == "unsupported_media_type"


@pytest.mark.parametrize("key", ["", "a b", "é", "k" * 256])
async def test_bad_idempotency_keys(api: Api, key: str) -> None:
    reply = await api.post(EVENTS, {"data": 1}, headers={"Idempotency-Key": key})
    assert (reply.status, reply.code) == (422, "invalid_idempotency_key")


@pytest.mark.parametrize("event_id", ["1", "x" * 36, "%00", "01936f1e8c007abc"])
async def test_bad_event_ids(api: Api, event_id: str) -> None:
    for method in ("GET", "DELETE"):
        reply = await api.call(method, f"/v1/events/{event_id}")
        assert (reply.status, reply.code) == (422, "invalid_event_id")


@pytest.mark.parametrize(
    ("method", "target", "status", "code"),
    [
        ("GET", "/", 404, "unknown_route"),
        ("GET", "/v1/nosuch", 404, "unknown_route"),
        ("GET", "/v1/topics/a/events/k/x", 404, "unknown_route"),
        ("GET", EVENTS, 405, "method_not_allowed"),
        ("DELETE", "/v1/events", 405, "method_not_allowed"),
        ("OPTIONS", EVENTS, 405, "method_not_allowed"),
        ("BREW", "/healthz", 400, "malformed_http"),
        ("GET", "/v1/events/%ff", 400, "malformed_path"),
    ],
)
async def test_wrong_routes(
    api: Api, method: str, target: str, status: int, code: str
) -> None:
    reply = await api.call(method, target)
    assert (reply.status, reply.code) == (status, code)
    if status == 405:
        assert reply.headers["Allow"]


async def test_every_problem_repeats_the_id_of_the_request(api: Api) -> None:
    reply = await api.get("/nosuch", headers={"X-Request-Id": "mine-1"})
    assert reply.body["request_id"] == "mine-1"
    reply = await api.get("/nosuch", headers={"X-Request-Id": "not <sane>"})
    assert reply.body["request_id"] == reply.headers["X-Request-Id"]
    assert "sane" not in reply.headers["X-Request-Id"]


async def test_a_large_batch_of_tiny_events_is_counted_before_it_is_decoded(
    tmp_path: Path,
) -> None:
    services = StubServices()
    async with serve(*services.all, tmp_path) as api:
        body = json.dumps({"events": [{"topic": "a", "data": 1}] * 100_000}).encode()
        reply = await api.post("/v1/events:batch", body, headers=JSON)
        assert (reply.status, reply.code) == (422, "too_many_events")
