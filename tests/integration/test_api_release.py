"""Topics that are paused, closed, slowed down and bounded, over HTTP."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from tests.integration.api_server import Api, controlled_api

from halfpast_chronos.config import ChronosConfig

QUICK = ChronosConfig(attempts_max=3, retry_initial_ms=20, retry_max_ms=50)
LATER_MS = 3_600_000


@pytest_asyncio.fixture
async def api(tmp_path: Path) -> AsyncGenerator[Api]:
    async with controlled_api(tmp_path, QUICK) as running:
        yield running


async def until(
    look: Callable[[], Awaitable[Any]],
    is_there: Callable[[Any], bool],
    timeout_s: float = 10.0,
) -> Any:
    """What `look` gives once it is as it should be."""
    found: Any = None
    try:
        async with asyncio.timeout(timeout_s):
            while True:
                found = await look()
                if is_there(found):
                    return found
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise AssertionError(found) from None


async def event_in(api: Api, event_id: str, state: str) -> dict[str, Any]:
    async def look() -> dict[str, Any]:
        body: dict[str, Any] = (await api.get(f"/v1/events/{event_id}")).body
        return body

    found: dict[str, Any] = await until(look, lambda body: body["state"] == state)
    return found


async def release_in(api: Api, topic: str, state: str) -> dict[str, Any]:
    """How the release of a topic stands, once it is in this state."""

    async def look() -> dict[str, Any]:
        body: dict[str, Any] = (await api.get(f"/v1/topics/{topic}")).body["release"]
        return body

    found: dict[str, Any] = await until(look, lambda body: body["state"] == state)
    return found


async def settings(api: Api, topic: str, **changes: Any) -> dict[str, Any]:
    reply = await api.patch(f"/v1/topics/{topic}", changes)
    assert reply.status == 200, reply.body
    body: dict[str, Any] = reply.body
    return body


async def dead_event(api: Api, topic: str = "orders", **event: Any) -> dict[str, Any]:
    """An event that died since its topic was closed, which is open again."""
    await api.put(f"/v1/topics/{topic}", {"paused": True})
    published = await api.publish(topic, delay_ms=1, **event)
    await settings(api, topic, accepting=False, paused=False)
    found = await event_in(api, published["id"], "dead")
    await settings(api, topic, accepting=True)
    await release_in(api, topic, "open")
    return found


@pytest.mark.asyncio
async def test_settings_are_given_shown_and_kept(api: Api) -> None:
    created = await api.put("/v1/topics/orders", {"release_rate_per_s": 50})
    assert created.status == 201
    assert created.body["paused"] is False
    assert created.body["accepting"] is True
    assert created.body["max_pending"] == 0
    changed = await settings(api, "orders", paused=True, max_pending=7)
    assert changed["release_rate_per_s"] == 50
    shown = (await api.get("/v1/topics/orders")).body
    assert (shown["paused"], shown["max_pending"]) == (True, 7)
    assert shown["release"] == {
        "state": shown["release"]["state"],
        "pending": 0,
        "due_now": 0,
        "oldest_due_at": None,
        "retrying": 0,
        "dead_letters": 0,
        "exact": True,
    }
    listed = (await api.get("/v1/topics")).body["topics"]
    assert [topic["paused"] for topic in listed] == [True]


@pytest.mark.asyncio
async def test_a_topic_is_paused_before_anything_waits_there(api: Api) -> None:
    await api.put("/v1/topics/orders", {"paused": True})
    shown = (await api.get("/v1/topics/orders")).body["release"]
    assert (shown["state"], shown["pending"]) == ("paused", 0)
    await api.patch("/v1/topics/orders", {"paused": False})
    await release_in(api, "orders", "open")


@pytest.mark.asyncio
async def test_a_paused_topic_waits_until_it_is_resumed(api: Api) -> None:
    await api.put("/v1/topics/orders", {"paused": True})
    first = await api.publish("orders", data=1, delay_ms=1)
    other = await api.publish("others", data=2, delay_ms=1)
    await event_in(api, other["id"], "delivered")
    release = await release_in(api, "orders", "paused")
    assert (release["pending"], release["due_now"]) == (1, 1)
    assert release["oldest_due_at"] == first["deliver_at"]
    assert (await api.get(f"/v1/events/{first['id']}")).body["state"] == "scheduled"
    await settings(api, "orders", paused=False)
    found = await event_in(api, first["id"], "delivered")
    assert found["lateness_ms"] > 0
    assert (await release_in(api, "orders", "open"))["pending"] == 0


@pytest.mark.asyncio
async def test_a_rate_is_kept(api: Api) -> None:
    await api.put("/v1/topics/orders", {"queues": 1, "release_rate_per_s": 40})
    events = [{"topic": "orders", "data": n, "delay_ms": 1} for n in range(60)]
    assert (await api.post("/v1/events:batch", {"events": events})).status == 200
    await release_in(api, "orders", "rate_limited")
    target = "/v1/topics/orders/queues/0/messages?offset=0&max=100"

    async def messages() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await api.get(target)).body["messages"]
        return found

    found = await until(messages, lambda some: len(some) == 60)
    # 4 at once, 40 a second: the last of 60 goes after 1.4 s.
    first = await api.get(f"/v1/events/{found[0]['id']}")
    last = await api.get(f"/v1/events/{found[-1]['id']}")
    took_ms = last.body["lateness_ms"] - first.body["lateness_ms"]
    assert 1_300 <= took_ms <= 3_000


@pytest.mark.asyncio
async def test_a_quota_refuses_what_is_too_much(api: Api) -> None:
    await api.put("/v1/topics/orders", {"max_pending": 3})
    for number in range(3):
        await api.publish("orders", data=number, delay_ms=LATER_MS)
    reply = await api.post("/v1/topics/orders/events", {"data": 1, "delay_ms": 5000})
    assert (reply.status, reply.code) == (429, "too_many_pending")
    assert reply.body["retryable"] is True
    assert int(reply.headers["Retry-After"]) >= 1
    assert (await api.publish("orders", data=1))["state"] == "stored"
    assert (await api.publish("others", data=1, delay_ms=500))["state"] == "scheduled"
    release = (await api.get("/v1/topics/orders")).body["release"]
    assert release["pending"] == 3


@pytest.mark.asyncio
async def test_a_quota_has_room_again_after_a_cancel(api: Api) -> None:
    await api.put("/v1/topics/orders", {"max_pending": 1})
    first = await api.publish("orders", data=1, delay_ms=LATER_MS)
    assert (await api.delete(f"/v1/events/{first['id']}")).status == 200

    async def publish() -> int:
        body = {"data": 2, "delay_ms": LATER_MS}
        return (await api.post("/v1/topics/orders/events", body)).status

    assert await until(publish, lambda status: status == 201, 5.0) == 201


@pytest.mark.asyncio
async def test_a_quota_takes_a_batch_as_far_as_it_goes(api: Api) -> None:
    await api.put("/v1/topics/orders", {"max_pending": 2, "queues": 1})
    events = [
        {"topic": "orders", "data": 0, "delay_ms": LATER_MS},
        {"topic": "others", "data": 1, "delay_ms": LATER_MS},
        {"topic": "orders", "data": 2},
        {"topic": "orders", "data": 3, "delay_ms": LATER_MS},
        {"topic": "orders", "data": 4, "delay_ms": LATER_MS},
        {"topic": "others", "data": 5, "delay_ms": LATER_MS},
    ]
    atomic = {"events": events, "atomic": True}
    reply = await api.post("/v1/events:batch", atomic)
    assert (reply.status, reply.code) == (429, "too_many_pending")
    assert reply.pointers == ["/events/4"]
    await asyncio.sleep(1.01)  # until what the atomic one counted is asked for anew
    reply = await api.post("/v1/events:batch", {"events": events})
    results = reply.body["results"]
    assert [it["status"] for it in results] == [201, 201, 201, 201, 429, 201]
    assert results[4]["problem"]["code"] == "too_many_pending"
    found = (await api.get("/v1/events?topic=orders")).body["events"]
    assert [it["id"] for it in found] == [results[0]["id"], results[3]["id"]]
    found = (await api.get("/v1/events?topic=others")).body["events"]
    assert [it["id"] for it in found] == [results[1]["id"], results[5]["id"]]


@pytest.mark.asyncio
async def test_a_quota_lets_own_keys_be_replaced(api: Api) -> None:
    await api.put("/v1/topics/orders", {"max_pending": 1})
    body = {"data": 1, "delay_ms": LATER_MS}
    assert (await api.put("/v1/topics/orders/events/a", body)).status == 201
    assert (await api.put("/v1/topics/orders/events/a", body)).status == 200
    reply = await api.put("/v1/topics/orders/events/b", body)
    assert (reply.status, reply.code) == (429, "too_many_pending")


@pytest.mark.asyncio
async def test_a_closed_topic_takes_nothing(api: Api) -> None:
    await api.put("/v1/topics/orders", {"accepting": False})
    reply = await api.post("/v1/topics/orders/events", {"data": 1})
    assert (reply.status, reply.code) == (409, "topic_closed")
    reply = await api.put("/v1/topics/orders/events/key", {"data": 1})
    assert reply.code == "topic_closed"
    events = [{"topic": "orders", "data": 1}, {"topic": "others", "data": 1}]
    reply = await api.post("/v1/events:batch", {"events": events})
    assert [it["status"] for it in reply.body["results"]] == [409, 201]
    transaction = {"producer_group": "shop", "messages": [{"topic": "orders"}]}
    assert (await api.post("/v1/transactions", transaction)).code == "topic_closed"
    await settings(api, "orders", accepting=True)
    assert (await api.publish("orders", data=1))["state"] == "stored"


@pytest.mark.asyncio
async def test_what_is_not_taken_dies_with_its_reason(api: Api) -> None:
    other = await api.publish("others", data=1, delay_ms=400)
    dead = await dead_event(api, data={"total": 5}, key="k", tag="t")
    assert dead["reason"].startswith("topic_closed: ")
    assert dead["attempts"] == 3
    assert dead["dead_at"] == dead["timeline"][-1]["at"]
    assert [it["what"] for it in dead["timeline"]] == [
        *("scheduled", "failed", "failed", "dead")
    ]
    assert dead["data"] == {"total": 5}
    await event_in(api, other["id"], "delivered")
    listed = (await api.get("/v1/dead-letters?source=delay&topic=orders")).body
    (letter,) = listed["dead_letters"]
    assert letter["id"] == dead["id"]
    assert (letter["topic"], letter["key"], letter["tag"]) == ("orders", "k", "t")
    assert letter["reason"] == dead["reason"]
    assert "data" not in letter
    assert (await api.get("/v1/dead-letters?topic=others")).body == {
        "dead_letters": [],
        "next_page_token": None,
    }
    assert (await release_in(api, "orders", "open"))["dead_letters"] == 1
    found = (await api.get("/v1/events?state=dead")).body["events"]
    assert [it["id"] for it in found] == [dead["id"]]


@pytest.mark.asyncio
async def test_a_dead_letter_is_redriven(api: Api) -> None:
    dead = await dead_event(api, data="precious")
    reply = await api.post(
        f"/v1/events/{dead['id']}:redrive", headers={"If-Match": '"9"'}
    )
    assert (reply.status, reply.code) == (412, "stale_version")
    reply = await api.post(f"/v1/events/{dead['id']}:redrive")
    assert reply.status == 200
    assert reply.headers["ETag"] == '"2"'
    found = await event_in(api, dead["id"], "delivered")
    assert [it["what"] for it in found["timeline"]][-2:] == ["redriven", "delivered"]
    (message,) = await api.pop("workers", "orders", wait_ms=5000)
    assert message["data"] == "precious"
    assert message["attempt"] == 1
    assert (await api.get("/v1/dead-letters")).body["dead_letters"] == []


@pytest.mark.asyncio
async def test_a_dead_letter_is_given_up(api: Api) -> None:
    dead = await dead_event(api, data=1)
    reply = await api.patch(f"/v1/events/{dead['id']}", {"delay_ms": 5})
    assert (reply.status, reply.code) == (409, "event_dead")
    assert "redrive" in reply.body["detail"]
    assert (await api.delete(f"/v1/events/{dead['id']}")).status == 200
    reply = await api.post(f"/v1/events/{dead['id']}:redrive")
    assert (reply.status, reply.code) == (409, "already_cancelled")
    assert (await api.get("/v1/dead-letters")).body["dead_letters"] == []


@pytest.mark.asyncio
async def test_a_body_that_is_too_large_by_now_is_tried_again(api: Api) -> None:
    await api.put("/v1/topics/orders", {"paused": True})
    published = await api.publish("orders", data="x" * 500, delay_ms=1)
    small = await api.publish("orders", data="x", delay_ms=1)
    await settings(api, "orders", max_body_bytes=100, paused=False)
    dead = await event_in(api, published["id"], "dead")
    assert dead["reason"].startswith("body_too_large: the body takes 502 bytes")
    await event_in(api, small["id"], "delivered")


@pytest.mark.asyncio
async def test_pages_of_dead_letters(api: Api) -> None:
    await api.put("/v1/topics/orders", {"paused": True})
    events = [{"topic": "orders", "data": n, "delay_ms": 1} for n in range(10)]
    published = (await api.post("/v1/events:batch", {"events": events})).body
    await settings(api, "orders", accepting=False, paused=False)
    await event_in(api, published["results"][-1]["id"], "dead")

    async def all_pages() -> list[str]:
        seen: list[str] = []
        token = ""
        while True:
            page = (await api.get(f"/v1/dead-letters?limit=3&page_token={token}")).body
            seen += [it["id"] for it in page["dead_letters"]]
            token = page["next_page_token"]
            if token is None:
                return seen

    seen = await until(all_pages, lambda some: len(some) >= 10)
    assert sorted(seen) == sorted(it["id"] for it in published["results"])


@pytest.mark.asyncio
async def test_a_restart_changes_nothing_of_it(tmp_path: Path) -> None:
    async with controlled_api(tmp_path, QUICK) as api:
        await api.put("/v1/topics/orders", {"paused": True})
        paused = await api.publish("orders", data=1, delay_ms=1)
        dead = await dead_event(api, "others", data=2)
    async with controlled_api(tmp_path, QUICK) as api:
        release = await release_in(api, "orders", "paused")
        assert (release["pending"], release["due_now"]) == (1, 1)
        again = (await api.get(f"/v1/events/{dead['id']}")).body
        assert again == dead
        await settings(api, "orders", paused=False)
        await event_in(api, paused["id"], "delivered")


BAD_SETTINGS: list[tuple[dict[str, Any], str, str]] = [
    ({"paused": "yes"}, "invalid_request", "/paused"),
    ({"accepting": 1}, "invalid_request", "/accepting"),
    ({"release_rate_per_s": -1}, "invalid_settings", "/release_rate_per_s"),
    ({"release_rate_per_s": 1_000_001}, "invalid_settings", "/release_rate_per_s"),
    ({"release_rate_per_s": 0.5}, "invalid_request", "/release_rate_per_s"),
    ({"max_pending": -1}, "invalid_settings", "/max_pending"),
    ({"max_pending": 10**10}, "invalid_settings", "/max_pending"),
    ({"max_pending": "3"}, "invalid_request", "/max_pending"),
    ({"pause": True}, "unknown_field", "/pause"),
]


@pytest.mark.asyncio
@pytest.mark.parametrize(("body", "code", "pointer"), BAD_SETTINGS)
async def test_bad_settings_are_refused(
    api: Api, body: dict[str, Any], code: str, pointer: str
) -> None:
    await api.put("/v1/topics/orders", {})
    before = (await api.get("/v1/topics/orders")).body
    for reply in (
        await api.patch("/v1/topics/orders", body),
        await api.put("/v1/topics/orders", body),
        await api.post("/v1/topics", {"name": "new", **body}),
    ):
        assert (reply.status, reply.code) == (422, code)
        assert reply.pointers == [pointer]
    assert (await api.get("/v1/topics/orders")).body == before
    assert (await api.get("/v1/topics/new")).status == 404


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("target", "status", "code"),
    [
        ("source=group", 422, "invalid_parameter"),
        ("limit=0", 422, "invalid_parameter"),
        ("limit=many", 422, "invalid_parameter"),
        ("page_token=%ff", 422, "invalid_parameter"),
        ("page_token=zzz!", 422, "invalid_page_token"),
        ("topic=nothing", 404, "unknown_topic"),
        ("topic=SYS_FIRED", 422, "reserved_topic"),
        ("state=dead", 422, "invalid_parameter"),
    ],
)
async def test_bad_questions_for_dead_letters_are_refused(
    api: Api, target: str, status: int, code: str
) -> None:
    reply = await api.get(f"/v1/dead-letters?{target}")
    assert (reply.status, reply.code) == (status, code)


@pytest.mark.asyncio
async def test_only_dead_letters_can_be_redriven(api: Api) -> None:
    nobody = "00000000-0000-7000-8000-000000000000"
    scheduled = (await api.publish("orders", data=1, delay_ms=LATER_MS))["id"]
    stored = (await api.publish("orders", data=1))["id"]
    for target, status, code in [
        (nobody, 404, "unknown_event"),
        ("nonsense", 422, "invalid_event_id"),
        (scheduled, 409, "event_not_dead"),
        (stored, 409, "already_delivered"),
    ]:
        reply = await api.post(f"/v1/events/{target}:redrive")
        assert (reply.status, reply.code) == (status, code), target
    reply = await api.post(
        f"/v1/events/{scheduled}:redrive", headers={"If-Match": "one"}
    )
    assert (reply.status, reply.code) == (422, "invalid_version")
