"""Limits hold for keys and namespaces, are told to callers, and are given over HTTP."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from tests.integration.access_server import Caller, keyed_api
from tests.integration.api_server import Reply, running_api

pytestmark = pytest.mark.asyncio(loop_scope="module")
SUBJECTS = "/v1/limits/subjects"
EVENT = {"data": 1}
EVENTS = "/v1/topics/orders/events"
DAY_MS = 86_400_000
SLOW = 0.001  # a second: nothing comes back while a test runs


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def admin(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Caller]:
    async with keyed_api(tmp_path_factory.mktemp("limits")) as (_, admin):
        for name in ("acme", "other"):
            await admin.done("PUT", f"/v1/namespaces/{name}", {})
        yield admin


async def limited(admin: Caller, subject: str, **limits: float) -> Any:
    return await admin.done("PUT", f"{SUBJECTS}/{subject}", limits)


async def program(admin: Caller, namespace: str = "", **limits: float) -> Caller:
    """Somebody with a key that is limited so."""
    made = await admin.with_key(role="operator", namespace=namespace)
    if limits:
        await limited(admin, f"key:{made.key_id}", **limits)
    return made


async def statuses(caller: Caller, count: int) -> list[int]:
    return [(await caller.post(EVENTS, EVENT)).status for _ in range(count)]


async def refused(admin: Caller, code: str) -> int:
    """How often, as the metrics have it."""
    text = (await admin.get("/metrics")).content.decode()
    name = f'halfpast_http_refused_total{{code="{code}",status="429"}} '
    other = f'halfpast_http_refused_total{{status="429",code="{code}"}} '
    for one in (name, other):
        if one in text:
            return int(float(text.partition(one)[2].partition("\n")[0]))
    return 0


async def test_a_key_has_its_rate_and_is_told_how_it_stands(admin: Caller) -> None:
    before = await refused(admin, "rate_limited")
    caller = await program(admin, requests_per_s=SLOW, request_burst=3)
    first = await caller.post(EVENTS, EVENT)
    assert first.status == 201
    assert first.headers["RateLimit-Policy"] == '"key";q=3;w=3000'
    assert first.headers["RateLimit"] == '"key";r=2;t=1000'
    assert await statuses(caller, 3) == [201, 201, 429]
    reply = await caller.post(EVENTS, EVENT)
    assert reply.code == "rate_limited"
    assert reply.body["retryable"] is True
    assert int(reply.headers["Retry-After"]) in (999, 1000)
    assert reply.headers["RateLimit"].startswith('"key";r=0;')
    assert await refused(admin, "rate_limited") == before + 2
    assert await statuses(admin, 5) == [201] * 5
    assert "RateLimit" not in (await admin.post(EVENTS, EVENT)).headers


async def test_a_request_that_comes_in_parts_counts_as_well(admin: Caller) -> None:
    caller = await program(admin, requests_per_s=SLOW, request_burst=2)
    head = (
        f"POST {EVENTS} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {caller.key}\r\n"
        "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    ).encode()
    whole = head + b"a\r\n" + b'{"data":1}' + b"\r\n0\r\n\r\n"
    found = [(await caller.api.raw(whole))[9:12] for _ in range(3)]
    assert found == [b"201", b"201", b"429"]


async def test_acks_have_a_reserve_and_looking_at_limits_is_free(admin: Caller) -> None:
    caller = await program(admin, requests_per_s=SLOW, request_burst=2)
    assert await statuses(caller, 3) == [201, 201, 429]
    ack = {"receipts": ["x"]}
    found = [(await caller.post("/v1/groups/g:ack", ack)).status for _ in range(3)]
    assert found[2] == 429
    assert 429 not in found[:2]
    for _ in range(5):
        own = await caller.done("GET", "/v1/limits")
        (share,) = own["limits"]
        assert (share["requests_left"], share["request_burst"]) == (0, 2)
    assert (await caller.get("/healthz")).status == 200


async def test_a_namespace_has_its_rate_for_all_of_its_keys(admin: Caller) -> None:
    await limited(admin, "namespace:acme", requests_per_s=SLOW, request_burst=4)
    first, second = await program(admin, "acme"), await program(admin, "acme")
    assert await statuses(first, 2) + await statuses(second, 3) == [201] * 4 + [429]
    stranger = await program(admin, "other")
    assert await statuses(stranger, 5) == [201] * 5
    moved = await admin.call(
        "POST", EVENTS, EVENT, headers={"Halfpast-Namespace": "acme"}
    )
    assert moved.code == "rate_limited"
    await admin.done("DELETE", f"{SUBJECTS}/namespace:acme")
    assert await statuses(first, 1) == [201]


async def test_bytes_are_paid_for_by_waiting(admin: Caller) -> None:
    caller = await program(admin, bytes_per_s=1, byte_burst=1000)
    large = {"data": "x" * 3000}
    assert (await caller.post(EVENTS, large)).status == 201
    reply = await caller.post(EVENTS, EVENT)
    assert reply.code == "bytes_limited"
    assert 1900 < int(reply.headers["Retry-After"]) < 2100
    assert reply.headers["RateLimit-Policy"].endswith('qu="content-bytes"')
    assert (await caller.get("/v1/limits")).body["limits"][0]["bytes_left"] == 0


@pytest.mark.parametrize("delay_ms", [DAY_MS + 1, 10 * DAY_MS])
async def test_nobody_schedules_further_ahead_than_their_limit(
    admin: Caller, delay_ms: int
) -> None:
    caller = await program(admin, max_delay_ms=DAY_MS)
    kept = await caller.done("POST", EVENTS, {"data": 1, "delay_ms": DAY_MS - 1000})
    later, event = {"delay_ms": delay_ms}, {"data": 1, "delay_ms": delay_ms}
    message = {"topic": "orders", **event}
    begin = {"producer_group": "shop", "messages": [message]}
    replies = [
        await caller.post(EVENTS, event),
        await caller.put(f"{EVENTS}/mine", event),
        await caller.patch(f"/v1/events/{kept['id']}", later),
        await caller.post("/v1/transactions", begin),
        await caller.post(
            "/v1/events:reschedule", {"topic": "orders", "shift_ms": delay_ms}
        ),
        await caller.post("/v1/events:batch", {"atomic": True, "events": [message]}),
    ]
    assert [it.code for it in replies] == ["delay_too_long"] * 6
    many = {"transactions": [begin]}
    batches = [
        await caller.post("/v1/events:batch", {"events": [message]}),
        await caller.post("/v1/transactions:batch", many),
    ]
    for reply in batches:
        assert reply.body["results"][0]["problem"]["code"] == "delay_too_long"
    assert (await admin.post(EVENTS, event)).status == 201


async def test_a_namespace_has_room_for_so_many_pending_events(admin: Caller) -> None:
    caller = await program(admin, "other")
    await limited(admin, "namespace:other", max_pending=3)
    later = {"data": 1, "delay": "PT1H"}
    batch = {"events": [{"topic": "a", **later}, {"topic": "b", **later}]}
    assert (await caller.post(EVENTS, later)).status == 201
    found = (await caller.post("/v1/events:batch", batch)).body["results"]
    assert [it["status"] for it in found] == [201, 201]
    for reply in (
        await caller.post(EVENTS, later),
        await caller.put(f"{EVENTS}/mine", later),
    ):
        assert reply.code == "too_many_pending"
        assert "Retry-After" in reply.headers
    found = (await caller.post("/v1/events:batch", batch)).body["results"]
    assert [it["status"] for it in found] == [429, 429]
    assert (await caller.post(EVENTS, EVENT)).status == 201  # nothing pends
    assert (await caller.done("GET", "/v1/limits"))["pending"] == 3
    await admin.done("DELETE", f"{SUBJECTS}/namespace:other")
    assert (await caller.post(EVENTS, later)).status == 201


async def test_limits_are_given_changed_and_taken_away(admin: Caller) -> None:
    path = f"{SUBJECTS}/every-user"
    made = await admin.put(path, {"requests_per_s": 5}, headers={"If-None-Match": "*"})
    assert made.status == 201
    assert made.headers["Location"] == path
    etag = made.headers["ETag"]
    again = await admin.put(path, {"requests_per_s": 5}, headers={"If-None-Match": "*"})
    assert again.code == "stale_version"
    body = {"requests_per_s": 0.5, "request_burst": 9, "max_delay_ms": DAY_MS}
    changed = await admin.put(path, body, headers={"If-Match": etag})
    assert changed.status == 200
    stale = await admin.put(path, body, headers={"If-Match": etag})
    assert stale.code == "stale_version"
    found = (await admin.get(path)).body
    assert {name: found[name] for name in body} == body
    assert found["bytes_per_s"] is None
    listed = (await admin.done("GET", SUBJECTS))["limits"]
    assert found in listed
    assert (await admin.delete(path)).status == 200
    assert (await admin.get(path)).code == "no_limits"
    assert (await admin.delete(path)).code == "no_limits"
    trail = await admin.done("GET", "/v1/trail?object=every-user")
    acts = [it["action"].partition(" ")[0] for it in trail["entries"]]
    assert acts == ["DELETE", "PUT", "PUT"]
    assert trail["entries"][1]["before"]["requests_per_s"] == 5


@pytest.mark.parametrize(
    ("subject", "body", "code"),
    [
        ("every-key", {}, "missing_field"),
        ("every-key", {"requests_per_s": -1}, "invalid_settings"),
        ("every-key", {"requests_per_s": "many"}, "invalid_request"),
        ("every-key", {"request_burst": 5}, "invalid_settings"),
        ("every-key", {"max_pending": 5}, "invalid_settings"),
        ("every-key", {"max_delay": 5}, "unknown_field"),
        ("key:aaaaaaaa", {"requests_per_s": 1}, "unknown_key"),
        ("namespace:nobody", {"requests_per_s": 1}, "unknown_namespace"),
        ("everybody", {"requests_per_s": 1}, "invalid_subject"),
    ],
)
async def test_limits_that_make_no_sense(
    admin: Caller, subject: str, body: dict[str, Any], code: str
) -> None:
    assert (await admin.put(f"{SUBJECTS}/{subject}", body)).code == code


async def test_who_may_limit_whom(admin: Caller) -> None:
    """An administrator of a namespace limits its keys, and cannot lift its own."""
    chief = await admin.with_key(role="admin", namespace="acme")
    clerk = await chief.with_key(role="operator")
    rate = {"requests_per_s": 100}
    assert (await chief.put(f"{SUBJECTS}/key:{clerk.key_id}", rate)).status == 201
    for subject in ("namespace:acme", "every-key", "user:ann"):
        assert (await chief.put(f"{SUBJECTS}/{subject}", rate)).code == "forbidden"
    outsider = await program(admin, "other")
    for subject, code in (
        ("namespace:other", "unknown_namespace"),
        ("default-namespace", "unknown_namespace"),
        (f"key:{outsider.key_id}", "unknown_key"),
        (f"key:{admin.key_id or outsider.key_id}", "unknown_key"),
    ):
        assert (await chief.put(f"{SUBJECTS}/{subject}", rate)).code == code
    await limited(admin, "namespace:acme", requests_per_s=1000)
    await limited(admin, f"key:{outsider.key_id}", requests_per_s=1000)
    seen = {it["subject"] for it in (await chief.done("GET", SUBJECTS))["limits"]}
    assert seen == {"namespace:acme", f"key:{clerk.key_id}"}
    assert (await clerk.get(SUBJECTS)).code == "forbidden"
    assert (await clerk.get("/v1/limits")).status == 200


async def test_limits_go_with_their_namespace(admin: Caller) -> None:
    await admin.done("PUT", "/v1/namespaces/brief", {})
    await limited(admin, "namespace:brief", requests_per_s=1)
    await admin.done("DELETE", "/v1/namespaces/brief")
    await admin.done("PUT", "/v1/namespaces/brief", {})
    assert (await admin.get(f"{SUBJECTS}/namespace:brief")).code == "no_limits"


async def test_an_open_server_limits_its_namespaces(tmp_path: Path) -> None:
    async with running_api(tmp_path) as api:
        anybody = Caller(api, "")
        rate = {"requests_per_s": SLOW, "request_burst": 2}
        await anybody.done("PUT", f"{SUBJECTS}/default-namespace", rate)
        assert (await statuses(anybody, 3))[-1] == 429
        own = await anybody.done("GET", "/v1/limits")
        assert own["limits"][0]["subject"] == "default-namespace"
        assert own["server"]["batch_events"] == 10_000
        # Administration has a reserve, so that one is not locked out.
        await anybody.done("DELETE", f"{SUBJECTS}/default-namespace")
        assert await statuses(anybody, 1) == [201]


async def test_callers_at_once_share_what_there_is(admin: Caller) -> None:
    caller = await program(admin, requests_per_s=SLOW, request_burst=20)

    async def one() -> Reply:
        return await caller.post(EVENTS, EVENT)

    replies = await asyncio.gather(*(one() for _ in range(50)))
    assert sorted(it.status for it in replies) == [201] * 20 + [429] * 30
