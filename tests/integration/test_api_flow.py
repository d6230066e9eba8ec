"""What people do with the API, over real HTTP on a real store."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio
from tests.integration.api_server import Api, running_api

pytestmark = pytest.mark.asyncio
LATER = {"delay": "PT1H"}


@pytest_asyncio.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    async with running_api(tmp_path) as api:
        yield api


def moment(text: str) -> datetime:
    assert text.endswith("Z")
    return datetime.fromisoformat(text)


# --- publishing -----------------------------------------------------------------


async def test_an_event_for_now_reaches_a_consumer(api: Api) -> None:
    published = await api.publish(
        "orders", data={"id": 1}, key="k", tag="paid", properties={"region": "eu"}
    )
    assert published["state"] == "stored"
    assert (published["deliver_at"], published["due_in_ms"]) == (None, 0)
    (message,) = await api.pop("g", "orders")
    assert message["id"] == published["id"]
    assert message["data"] == {"id": 1}
    assert (message["key"], message["tag"]) == ("k", "paid")
    assert message["properties"] == {"region": "eu"}
    assert (message["attempt"], message["deliver_at"]) == (1, None)


async def test_a_scheduled_event_is_delivered_when_due_and_not_before(api: Api) -> None:
    reply = await api.post("/v1/topics/orders/events", {"data": 1, "delay_ms": 300})
    assert (reply.status, reply.headers["ETag"]) == (201, '"1"')
    published = reply.body
    assert reply.headers["Location"] == f"/v1/events/{published['id']}"
    assert (published["state"], published["due_in_ms"]) == ("scheduled", 300)
    assert moment(published["server_time"]) < moment(published["deliver_at"])
    assert await api.pop("g", "orders") == []
    (message,) = await api.pop("g", "orders", wait_ms=5000)
    assert message["id"] == published["id"]
    assert message["deliver_at"] == published["deliver_at"]
    assert moment(message["stored_at"]) >= moment(published["deliver_at"])


async def test_any_json_comes_back_to_the_byte(api: Api) -> None:
    text = b'{"b" : 1.50, "\\u00e9":[ 1e3, null ],  "a":"\\/"}'
    body = b'{"data": ' + text + b"}"
    reply = await api.post("/v1/topics/orders/events", body)
    assert reply.status == 201
    popped = await api.post("/v1/groups/g:pop", {"topic": "orders"})
    assert b'"data":' + text + b"," in popped.content


async def test_bytes_travel_as_base64(api: Api) -> None:
    await api.publish("orders", data_base64="AP8=")
    (message,) = await api.pop("g", "orders")
    assert message["data_base64"] == "AP8="
    assert "data" not in message


@pytest.mark.parametrize("kind", [None, "application/x-www-form-urlencoded"])
async def test_the_curl_of_the_readme_works(api: Api, kind: str | None) -> None:
    body = b'{"delay":"PT5S","data":{"hi":1}}'
    headers = {} if kind is None else {"Content-Type": kind}
    reply = await api.post("/v1/topics/hello/events", body, headers=headers)
    assert (reply.status, reply.body["due_in_ms"]) == (201, 5000)


async def test_a_repeated_request_gets_the_first_answer(api: Api) -> None:
    event = {"data": 1, "delay": "PT1H"}
    headers = {"Idempotency-Key": "abc"}
    target = "/v1/topics/orders/events"
    first = await api.post(target, event, headers=headers)
    assert "Idempotency-Replayed" not in first.headers
    await asyncio.sleep(0.005)
    second = await api.post(target, event, headers=headers)
    assert (second.status, second.content) == (201, first.content)
    assert second.headers["Idempotency-Replayed"] == "true"
    assert second.headers["Location"] == first.headers["Location"]
    other = await api.post(target, {"data": 2}, headers=headers)
    assert (other.status, other.code) == (422, "idempotency_key_reused")
    elsewhere = await api.post("/v1/topics/bills/events", event, headers=headers)
    assert elsewhere.body["id"] != first.body["id"]
    assert len((await api.get("/v1/events?topic=orders")).body["events"]) == 1


async def test_a_repeated_batch_gets_the_first_answer(api: Api) -> None:
    batch = {"events": [{"topic": "a", "data": 1}, {"topic": "b", "data": 2} | LATER]}
    headers = {"Idempotency-Key": "abc"}
    first, second = [
        await api.post("/v1/events:batch", batch, headers=headers) for _ in range(2)
    ]
    assert second.content == first.content
    assert second.headers["Idempotency-Replayed"] == "true"
    assert len(await api.pop("g", "a")) == 1


async def test_concurrent_repetitions_are_stored_once(api: Api) -> None:
    headers = {"Idempotency-Key": "abc"}
    replies = await asyncio.gather(
        *[
            api.post("/v1/topics/orders/events", {"data": 1}, headers=headers)
            for _ in range(20)
        ]
    )
    assert len({reply.content for reply in replies}) == 1
    assert len(await api.pop("g", "orders")) == 1


# --- batches --------------------------------------------------------------------


async def test_a_batch_goes_to_many_topics(api: Api) -> None:
    events: list[dict[str, Any]] = [
        {"topic": f"t{i % 3}", "data": i} | (LATER if i % 2 else {}) for i in range(12)
    ]
    reply = await api.post("/v1/events:batch", {"events": events})
    results = reply.body["results"]
    assert [result["index"] for result in results] == list(range(12))
    assert {result["status"] for result in results} == {201}
    assert [result["state"] for result in results[:2]] == ["stored", "scheduled"]
    assert "deliver_at" not in results[0]
    ids = {result["id"]: index for index, result in enumerate(results)}
    for topic in range(3):
        popped = await api.pop("g", f"t{topic}")
        assert {ids[message["id"]] for message in popped} == {
            i for i in range(0, 12, 2) if i % 3 == topic
        }
    event = (await api.get(f"/v1/events/{results[1]['id']}")).body
    assert (event["topic"], event["deliver_at"]) == ("t1", results[1]["deliver_at"])


async def test_the_good_events_of_a_batch_are_stored_beside_bad_ones(api: Api) -> None:
    events: list[Any] = [
        {"topic": "a", "data": 0},
        {"topic": "a", "data": 1, "delay": "P1M"},
        {"topic": "a", "data": 2, "dealy": 1},
        {"topic": "a/b", "data": 3},
        {"topic": 5, "data": 4},
        7,
        {"topic": "SYS_SCHEDULE", "data": 6},
        {"topic": "a", "data": 7},
    ]
    results = (await api.post("/v1/events:batch", {"events": events})).body["results"]
    statuses = [result["status"] for result in results]
    assert statuses == [201, 422, 422, 422, 422, 422, 422, 201]
    codes = [result["problem"]["code"] for result in results[1:7]]
    assert codes == [
        *("invalid_time", "unknown_field", "invalid_topic"),
        *("invalid_request", "invalid_request", "reserved_topic"),
    ]
    assert results[2]["problem"]["errors"][0]["pointer"] == "/dealy"
    assert {m["data"] for m in await api.pop("g", "a")} == {0, 7}


async def test_an_atomic_batch_is_all_or_nothing(api: Api) -> None:
    events = [{"topic": "a", "data": 0}, {"topic": "a", "data": 1, "delay_ms": -1}]
    reply = await api.post("/v1/events:batch", {"events": events, "atomic": True})
    assert (reply.status, reply.code) == (422, "invalid_time")
    assert reply.pointers == ["/events/1/delay_ms"]
    wrong = {"events": [*events, {"topic": 5, "data": 1}], "atomic": True}
    reply = await api.post("/v1/events:batch", wrong)
    assert reply.pointers == ["/events/2/topic"]
    assert await api.pop("g", "a") == []
    good = {"events": events[:1], "atomic": True}
    reply = await api.post("/v1/events:batch", good)
    assert reply.body["results"][0]["status"] == 201


async def test_the_largest_batch_is_taken_and_one_more_is_not(api: Api) -> None:
    events = [{"topic": "a", "data": i, "delay_ms": 3600_000} for i in range(10_001)]
    reply = await api.post("/v1/events:batch", {"events": events})
    assert (reply.status, reply.code) == (422, "too_many_events")
    assert reply.pointers == ["/events"]
    assert "10000" in reply.body["detail"]
    reply = await api.post("/v1/events:batch", {"events": events[:10_000]})
    assert len({result["id"] for result in reply.body["results"]}) == 10_000


async def test_an_empty_batch_is_fine(api: Api) -> None:
    reply = await api.post("/v1/events:batch", {"events": []})
    assert (reply.status, reply.body) == (200, {"results": []})


async def test_messagepack_goes_in_and_out(api: Api) -> None:
    headers = {"Content-Type": "application/msgpack"}
    events = [
        {"topic": "a", "data": b"\x00\xff", "key": "k"},
        {"topic": "a", "data": {"n": 1}, "key": "k"},
    ]
    packed = msgspec.msgpack.encode({"events": events})
    reply = await api.post("/v1/events:batch", packed, headers=headers)
    assert reply.headers["Content-Type"] == "application/msgpack"
    assert [result["status"] for result in reply.body["results"]] == [201, 201]
    pop = msgspec.msgpack.encode({"topic": "a", "max": 10})
    popped = await api.post("/v1/groups/g:pop", pop, headers=headers)
    found = [(m["data"], m["json"]) for m in popped.body["messages"]]
    assert found == [(b"\x00\xff", False), (b'{"n":1}', True)]
    queue = popped.body["messages"][0]["queue"]
    pulled = await api.get(
        f"/v1/topics/a/queues/{queue}/messages",
        headers={"Accept": "application/msgpack"},
    )
    assert pulled.body["messages"][0]["data"] == b"\x00\xff"
    single = msgspec.msgpack.encode({"data": b"x", "delay_ms": 10**6})
    reply = await api.post("/v1/topics/a/events", single, headers=headers)
    assert reply.body["state"] == "scheduled"
    headers["Accept"] = "application/json"
    as_json = await api.post("/v1/groups/g2:pop", pop, headers=headers)
    assert as_json.body["messages"][0]["data_base64"] == "AP8="


# --- events ---------------------------------------------------------------------


async def test_an_event_is_looked_up_before_and_after_its_time(api: Api) -> None:
    published = await api.publish(
        "orders", data={"a": 1}, key="k", tag="t", properties={"p": "q"}, delay_ms=250
    )
    target = f"/v1/events/{published['id']}"
    reply = await api.get(target)
    event = reply.body
    assert reply.headers["ETag"] == '"1"'
    assert event["state"] == "scheduled"
    assert event["deliver_at"] == published["deliver_at"]
    assert event["created_at"] == published["server_time"]
    assert [entry["what"] for entry in event["timeline"]] == ["scheduled"]
    await api.pop("g", "orders", wait_ms=5000)
    event = (await api.get(target)).body
    assert event["state"] == "delivered"
    assert event["lateness_ms"] >= 0
    assert moment(event["delivered_at"]) >= moment(event["deliver_at"])
    assert [entry["what"] for entry in event["timeline"]] == ["scheduled", "delivered"]
    assert (event["data"], event["key"], event["tag"]) == ({"a": 1}, "k", "t")
    assert event["properties"] == {"p": "q"}


async def test_an_event_for_now_is_looked_up_as_stored(api: Api) -> None:
    published = await api.publish("orders", data=[1])
    event = (await api.get(f"/v1/events/{published['id']}")).body
    assert (event["state"], event["data"], event["topic"]) == ("stored", [1], "orders")
    reply = await api.patch(f"/v1/events/{published['id']}", LATER)
    assert (reply.status, reply.code) == (409, "already_delivered")
    reply = await api.delete(f"/v1/events/{published['id']}")
    assert (reply.status, reply.body["outcome"]) == (409, "too_late")


async def test_an_event_is_rescheduled(api: Api) -> None:
    published = await api.publish("orders", data=1, **LATER)
    target = f"/v1/events/{published['id']}"
    new = (datetime.now(UTC) + timedelta(days=2)).replace(microsecond=0)
    reply = await api.patch(target, {"deliver_at": new.isoformat()})
    assert (reply.status, reply.headers["ETag"]) == (200, '"2"')
    assert moment(reply.body["deliver_at"]) == new
    assert reply.body["data"] == 1
    stale = await api.patch(target, LATER, headers={"If-Match": '"1"'})
    assert (stale.status, stale.code) == (412, "stale_version")
    fresh = await api.patch(target, {"delay_ms": 5}, headers={"If-Match": '"2"'})
    assert fresh.body["version"] == 3
    assert len(await api.pop("g", "orders", wait_ms=5000)) == 1
    late = await api.patch(target, LATER)
    assert (late.status, late.code) == (409, "already_delivered")


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({}, "missing_field"),
        ({"delay": "PT1S", "delay_ms": 5}, "several_times"),
        ({"delay": "P1Y"}, "invalid_time"),
        ({"delay": "P4000D"}, "delay_too_long"),
        ({"data": 1, "delay": "PT1S"}, "unknown_field"),
    ],
)
async def test_a_wrong_reschedule_is_refused(
    api: Api, body: dict[str, Any], code: str
) -> None:
    published = await api.publish("orders", data=1, **LATER)
    reply = await api.patch(f"/v1/events/{published['id']}", body)
    assert (reply.status, reply.code) == (422, code)


async def test_an_event_is_delivered_now(api: Api) -> None:
    published = await api.publish("orders", data=1, **LATER)
    reply = await api.post(f"/v1/events/{published['id']}:deliver-now")
    assert reply.status == 200
    assert len(await api.pop("g", "orders", wait_ms=5000)) == 1
    again = await api.post(f"/v1/events/{published['id']}:deliver-now")
    assert (again.status, again.code) == (409, "already_delivered")


async def test_cancel_tells_the_truth(api: Api) -> None:
    published = await api.publish("orders", data=1, delay_ms=400)
    target = f"/v1/events/{published['id']}"
    stale = await api.delete(target, headers={"If-Match": '"7"'})
    assert (stale.status, stale.code) == (412, "stale_version")
    for _ in range(2):
        reply = await api.delete(target)
        assert (reply.status, reply.body["outcome"]) == (200, "cancelled")
    assert await api.pop("g", "orders", wait_ms=700) == []
    event = (await api.get(target)).body
    assert event["state"] == "cancelled"
    assert event["cancelled_at"]
    changed = await api.patch(target, LATER)
    assert (changed.status, changed.code) == (409, "already_cancelled")

    published = await api.publish("orders", data=2, delay_ms=1)
    await api.pop("g", "orders", wait_ms=5000)
    reply = await api.delete(f"/v1/events/{published['id']}")
    assert (reply.status, reply.code) == (409, "already_delivered")
    assert reply.body["outcome"] == "too_late"

    reply = await api.delete("/v1/events/01936f1e-8c00-7abc-8def-0123456789ab")
    assert (reply.status, reply.code) == (404, "unknown_event")
    assert reply.body["outcome"] == "not_found"


async def test_putting_by_key_debounces(api: Api) -> None:
    target = "/v1/topics/orders/events/customer%2F42:x"
    first = await api.put(target, {"data": 1} | LATER)
    assert (first.status, first.headers["ETag"]) == (201, '"1"')
    second = await api.put(target, {"data": 2, "delay_ms": 300})
    assert (second.status, second.headers["ETag"]) == (200, '"2"')
    assert second.body["id"] == first.body["id"]
    assert second.body["version"] == 2
    found = (await api.get("/v1/events?topic=orders&key=customer%2F42:x")).body
    assert [event["key"] for event in found["events"]] == ["customer/42:x"]
    (message,) = await api.pop("g", "orders", wait_ms=5000)
    assert (message["data"], message["key"]) == (2, "customer/42:x")
    late = await api.put(target, {"data": 3}, headers={"If-Match": '"2"'})
    assert (late.status, late.code) == (409, "already_delivered")
    anew = await api.put(target, {"data": 4} | LATER, headers={"If-None-Match": "*"})
    assert anew.status == 201
    assert anew.body["id"] != first.body["id"]
    taken = await api.put(target, {"data": 5}, headers={"If-None-Match": "*"})
    assert (taken.status, taken.code) == (412, "stale_version")
    stale = await api.put(target, {"data": 5}, headers={"If-Match": '"9"'})
    assert (stale.status, stale.code) == (412, "stale_version")


async def test_putting_by_key_without_a_time_delivers_now(api: Api) -> None:
    reply = await api.put("/v1/topics/orders/events/k", {"data": 1})
    assert (reply.status, reply.body["state"]) == (201, "scheduled")
    assert len(await api.pop("g", "orders", wait_ms=5000)) == 1


@pytest.mark.parametrize(
    ("target", "body", "code"),
    [
        ("/v1/topics/orders/events/k", {"data": 1, "key": "other"}, "invalid_key"),
        ("/v1/topics/orders/events/" + "k" * 513, {"data": 1}, "invalid_key"),
        ("/v1/topics/orders/events/", {"data": 1}, "invalid_key"),
        ("/v1/topics/orders/events/k", {"data": 1, "delay_ms": -5}, "invalid_time"),
        ("/v1/topics/SYS_X/events/k", {"data": 1}, "reserved_topic"),
    ],
)
async def test_a_wrong_put_is_refused(
    api: Api, target: str, body: dict[str, Any], code: str
) -> None:
    reply = await api.put(target, body)
    assert (reply.status, reply.code) == (422, code)


async def test_events_are_listed_page_by_page(api: Api) -> None:
    for number in range(7):
        await api.publish(
            "orders", data=number, delay_ms=1_000_000 + number, tag=f"t{number % 2}"
        )
    await api.publish("bills", data=9, **LATER)
    listed: list[dict[str, Any]] = []
    token, pages = "", 0
    while True:
        page = (await api.get(f"/v1/events?topic=orders&limit=3{token}")).body
        listed += page["events"]
        pages += 1
        if page["next_page_token"] is None:
            break
        token = f"&page_token={page['next_page_token']}"
    assert pages >= 3
    assert [event["topic"] for event in listed] == ["orders"] * 7
    times = [event["deliver_at"] for event in listed]
    assert times == sorted(times)
    assert "data" not in listed[0]
    tagged = (await api.get("/v1/events?topic=orders&tag=t1")).body["events"]
    assert len(tagged) == 3
    between = f"due_after={times[2]}&due_before={times[5]}"
    found = (await api.get(f"/v1/events?topic=orders&{between}")).body["events"]
    assert [event["deliver_at"] for event in found] == times[2:5]
    assert len((await api.get("/v1/events")).body["events"]) == 8
    assert (await api.get("/v1/events?state=cancelled")).body["events"] == []
    await api.delete(f"/v1/events/{listed[0]['id']}")
    gone = (await api.get("/v1/events?state=cancelled")).body["events"]
    assert [event["id"] for event in gone] == [listed[0]["id"]]


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("topic=nosuch", 404),
        ("topic=a%2Fb", 422),
        ("state=stored", 422),
        ("limit=0", 422),
        ("due_after=now", 422),
        ("page_token=!", 422),
        ("colour=red", 422),
        ("limit=1&limit=2", 422),
    ],
)
async def test_a_wrong_list_is_refused(api: Api, query: str, status: int) -> None:
    reply = await api.get(f"/v1/events?{query}")
    assert reply.status == status
    assert reply.code
