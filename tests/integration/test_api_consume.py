"""Consumers over HTTP: groups, receipts, long polls, pulls; and administration."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import ClientError
from tests.integration.api_server import Api, Reply, running_api

pytestmark = pytest.mark.asyncio


@pytest_asyncio.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    async with running_api(tmp_path) as api:
        yield api


async def settle(
    api: Api, group: str, verb: str, *receipts: str, **options: Any
) -> list[dict[str, Any]]:
    body = {"receipts": receipts} | options
    reply = await api.post(f"/v1/groups/{group}:{verb}", body)
    assert reply.status == 200, reply
    results: list[dict[str, Any]] = reply.body["results"]
    assert [result["index"] for result in results] == list(range(len(receipts)))
    return results


# --- groups ---------------------------------------------------------------------


async def test_an_acknowledged_message_does_not_come_back(api: Api) -> None:
    await api.publish("orders", data=1)
    (message,) = await api.pop("g", "orders", invisible_ms=1000)
    assert await settle(api, "g", "ack", message["receipt"]) == [
        {"index": 0, "status": 200}
    ]
    assert await api.pop("g", "orders", wait_ms=1300) == []
    (again,) = await settle(api, "g", "ack", message["receipt"])
    assert (again["status"], again["problem"]["code"]) == (409, "receipt_expired")


async def test_a_refused_message_comes_back_with_a_higher_attempt(api: Api) -> None:
    await api.publish("orders", data=1)
    (message,) = await api.pop("g", "orders")
    (result,) = await settle(api, "g", "nack", message["receipt"], delay_ms=0)
    assert result["status"] == 200
    (again,) = await api.pop("g", "orders", wait_ms=5000)
    assert (again["id"], again["attempt"]) == (message["id"], 2)
    assert again["receipt"] != message["receipt"]


async def test_an_extended_message_has_a_new_receipt(api: Api) -> None:
    await api.publish("orders", data=1)
    (message,) = await api.pop("g", "orders", invisible_ms=1000)
    (result,) = await settle(
        api, "g", "extend", message["receipt"], invisible_ms=60_000
    )
    assert result["status"] == 200
    assert await api.pop("g", "orders", wait_ms=1300) == []
    (old,) = await settle(api, "g", "ack", message["receipt"])
    assert old["problem"]["code"] == "receipt_expired"
    assert await settle(api, "g", "ack", result["receipt"]) == [
        {"index": 0, "status": 200}
    ]


async def test_each_receipt_has_its_own_result(api: Api) -> None:
    for number in range(2):
        await api.publish("orders", data=number, key="k")
    mine = await api.pop("g", "orders")
    (theirs, _) = await api.pop("other", "orders")
    receipts = ["", mine[0]["receipt"], "no receipt!", theirs["receipt"], "QUJD"]
    results = await settle(api, "g", "ack", *receipts, mine[1]["receipt"])
    assert [result["status"] for result in results] == [422, 200, 422, 422, 422, 200]
    codes = [result["problem"]["code"] for result in results if "problem" in result]
    assert codes == [
        *("malformed_receipt", "malformed_receipt"),
        *("receipt_of_another_group", "malformed_receipt"),
    ]


async def test_a_filter_takes_some_tags(api: Api) -> None:
    for tag in ("paid", "open", "refunded", None):
        await api.publish("orders", data=tag, key="k", **({"tag": tag} if tag else {}))
    found = await api.pop("g", "orders", filter="paid || refunded")
    assert [message["tag"] for message in found] == ["paid", "refunded"]
    assert len(await api.pop("all", "orders", filter="*")) == 4


async def test_settings_of_a_group_apply(api: Api) -> None:
    reply = await api.put("/v1/groups/g", {"max_attempts": 1, "invisible_ms": 1000})
    assert reply.status == 201
    await api.publish("orders", data=1)
    (message,) = await api.pop("g", "orders")
    await settle(api, "g", "nack", message["receipt"], delay_ms=0)
    (dead,) = await api.pop("undertaker", "%DLQ%g", wait_ms=5000)
    assert (dead["id"], dead["topic"]) == (message["id"], "%DLQ%g")
    assert dead["properties"]["dead_letter_topic"] == "orders"


async def test_a_reason_stays_with_the_dead_letter(api: Api) -> None:
    await api.put("/v1/groups/g", {"max_attempts": 1})
    await api.publish("orders", data=1)
    (message,) = await api.pop("g", "orders", wait_ms=5000)
    body = {"receipts": [message["receipt"]], "reason": "no such customer"}
    assert (await api.post("/v1/groups/g:nack", body)).status == 200
    (dead,) = await api.pop("undertaker", "%DLQ%g", wait_ms=5000)
    assert dead["properties"]["dead_letter_reason"] == "no such customer"
    listed = (await api.get("/v1/dead-letters?source=group&group=g")).body
    assert [it["reason"] for it in listed["dead_letters"]] == ["no such customer"]
    too_long = {"receipts": [message["receipt"]], "reason": "x" * 501}
    assert (await api.post("/v1/groups/g:nack", too_long)).status == 422


@pytest.mark.parametrize(
    ("group", "body", "code"),
    [
        ("g", {}, "missing_field"),
        ("g", {"topic": "a/b"}, "invalid_topic"),
        ("g", {"topic": "SYS_SCHEDULE"}, "reserved_topic"),
        ("g", {"topic": "t", "max": 0}, "invalid_request"),
        ("g", {"topic": "t", "max": 1001}, "invalid_request"),
        ("g", {"topic": "t", "wait_ms": 30_001}, "invalid_request"),
        ("g", {"topic": "t", "invisible_ms": 999}, "invalid_request"),
        ("g", {"topic": "t", "filter": "a||"}, "invalid_request"),
        ("g", {"topic": "t", "size": 1}, "unknown_field"),
        ("a.b", {"topic": "t"}, "invalid_group"),
        ("SYS_g", {"topic": "t"}, "reserved_group"),
    ],
)
async def test_a_wrong_pop_is_refused(
    api: Api, group: str, body: dict[str, Any], code: str
) -> None:
    reply = await api.post(f"/v1/groups/{group}:pop", body)
    assert (reply.status, reply.code) == (422, code)


async def test_dead_letters_that_are_not_there_are_unknown(api: Api) -> None:
    reply = await api.post("/v1/groups/g:pop", {"topic": "%DLQ%nobody"})
    assert (reply.status, reply.code) == (404, "unknown_topic")


# --- waiting --------------------------------------------------------------------


async def test_a_waiting_pop_is_woken(api: Api) -> None:
    pop = asyncio.create_task(api.pop("g", "orders", wait_ms=20_000))
    await asyncio.sleep(0.1)
    began = time.monotonic()
    await api.publish("orders", data=1)
    assert len(await pop) == 1
    assert time.monotonic() - began < 2


async def test_a_waiting_pop_ends_when_its_client_leaves(api: Api) -> None:
    pop = asyncio.create_task(api.pop("g", "orders", wait_ms=20_000))
    await until(api, "halfpast_http_long_polls 1.0")
    pop.cancel()
    await until(api, "halfpast_http_long_polls 0.0")
    await api.publish("orders", data=1)
    assert len(await api.pop("g", "orders")) == 1  # nobody else has taken it


async def test_waiting_requests_end_empty_when_the_server_stops(api: Api) -> None:
    pop = asyncio.create_task(
        api.post("/v1/groups/g:pop", {"topic": "orders", "wait_ms": 20_000})
    )
    pull = asyncio.create_task(
        api.get("/v1/topics/orders/queues/0/messages?wait_ms=20000")
    )
    await until(api, "halfpast_http_long_polls 2.0")
    began = time.monotonic()
    await api.stop()
    assert time.monotonic() - began < 5
    popped, pulled = await pop, await pull
    assert (popped.status, popped.body) == (200, {"messages": []})
    assert (pulled.status, pulled.body["messages"]) == (200, [])
    with pytest.raises(ClientError):
        await api.get("/healthz")


# --- queues ---------------------------------------------------------------------


async def test_a_queue_is_read_by_offset(api: Api) -> None:
    for number in range(5):
        await api.publish("orders", data=number, key="k")
    (queue,) = {m["queue"] for m in await api.pop("g", "orders")}
    target = f"/v1/topics/orders/queues/{queue}/messages"
    page = (await api.get(f"{target}?offset=1&max=2")).body
    assert [message["data"] for message in page["messages"]] == [1, 2]
    assert (page["next_offset"], page["min_offset"], page["max_offset"]) == (3, 0, 5)
    assert "receipt" not in page["messages"][0]
    end = (await api.get(f"{target}?offset=5")).body
    assert (end["messages"], end["next_offset"]) == ([], 5)
    waiting = asyncio.create_task(api.get(f"{target}?offset=5&wait_ms=10000"))
    await asyncio.sleep(0.1)
    await api.publish("orders", data=5, key="k")
    assert [m["data"] for m in (await waiting).body["messages"]] == [5]


@pytest.mark.parametrize(
    ("target", "status", "code"),
    [
        ("orders/queues/0/messages?offset=1", 422, "offset_out_of_range"),
        ("orders/queues/0/messages?offset=9999999999", 422, "offset_out_of_range"),
        ("orders/queues/0/messages?offset=1&wait_ms=50", 422, "offset_out_of_range"),
        ("orders/queues/4/messages", 404, "unknown_queue"),
        ("orders/queues/-1/messages", 422, "invalid_parameter"),
        ("orders/queues/x/messages", 422, "invalid_parameter"),
        ("orders/queues/0/messages?offset=-1", 422, "invalid_parameter"),
        ("orders/queues/0/messages?offset=x", 422, "invalid_parameter"),
        ("orders/queues/0/messages?max=1001", 422, "invalid_parameter"),
        ("a%2Fb/queues/0/messages", 422, "invalid_topic"),
        ("SYS_SCHEDULE/queues/0/messages", 422, "reserved_topic"),
    ],
)
async def test_a_wrong_pull_is_refused(
    api: Api, target: str, status: int, code: str
) -> None:
    reply = await api.get(f"/v1/topics/{target}")
    assert (reply.status, reply.code) == (status, code)


# --- administration -------------------------------------------------------------


async def test_a_topic_is_administered(api: Api) -> None:
    made = await api.post("/v1/topics", {"name": "orders", "queues": 2})
    assert (made.status, made.headers["Location"]) == (201, "/v1/topics/orders")
    body = made.body
    assert (body["queues"], len(body["queue_offsets"])) == (2, 2)
    shown = (await api.get("/v1/topics/orders")).body
    assert shown.pop("release")["state"] == "open"
    assert shown == body
    again = await api.post("/v1/topics", {"name": "orders"})
    assert (again.status, again.code) == (409, "topic_exists")
    etag = made.headers["ETag"]
    wider = await api.patch(
        "/v1/topics/orders", {"queues": 6}, headers={"If-Match": etag}
    )
    assert (wider.status, wider.body["queues"]) == (200, 6)
    stale = await api.patch(
        "/v1/topics/orders", {"queues": 8}, headers={"If-Match": etag}
    )
    assert (stale.status, stale.code) == (412, "stale_version")
    less = await api.patch("/v1/topics/orders", {"queues": 1})
    assert (less.status, less.code) == (422, "queues_shrink")
    kept = await api.put("/v1/topics/orders", {"description": "of customers"})
    assert (kept.body["queues"], kept.body["description"]) == (6, "of customers")
    bad = await api.put("/v1/topics/orders", {"max_delay_ms": -1})
    assert (bad.status, bad.code) == (422, "invalid_settings")
    assert bad.pointers == ["/max_delay_ms"]
    new = await api.put("/v1/topics/bills", {}, headers={"If-None-Match": "*"})
    assert new.status == 201
    taken = await api.put("/v1/topics/bills", {}, headers={"If-None-Match": "*"})
    assert (taken.status, taken.code) == (412, "stale_version")
    assert (await api.get("/v1/topics/nosuch")).code == "unknown_topic"
    assert (await api.patch("/v1/topics/nosuch", {})).code == "unknown_topic"


async def test_settings_of_a_topic_apply_at_once(api: Api) -> None:
    await api.publish("orders", data=1)
    await api.patch("/v1/topics/orders", {"max_delay_ms": 1000, "max_body_bytes": 10})
    late = await api.post("/v1/topics/orders/events", {"data": 1, "delay": "PT2S"})
    assert (late.status, late.code) == (422, "delay_too_long")
    assert "1000" in late.body["detail"]
    large = await api.post("/v1/topics/orders/events", {"data": "x" * 20})
    assert (large.status, large.code) == (413, "event_too_large")


async def test_topics_and_groups_are_listed_page_by_page(api: Api) -> None:
    for name in ("b", "a", "c%d"):
        await api.publish(name.replace("%", "%25"), data=1)
    await api.put("/v1/groups/only-settings", {})
    for group in ("g2", "g1"):
        await api.pop(group, "a")
    assert await names_of(api, "topics") == ["a", "b", "c%d"]
    assert await names_of(api, "groups") == ["g1", "g2", "only-settings"]


async def names_of(api: Api, kind: str) -> list[str]:
    found: list[str] = []
    token = ""
    while True:
        page = (await api.get(f"/v1/{kind}?limit=2{token}")).body
        found += [entry["name"] for entry in page[kind]]
        if page["next_page_token"] is None:
            return found
        token = f"&page_token={page['next_page_token']}"


async def test_a_group_is_administered(api: Api) -> None:
    assert (await api.get("/v1/groups/g")).code == "unknown_group"
    made = await api.put("/v1/groups/g", {"max_attempts": 3})
    assert (made.status, made.body["max_attempts"]) == (201, 3)
    again = await api.put(
        "/v1/groups/g", {"max_attempts": 4}, headers={"If-Match": made.headers["ETag"]}
    )
    assert (again.status, again.body["max_attempts"]) == (200, 4)
    stale = await api.put("/v1/groups/g", {}, headers={"If-Match": '"1000"'})
    assert (stale.status, stale.code) == (412, "stale_version")
    bad = await api.put("/v1/groups/g", {"max_attempts": 0})
    assert (bad.code, bad.pointers) == ("invalid_settings", ["/max_attempts"])
    await api.publish("orders", data=1)
    await api.pop("used", "orders")
    used = (await api.get("/v1/groups/used")).body
    assert (used["name"], used["version"]) == ("used", 0)
    assert (await api.get("/v1/groups/use")).code == "unknown_group"


async def test_lag_is_told_and_offsets_are_moved(api: Api) -> None:
    for number in range(3):
        await api.publish("orders", data=number, key="k")
    (first, *_) = await api.pop("g", "orders")
    target = "/v1/groups/g/lag?topic=orders"
    lag = (await api.get(target)).body
    assert (lag["lag"], lag["in_flight"]) == (3, 3)
    queue = first["queue"]
    assert lag["queues"][queue] == {
        **{"queue": queue, "offset": 3, "min_offset": 0, "max_offset": 3, "lag": 0}
    }
    moved = await api.put(
        "/v1/groups/g/offsets", {"topic": "orders", "offsets": {str(queue): 1}}
    )
    assert moved.status == 200
    assert moved.body["queues"][queue]["offset"] == 1
    assert [m["data"] for m in await api.pop("g", "orders")] == [1, 2]
    assert (await api.get("/v1/groups/nosuch/lag?topic=orders")).code == "unknown_group"
    assert (await api.get("/v1/groups/g/lag?topic=nosuch")).code == "unknown_topic"
    assert (await api.get("/v1/groups/g/lag")).code == "invalid_parameter"


@pytest.mark.parametrize(
    ("offsets", "status", "code"),
    [
        ({"0": 99}, 422, "offset_out_of_range"),
        ({"9": 0}, 404, "unknown_queue"),
        ({"-1": 0}, 422, "invalid_request"),
        ({"0": -1}, 422, "invalid_request"),
        ({"x": 1}, 422, "invalid_request"),
        ({}, 422, "invalid_request"),
    ],
)
async def test_wrong_offsets_are_refused(
    api: Api, offsets: dict[str, int], status: int, code: str
) -> None:
    await api.publish("orders", data=1)
    body = {"topic": "orders", "offsets": offsets}
    reply = await api.put("/v1/groups/g/offsets", body)
    assert (reply.status, reply.code) == (status, code)


# --- operation ------------------------------------------------------------------


async def test_health_and_metrics(api: Api) -> None:
    assert (await api.get("/healthz")).body == {"status": "ok"}
    ready = await api.get("/readyz")
    assert ready.body == {
        **{"status": "ready", "broker": "ok", "delay": "ok", "metadata": "ok"},
        "transactions": "ok",
    }
    await api.publish("orders", data=1, delay_ms=1)
    await api.pop("g", "orders", wait_ms=5000)
    # The Delay Server hears of its own firings a little later, several at once.
    async with asyncio.timeout(30):
        while "halfpast_fired_total 1.0" not in (
            text := (await api.get("/metrics")).content.decode()
        ):
            continue
    assert 'halfpast_up{service="broker"} 1.0' in text
    assert "# TYPE halfpast_lateness_ms histogram" in text
    assert 'halfpast_lateness_ms_bucket{le="+Inf"} 1.0' in text
    assert (
        'halfpast_http_requests_total{method="POST",'
        'route="/v1/topics/{topic}/events",status="2xx"} 1.0' in text
    )
    head = await api.call("HEAD", "/healthz")
    assert (head.status, head.content) == (200, b"")


async def until(api: Api, line: str) -> Reply:
    """Wait until the metrics have this line."""
    for _ in range(500):
        if line in (reply := await api.get("/metrics")).content.decode():
            return reply
        await asyncio.sleep(0.02)
    raise AssertionError(f"the metrics never had {line}")
