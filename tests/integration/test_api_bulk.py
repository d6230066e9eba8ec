"""Many events at once over HTTP: operations, histograms, lists with filters."""

import asyncio
from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio
from tests.integration.api_server import Api, Reply, controlled_api, running_api

from halfpast_chronos.config import ChronosConfig

UNKNOWN = "01936f1e-8c00-7abc-8def-0123456789ab"
HOUR_MS = 3_600_000


@pytest_asyncio.fixture
async def api(tmp_path: Path) -> AsyncGenerator[Api]:
    async with running_api(tmp_path) as api:
        yield api


async def fill(api: Api, count: int = 12, topic: str = "orders") -> list[str]:
    """Events with three keys and two tags, due an hour ahead, a minute apart."""
    events = [
        {
            "topic": topic,
            "data": n,
            "key": f"key-{n % 3}",
            "tag": "even" if n % 2 == 0 else "odd",
            "delay_ms": HOUR_MS + 60_000 * n,
        }
        for n in range(count)
    ]
    reply = await api.post("/v1/events:batch", {"events": events})
    return [result["id"] for result in reply.body["results"]]


async def ended(api: Api, reply: Reply) -> dict[str, Any]:
    """The operation that this answer began, when it is over."""
    assert reply.status == 202, reply
    target = reply.headers["Location"]
    assert target == f"/v1/operations/{reply.body['id']}"
    async with asyncio.timeout(20):
        while True:
            found = await api.get(target)
            assert found.status == 200
            if found.body["state"] != "running":
                body: dict[str, Any] = found.body
                return body
            await asyncio.sleep(0.01)


async def listed(api: Api, query: str = "") -> list[dict[str, Any]]:
    """All pages."""
    found: list[dict[str, Any]] = []
    token = ""
    while True:
        reply = await api.get(f"/v1/events?limit=5{query}{token}")
        assert reply.status == 200, reply
        found += reply.body["events"]
        if not reply.body["next_page_token"]:
            return found
        token = f"&page_token={reply.body['next_page_token']}"


# --- operations -------------------------------------------------------------------


@pytest.mark.asyncio
async def test_events_are_cancelled_by_filter(api: Api) -> None:
    ids = await fill(api)
    wish = {"topic": "orders", "tag": "even"}
    done = await ended(api, await api.post("/v1/events:cancel", wish))
    assert done["state"] == "done"
    assert done["action"] == "cancel"
    assert done["filter"] == wish
    assert (done["matched"], done["changed"], done["scanned"]) == (6, 6, 12)
    assert done["progress"] == 1.0
    assert done["created_at"] <= done["finished_at"]
    assert {it["id"] for it in await listed(api)} == set(ids[1::2])
    event = (await api.get(f"/v1/events/{ids[0]}")).body
    assert event["state"] == "cancelled"
    assert event["timeline"][-1]["what"] == "cancelled"


@pytest.mark.asyncio
async def test_a_dry_run_changes_nothing(api: Api) -> None:
    ids = await fill(api)
    wish = {"key": "key-1", "dry_run": True}
    done = await ended(api, await api.post("/v1/events:cancel", wish))
    assert (done["dry_run"], done["matched"], done["changed"]) == (True, 4, 0)
    assert len(await listed(api)) == len(ids)


@pytest.mark.asyncio
async def test_events_are_moved_by_a_span_or_to_a_moment(api: Api) -> None:
    await fill(api)
    before = {it["id"]: it["deliver_at"] for it in await listed(api)}
    wish: dict[str, object] = {"topic": "orders", "shift_ms": 90_000}
    done = await ended(api, await api.post("/v1/events:reschedule", wish))
    assert (done["changed"], done["shift_ms"]) == (12, 90_000)
    for it in await listed(api):
        moved = datetime.fromisoformat(it["deliver_at"])
        assert moved - datetime.fromisoformat(before[it["id"]]) == timedelta(seconds=90)
        assert it["version"] == 2
    year = datetime.now(UTC).year + 2
    there = f"{year}-01-01T00:00:00.000Z"
    wish = {"tag": "odd", "deliver_at": there}
    done = await ended(api, await api.post("/v1/events:reschedule", wish))
    assert (done["changed"], done["deliver_at"]) == (6, there)
    assert [it["deliver_at"] for it in await listed(api, "&tag=odd")] == [there] * 6


@pytest.mark.asyncio
async def test_everything_may_be_delivered_at_once(api: Api) -> None:
    await fill(api)
    wish = {"all": True, "deliver_at": "2000-01-01T00:00:00Z"}
    done = await ended(api, await api.post("/v1/events:reschedule", wish))
    assert done["changed"] == 12
    taken: list[dict[str, Any]] = []
    async with asyncio.timeout(10):
        while len(taken) < 12:
            taken += await api.pop("readers", "orders", max=100, wait_ms=1000)
    assert sorted(message["data"] for message in taken) == list(range(12))
    found = (await api.get("/v1/events?state=delivered")).body["events"]
    assert len(found) == 12
    assert all(it["lateness_ms"] >= 0 for it in found)


@pytest.mark.asyncio
async def test_an_idempotency_key_begins_one_operation(api: Api) -> None:
    await fill(api)
    target, wish = "/v1/events:cancel", {"topic": "orders", "dry_run": True}
    headers = {"Idempotency-Key": "once"}
    first = await api.post(target, wish, headers=headers)
    again = await api.post(target, wish, headers=headers)
    assert first.body["id"] == again.body["id"]
    assert "Idempotency-Replayed" not in first.headers
    assert again.headers["Idempotency-Replayed"] == "true"
    other = await api.post(target, {"all": True}, headers=headers)
    assert (other.status, other.code) == (422, "idempotency_key_reused")
    assert len(await listed(api)) == 12


@pytest.mark.asyncio
async def test_operations_are_listed_and_stopped(api: Api) -> None:
    await fill(api)
    begun = [
        await ended(api, await api.post("/v1/events:cancel", {"key": f"key-{n}"}))
        for n in range(3)
    ]
    page = (await api.get("/v1/operations?limit=2")).body
    assert [it["id"] for it in page["operations"]] == [it["id"] for it in begun[:0:-1]]
    token = page["next_page_token"]
    rest = (await api.get(f"/v1/operations?limit=2&page_token={token}")).body
    assert rest["operations"] == begun[:1]
    assert rest["next_page_token"] is None
    assert (await api.get("/v1/operations?state=running")).body["operations"] == []
    late = await api.post(f"/v1/operations/{begun[0]['id']}:cancel", {})
    assert (late.status, late.code) == (409, "operation_ended")
    gone = await api.post(f"/v1/operations/{UNKNOWN}:cancel", {})
    assert (gone.status, gone.code) == (404, "unknown_operation")


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("target", "body", "code", "pointer"),
    [
        ("cancel", {}, "filter_required", ""),
        ("cancel", {"dry_run": True}, "filter_required", ""),
        ("cancel", {"all": True, "tag": "x"}, "filter_required", ""),
        ("cancel", {"topic": "nobody-knows"}, "unknown_topic", ""),
        ("cancel", {"topic": "a b"}, "invalid_topic", ""),
        ("cancel", {"topic": 7}, "invalid_request", "/topic"),
        ("cancel", {"tpic": "orders"}, "unknown_field", "/tpic"),
        ("cancel", {"key": ""}, "invalid_key", "/key"),
        ("cancel", {"tag": ""}, "invalid_tag", "/tag"),
        ("cancel", {"due_after": "soon"}, "invalid_time", "/due_after"),
        ("cancel", {"due_before": "2026-01-01T00:00:00"}, "invalid_time", ""),
        ("cancel", {"all": "yes"}, "invalid_request", "/all"),
        ("cancel", [], "invalid_request", ""),
        ("cancel", b"{", "malformed_json", ""),
        ("cancel", b"", "malformed_json", ""),
        ("reschedule", {"all": True}, "missing_field", ""),
        (
            "reschedule",
            {"all": True, "shift_ms": 5, "deliver_at": "2090-01-01T00:00:00Z"},
            "several_times",
            "",
        ),
        ("reschedule", {"all": True, "shift_ms": 0}, "invalid_time", "/shift_ms"),
        ("reschedule", {"all": True, "shift_ms": 10**15}, "delay_too_long", ""),
        ("reschedule", {"all": True, "shift_ms": -(10**30)}, "delay_too_long", ""),
        ("reschedule", {"all": True, "shift_ms": 1.5}, "invalid_request", ""),
        (
            "reschedule",
            {"all": True, "deliver_at": "9999-01-01T00:00:00Z"},
            "delay_too_long",
            "",
        ),
        ("reschedule", {"all": True, "deliver_at": ""}, "invalid_time", ""),
    ],
)
async def test_bad_wishes_begin_nothing(
    api: Api, target: str, body: object, code: str, pointer: str
) -> None:
    headers = {"Content-Type": "application/json"}
    reply = await api.post(f"/v1/events:{target}", body, headers=headers)
    assert reply.code == code, reply
    assert reply.status in (400, 404, 422)
    if pointer:
        assert pointer in reply.pointers
    assert (await api.get("/v1/operations")).body["operations"] == []


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("target", "code"),
    [
        ("/v1/operations/nonsense", "invalid_operation_id"),
        (f"/v1/operations/{UNKNOWN}", "unknown_operation"),
        ("/v1/operations?state=odd", "invalid_parameter"),
        ("/v1/operations?limit=0", "invalid_parameter"),
        ("/v1/operations?page_token=AAAA", "invalid_page_token"),
        ("/v1/events?state=delivered&tag=x", "invalid_parameter"),
        ("/v1/events?page_token=AAAA", "invalid_page_token"),
        ("/v1/due?resolution=2m", "invalid_parameter"),
        ("/v1/due?from=yesterday", "invalid_parameter"),
        ("/v1/due?to=2001-01-01T00:00:00Z", "invalid_parameter"),
        ("/v1/due?resolution=1s&to=2090-01-01T00:00:00Z", "invalid_parameter"),
        ("/v1/topics/nobody-knows/due", "unknown_topic"),
        ("/v1/topics/%25DLQ/due", "reserved_topic"),
    ],
)
async def test_bad_questions_are_refused(api: Api, target: str, code: str) -> None:
    reply = await api.get(target)
    assert reply.code == code, reply


@pytest.mark.asyncio
async def test_a_token_of_another_list_is_refused(api: Api) -> None:
    await fill(api)
    token = (await api.get("/v1/events?limit=1")).body["next_page_token"]
    good = await api.get(f"/v1/events?limit=1&page_token={token}")
    assert good.status == 200
    bad = await api.get(f"/v1/events?limit=1&state=cancelled&page_token={token}")
    assert (bad.status, bad.code) == (422, "invalid_page_token")


@pytest.mark.asyncio
async def test_messagepack_is_spoken_too(api: Api) -> None:
    await fill(api)
    reply = await api.post(
        "/v1/events:cancel",
        msgspec.msgpack.encode({"topic": "orders", "dry_run": True}),
        headers={"Content-Type": "application/msgpack"},
    )
    assert reply.status == 202
    assert reply.body["filter"] == {"topic": "orders"}


# --- what is coming -----------------------------------------------------------------


@pytest.mark.asyncio
async def test_the_histogram_counts_what_is_coming(api: Api) -> None:
    await fill(api)
    await fill(api, 5, "others")
    found = (await api.get("/v1/topics/orders/due?resolution=1h")).body
    assert found["topic"] == "orders"
    assert found["exact"] is True
    assert (found["pending"], found["count"]) == (12, 12)
    assert sum(it["count"] for it in found["buckets"]) == 12
    assert all(it["at"].endswith(":00:00.000Z") for it in found["buckets"])
    assert found["late"] == {"count": 0, "reasons": [], "topics": []}
    both = (await api.get("/v1/due?resolution=1d")).body
    assert (both["pending"], both["count"]) == (17, 17)
    assert "topic" not in both


@pytest.mark.asyncio
@pytest.mark.parametrize("resolution", ["1s", "1m"])
async def test_each_bucket_counts_its_own(api: Api, resolution: str) -> None:
    await fill(api)
    dues = [datetime.fromisoformat(it["deliver_at"]) for it in await listed(api)]
    start = min(dues).replace(microsecond=0)
    end = max(dues) + timedelta(minutes=1)
    span = f"from={start:%Y-%m-%dT%H:%M:%SZ}&to={end:%Y-%m-%dT%H:%M:%SZ}"
    target = f"/v1/topics/orders/due?resolution={resolution}&{span}"
    found = (await api.get(target)).body["buckets"]
    seconds = [due.replace(microsecond=0) for due in dues]
    if resolution == "1m":
        seconds = [due.replace(second=0) for due in seconds]
    wanted = sorted(set(seconds))
    assert [datetime.fromisoformat(it["at"]) for it in found] == wanted
    assert [it["count"] for it in found] == [1] * 12


@pytest.mark.asyncio
async def test_what_waits_in_a_paused_topic_is_late_and_says_why(
    tmp_path: Path,
) -> None:
    async with (
        controlled_api(tmp_path, ChronosConfig()) as api,
        asyncio.timeout(20),
    ):
        await api.put("/v1/topics/orders", {"paused": True})
        await api.publish("orders", data=1, delay_ms=10)
        while True:
            late = (await api.get("/v1/topics/orders/due")).body["late"]
            if late["count"]:
                break
            await asyncio.sleep(0.05)
    assert late["count"] == 1
    assert late["reasons"] == [{"reason": "paused", "count": 1}]
    (topic,) = late["topics"]
    assert topic["topic"] == "orders"
    assert datetime.fromisoformat(topic["oldest_due_at"]) < datetime.now(UTC)


# --- lists --------------------------------------------------------------------------


@pytest.mark.asyncio
async def test_pages_do_not_repeat_while_events_go(api: Api) -> None:
    ids = await fill(api)
    first = (await api.get("/v1/events?limit=5")).body
    seen = [it["id"] for it in first["events"]]
    for event_id in (seen[-1], ids[6]):
        await api.delete(f"/v1/events/{event_id}")
    token = first["next_page_token"]
    rest = (await api.get(f"/v1/events?limit=100&page_token={token}")).body["events"]
    assert [it["id"] for it in rest] == [it for it in ids[5:] if it != ids[6]]


@pytest.mark.asyncio
async def test_filters_narrow_the_list(api: Api) -> None:
    ids = await fill(api)
    await fill(api, 3, "others")
    assert len(await listed(api)) == 15
    assert len(await listed(api, "&key=key-0")) == 5
    assert len(await listed(api, "&topic=orders&key=key-0&tag=even")) == 2
    dues = [it["deliver_at"] for it in await listed(api, "&topic=orders")]
    span = f"&topic=orders&due_after={dues[3]}&due_before={dues[6]}"
    assert [it["id"] for it in await listed(api, span)] == ids[3:6]
