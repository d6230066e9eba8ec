"""Keys at work: who gets in, what they may do, and what is on record."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from tests.integration.access_server import (
    KEYS,
    Caller,
    keyed_api,
    make_admin_key,
    two_apis,
)
from tests.integration.api_server import Api, running_api

from halfpast_api.config import ApiConfig

pytestmark = pytest.mark.asyncio(loop_scope="module")

LATER = {"delay": "P1D", "data": {"card": "4711"}}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def place(
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncGenerator[tuple[Api, Caller]]:
    async with keyed_api(tmp_path_factory.mktemp("keys")) as found:
        yield found


@pytest.fixture
def api(place: tuple[Api, Caller]) -> Api:
    return place[0]


@pytest.fixture
def admin(place: tuple[Api, Caller]) -> Caller:
    return place[1]


async def scoped(admin: Caller, *scopes: str, **more: Any) -> Caller:
    return await admin.with_key(scopes=list(scopes), **more)


async def test_nobody_gets_in_without_a_key(api: Api) -> None:
    nobody = Caller(api, "")
    for method, path in (
        ("GET", "/v1/topics"),
        ("POST", "/v1/topics/orders/events"),
        ("GET", "/v1/whoami"),
        ("GET", "/metrics"),
        ("DELETE", "/v1/namespaces/x"),
    ):
        reply = await nobody.call(method, path)
        assert (reply.status, reply.code) == (401, "unauthenticated")
        assert reply.headers["WWW-Authenticate"] == 'Bearer realm="halfpast"'
    assert (await nobody.get("/healthz")).status == 200
    assert (await nobody.get("/readyz")).status == 200
    assert (await nobody.get("/v1/nowhere")).status == 404


@pytest.mark.parametrize("header", ["", "Basic YTpi", "Bearer", "Bearer  ", "Bearer x"])
async def test_what_is_no_key(api: Api, header: str) -> None:
    reply = await api.get("/v1/topics", headers={"Authorization": header})
    assert (reply.status, reply.code) == (401, "unauthenticated")


async def test_a_body_is_not_read_of_a_stranger(api: Api) -> None:
    head = (
        b"POST /v1/events:batch HTTP/1.1\r\nHost: x\r\nContent-Length: 9999999\r\n\r\n"
    )
    answer = await api.raw(head)
    assert answer.startswith(b"HTTP/1.1 401 ")


async def test_a_key_is_shown_once(admin: Caller) -> None:
    reply = await admin.post(
        "/v1/keys", {"role": "operator", "description": "shop", "expires_in": "P30D"}
    )
    assert reply.status == 201
    assert reply.headers["Cache-Control"] == "no-store"
    made = reply.body
    secret = made.pop("secret")
    assert secret.startswith(f"hp_{made['id']}_")
    assert made["state"] == "live"
    assert made["secrets"][0]["prefix"] == secret[:15] + "…"
    assert made["created_by"] == f"key:{await own_id(admin)}"
    shown = await admin.done("GET", f"/v1/keys/{made['id']}")
    assert shown == made
    listed = (await admin.get("/v1/keys?limit=1000")).content.decode()
    trail = (await admin.get("/v1/trail?limit=1000")).content.decode()
    assert made["id"] in listed
    assert made["id"] in trail
    assert secret not in listed + trail
    assert secret[15:] not in listed + trail


async def own_id(caller: Caller) -> str:
    return str((await caller.done("GET", "/v1/whoami"))["key_id"])


async def test_scopes_bound_what_a_key_may_do(admin: Caller) -> None:
    shop = await scoped(admin, "publish:orders-*", "consume:orders-*")
    assert (await shop.post("/v1/topics/orders-eu/events", {"data": 1})).status == 201
    refused = await shop.post("/v1/topics/mail/events", {"data": 1})
    assert (refused.status, refused.code) == (403, "forbidden")
    assert "'publish:mail'" in refused.body["detail"]
    batch = {"events": [{"topic": it, "data": 1} for it in ("orders-eu", "mail")]}
    results = (await shop.post("/v1/events:batch", batch)).body["results"]
    assert [it["status"] for it in results] == [201, 403]
    begin = {"producer_group": "g", "messages": [{"topic": "mail", "data": 1}]}
    assert (await shop.post("/v1/transactions", begin)).status == 403
    both = {"transactions": [begin]}
    results = (await shop.post("/v1/transactions:batch", both)).body["results"]
    assert [it["status"] for it in results] == [403]
    popped = await shop.done("POST", "/v1/groups/g:pop", {"topic": "orders-eu"})
    receipts = [it["receipt"] for it in popped["messages"]]
    settled = await shop.done("POST", "/v1/groups/g:ack", {"receipts": receipts})
    assert {it["status"] for it in settled["results"]} == {200}
    assert (await shop.post("/v1/groups/g:pop", {"topic": "mail"})).status == 403
    for method, path in (
        ("GET", "/v1/topics/orders-eu"),
        ("GET", "/v1/events"),
        ("PUT", "/v1/groups/g"),
        ("POST", "/v1/events:cancel"),
        ("GET", "/v1/keys"),
        ("GET", "/v1/trail"),
    ):
        assert (
            await shop.call(method, path, {} if method != "GET" else None)
        ).status == 403


async def test_scopes_bound_what_is_found_by_id(admin: Caller) -> None:
    for topic in ("seen", "hidden"):
        await admin.done("PUT", f"/v1/topics/{topic}", {})
    ids = {
        topic: (await admin.done("POST", f"/v1/topics/{topic}/events", LATER))["id"]
        for topic in ("seen", "hidden")
    }
    now = (await admin.done("POST", "/v1/topics/hidden/events", {"data": 1}))["id"]
    plan = {"topic": "hidden", "cron": "0 4 * * *", "data": 1}
    schedule = (await admin.done("POST", "/v1/schedules", plan))["id"]
    caller = await scoped(admin, "read:seen", "schedule:seen", "manage:seen")
    event = f"/v1/events/{ids['seen']}"
    assert (await caller.get(event)).status == 200
    assert (await caller.get("/v1/events?topic=seen")).status == 200
    assert (await caller.patch(event, {"delay": "P2D"})).status == 200
    assert [it["name"] for it in (await caller.get("/v1/topics")).body["topics"]] == [
        "seen"
    ]
    for method, path, body in (
        ("GET", f"/v1/events/{ids['hidden']}", None),
        ("GET", f"/v1/events/{now}", None),
        ("PATCH", f"/v1/events/{ids['hidden']}", {"delay": "P2D"}),
        ("DELETE", f"/v1/events/{ids['hidden']}", None),
        ("DELETE", f"/v1/events/{now}", None),
        ("POST", f"/v1/events/{ids['hidden']}:deliver-now", None),
        ("GET", "/v1/events?topic=hidden", None),
        ("GET", "/v1/events", None),
        ("GET", "/v1/schedules", None),
        ("GET", f"/v1/schedules/{schedule}", None),
        ("POST", f"/v1/schedules/{schedule}:pause", None),
        ("DELETE", f"/v1/schedules/{schedule}", None),
        ("POST", "/v1/schedules", plan),
        ("POST", "/v1/events:cancel", {"all": True}),
        ("POST", "/v1/events:cancel", {"topic": "hidden"}),
        ("PUT", "/v1/groups/g/offsets", {"topic": "hidden", "offsets": {"0": 0}}),
        ("GET", "/v1/groups/g/lag?topic=hidden", None),
        ("POST", "/v1/topics", {"name": "other"}),
    ):
        reply = await caller.call(method, path, body)
        assert (reply.status, reply.code) == (403, "forbidden"), (method, path)
    assert (await caller.delete(event)).status == 200
    assert (await admin.get(f"/v1/events/{ids['hidden']}")).body["state"] == "scheduled"


async def test_payload_is_a_right_of_its_own(admin: Caller) -> None:
    made = await admin.done("POST", "/v1/topics/cards/events", LATER | {"key": "k"})
    stored = await admin.done("POST", "/v1/topics/cards/events", {"data": {"card": 1}})
    plan = {"topic": "cards", "cron": "0 4 * * *", "data": {"card": 1}}
    schedule = await admin.done("POST", "/v1/schedules", plan)
    blind = await admin.with_key(role="operator")
    paths = [
        f"/v1/events/{made['id']}",
        f"/v1/events/{stored['id']}",
        f"/v1/schedules/{schedule['id']}",
    ]
    for path in paths:
        assert (await admin.get(path)).body["data"]["card"]
        shown = (await blind.get(path)).body
        assert "data" not in shown
        assert shown["data_withheld"] is True
    assert (await blind.get(paths[0])).body["key"] == "k"
    refused = await blind.get("/v1/events?topic=cards&data=true")
    assert (refused.status, refused.code) == (403, "forbidden")
    packed = await blind.get(paths[0], headers={"Accept": "application/msgpack"})
    assert "data" not in packed.body
    popped = await blind.done("POST", "/v1/groups/p:pop", {"topic": "cards"})
    assert popped["messages"][0]["data"] == {"card": 1}  # or it could not be consumed


async def test_a_key_cannot_give_what_it_has_not(admin: Caller) -> None:
    weak = await scoped(admin, "admin", "read:a-*")
    for wanted in (
        {"role": "read-only"},
        {"role": "admin"},
        {"scopes": ["read"]},
        {"scopes": ["read:a*"]},
        {"scopes": ["publish:a-b"]},
        {"scopes": ["read:a-*"], "view_payload": True},
        {"scopes": ["read:a-*"], "all_namespaces": True},
    ):
        reply = await weak.post("/v1/keys", wanted)
        assert (reply.status, reply.code) == (403, "forbidden"), wanted
    made = await weak.with_key(scopes=["read:a-b*", "admin"])
    strong = await admin.with_key(role="operator")
    for verb, body in ((":rotate", {}), ("", {"description": "mine"})):
        method = "POST" if verb else "PATCH"
        reply = await weak.call(method, f"/v1/keys/{strong.key_id}{verb}", body)
        assert reply.status == 403
    grown = await weak.patch(f"/v1/keys/{made.key_id}", {"scopes": ["publish"]})
    assert grown.status == 403
    assert (await weak.post(f"/v1/keys/{strong.key_id}:revoke")).status == 200


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        ({}, "invalid_settings"),
        ({"role": "king"}, "invalid_settings"),
        ({"role": "admin", "scopes": ["read"]}, "invalid_settings"),
        ({"scopes": ["read", "fly"]}, "invalid_scope"),
        ({"scopes": []}, "invalid_settings"),
        ({"role": "admin", "namespace": "nowhere"}, "unknown_namespace"),
        ({"role": "admin", "expires_in": "-PT1S"}, "invalid_time"),
        ({"role": "admin", "expires_at": "2001-01-01T00:00:00Z"}, "invalid_time"),
        ({"role": "admin", "expires_in": "P1D", "expires_at": "x"}, "several_times"),
        ({"role": "admin", "colour": "red"}, "unknown_field"),
        ({"role": "admin", "secret": "mine"}, "unknown_field"),
    ],
)
async def test_a_key_that_cannot_be(
    admin: Caller, wanted: dict[str, Any], code: str
) -> None:
    before = len((await admin.get("/v1/keys?limit=1000")).body["keys"])
    reply = await admin.post("/v1/keys", wanted)
    assert reply.code == code, reply.content
    assert len((await admin.get("/v1/keys?limit=1000")).body["keys"]) == before


async def test_a_key_is_changed(admin: Caller) -> None:
    key = await admin.with_key(role="read-only")
    path = f"/v1/keys/{key.key_id}"
    assert (await key.post("/v1/topics/t/events", {"data": 1})).status == 403
    tag = (await admin.get(path)).headers["ETag"]
    changed = await admin.patch(
        path, {"scopes": ["publish:t"]}, headers={"If-Match": tag}
    )
    assert (changed.status, changed.body["role"]) == (200, "")
    assert (await key.post("/v1/topics/t/events", {"data": 1})).status == 201
    stale = await admin.patch(path, {"role": "admin"}, headers={"If-Match": tag})
    assert (stale.status, stale.code) == (412, "stale_version")
    assert (await admin.patch(path, {})).code == "missing_field"


async def test_two_secrets_live_while_one_is_replaced(admin: Caller) -> None:
    old = await admin.with_key(role="read-only")
    path = f"/v1/keys/{old.key_id}"
    rotated = await admin.done("POST", f"{path}:rotate", {"keep_old_ms": 60_000})
    new = Caller(old.api, rotated["secret"])
    assert len(rotated["secrets"]) == 2
    assert (await old.get("/v1/topics")).status == 200
    assert (await new.get("/v1/topics")).status == 200
    again = await admin.done("POST", f"{path}:rotate", {"keep_old_ms": 0})
    assert len(again["secrets"]) == 1
    for gone in (old, new):
        assert (await gone.get("/v1/topics")).status == 401
    assert (await Caller(old.api, again["secret"]).get("/v1/topics")).status == 200
    reply = await admin.post(f"{path}:rotate", {"keep_old_ms": -1})
    assert (reply.status, reply.code) == (422, "invalid_settings")


async def test_a_revoked_key_is_gone_for_good(admin: Caller) -> None:
    key = await admin.with_key(role="admin")
    path = f"/v1/keys/{key.key_id}"
    revoked = await admin.done("POST", f"{path}:revoke")
    assert (revoked["state"], revoked["secrets"]) == ("revoked", [])
    refused = await key.get("/v1/topics")
    assert refused.status == 401
    assert (await admin.done("POST", f"{path}:revoke")) == revoked
    for verb in (":rotate", ""):
        method = "POST" if verb else "PATCH"
        reply = await admin.call(
            method, path + verb, {"description": "x"} if not verb else {}
        )
        assert (reply.status, reply.code) == (409, "key_revoked")


@pytest.mark.parametrize("key_id", ["00000000", "x", "A" * 8, "%2F", "a" * 500])
async def test_an_unknown_key(admin: Caller, key_id: str) -> None:
    reply = await admin.get(f"/v1/keys/{key_id}")
    assert (reply.status, reply.code) == (404, "unknown_key")


async def test_a_namespace_is_administered(admin: Caller) -> None:
    put = await admin.put("/v1/namespaces/acme", {"description": "Acme"})
    assert (put.status, put.headers["Location"]) == (201, "/v1/namespaces/acme")
    assert (await admin.put("/v1/namespaces/acme", {})).status == 200
    tenant = await admin.with_key(role="admin", namespace="acme")
    await tenant.done("POST", "/v1/topics/orders/events", {"data": 1})
    assert (await tenant.put("/v1/namespaces/acme", {})).code == "forbidden"
    assert (await tenant.get("/v1/namespaces/acme")).body["name"] == "acme"
    listed = (await tenant.get("/v1/namespaces")).body["namespaces"]
    assert [it["name"] for it in listed] == ["acme"]
    own = await tenant.with_key(role="operator")
    assert (await own.get("/v1/whoami")).body["namespace"] == "acme"
    await admin.done("PUT", "/v1/namespaces/acme", {"suspended": True})
    refused = await tenant.get("/v1/topics")
    assert (refused.status, refused.code) == (403, "namespace_suspended")
    await admin.done("PUT", "/v1/namespaces/acme", {})
    assert (await tenant.get("/v1/topics")).status == 200
    in_use = await admin.delete("/v1/namespaces/acme")
    assert (in_use.status, in_use.code) == (409, "namespace_in_use")
    await admin.done("PUT", "/v1/namespaces/empty", {})
    assert (await admin.delete("/v1/namespaces/empty")).body["outcome"] == "deleted"
    assert (await admin.get("/v1/namespaces/empty")).code == "unknown_namespace"


async def test_a_namespace_takes_no_names_over(admin: Caller) -> None:
    await admin.done("POST", "/v1/topics/50%25off/events", {"data": 1})
    reply = await admin.put("/v1/namespaces/50", {})
    assert (reply.status, reply.code) == (409, "namespace_in_use")
    await admin.done("PUT", "/v1/producer-groups/x1%25shop", {})
    assert (await admin.put("/v1/namespaces/x1", {})).code == "namespace_in_use"
    for name in ("a%25b", "SYS_x", "x" * 33, "-"):
        assert (
            await admin.put(f"/v1/namespaces/{name}", {})
        ).code == "invalid_settings"


async def test_the_suite_chooses_a_namespace(admin: Caller) -> None:
    await admin.done("PUT", "/v1/namespaces/chosen", {})
    headers = {"Halfpast-Namespace": "chosen"}
    await admin.post("/v1/topics/t-chosen/events", {"data": 1}, headers=headers)
    shown = (await admin.get("/v1/topics", headers=headers)).body["topics"]
    assert [it["name"] for it in shown] == ["t-chosen"]
    shown = (await admin.get("/v1/topics")).body["topics"]
    assert not any("t-chosen" in it["name"] for it in shown)
    headers = {"Halfpast-Namespace": "nowhere"}
    assert (await admin.get("/v1/topics", headers=headers)).code == "unknown_namespace"
    tenant = await admin.with_key(role="admin", namespace="chosen")
    for name in ("acme", "", "*", "nowhere"):
        reply = await tenant.get("/v1/topics", headers={"Halfpast-Namespace": name})
        assert (reply.status, reply.code) == (404, "unknown_namespace")
    same = await tenant.get("/v1/topics", headers={"Halfpast-Namespace": "chosen"})
    assert same.status == 200
    assert (await tenant.get("/metrics")).code == "forbidden"


async def test_idempotency_keys_are_a_namespaces_own(admin: Caller) -> None:
    await admin.done("PUT", "/v1/namespaces/idem", {})
    tenant = await admin.with_key(role="admin", namespace="idem")
    batch = {"events": [{"topic": "t", "data": 1}]}
    headers = {"Idempotency-Key": "same"}
    first = await admin.post("/v1/events:batch", batch, headers=headers)
    other = await tenant.post("/v1/events:batch", batch, headers=headers)
    again = await tenant.post("/v1/events:batch", batch, headers=headers)
    ids = [it.body["results"][0]["id"] for it in (first, other, again)]
    assert ids[0] != ids[1] == ids[2]


async def test_acts_are_on_record(admin: Caller) -> None:
    await admin.done("PUT", "/v1/topics/acted", {"max_pending": 5})
    await admin.done("PATCH", "/v1/topics/acted", {"max_pending": 6})
    await admin.done("POST", "/v1/topics/acted/events", {"data": "not told"})
    await admin.put("/v1/topics/acted", {"queues": 0})  # refused, so no act
    headers = {"X-Request-Id": "mine-1"}
    await admin.put("/v1/producer-groups/acted", {"check_max": 3}, headers=headers)
    entries = (await admin.get("/v1/trail?object=acted")).body["entries"]
    assert [it["action"] for it in entries] == [
        "PUT /v1/producer-groups/{group}",
        "PATCH /v1/topics/{topic}",
        "PUT /v1/topics/{topic}",
    ]
    assert entries[0]["request_id"] == "mine-1"
    assert entries[1]["before"]["max_pending"] == 5
    assert entries[1]["after"]["max_pending"] == 6
    assert entries[2]["before"] is None  # it was new
    assert {it["actor"] for it in entries} == {f"key:{await own_id(admin)}"}
    assert "not told" not in str(entries)


async def test_the_trail_is_read_page_by_page(admin: Caller) -> None:
    for number in range(5):
        await admin.done("PUT", f"/v1/groups/paged-{number}", {})
    query = "/v1/trail?action=PUT%20%2Fv1%2Fgroups%2F%7Bgroup%7D&limit=2"
    found: list[str] = []
    token = ""
    while True:
        page = (await admin.get(query + token)).body
        found += [it["object"] for it in page["entries"]]
        if not page["next_page_token"]:
            break
        token = f"&page_token={page['next_page_token']}"
    assert found[:5] == [f"paged-{number}" for number in (4, 3, 2, 1, 0)]
    early = (await admin.get("/v1/trail?before=2001-01-01T00:00:00Z")).body
    assert early["entries"] == []


async def test_when_a_key_was_used(tmp_path: Path) -> None:
    async with keyed_api(tmp_path) as (api, admin):
        key = await admin.with_key(role="read-only")
        assert (await admin.get(f"/v1/keys/{key.key_id}")).body["last_used_at"] is None
        await key.get("/v1/topics")
        await api.stop()  # which writes down what is not written yet
    async with running_api(tmp_path, KEYS) as again:
        later = Caller(again, admin.key)
        assert (await later.get(f"/v1/keys/{key.key_id}")).body["last_used_at"]


async def test_auto_asks_from_the_first_key_on(tmp_path: Path) -> None:
    async with running_api(tmp_path, ApiConfig(port=0, auth="auto")) as api:
        anybody = Caller(api, "")
        assert (await anybody.get("/v1/whoami")).body["mode"] == "open"
        first = await anybody.with_key(role="admin", all_namespaces=True)
        assert (await anybody.get("/v1/whoami")).status == 401
        assert (await first.get("/v1/whoami")).body["mode"] == "keys"
        await first.done("POST", f"/v1/keys/{first.key_id}:revoke")
        assert (await anybody.get("/v1/topics")).status == 401


async def test_another_process_hears_of_a_revoked_key(tmp_path: Path) -> None:
    async with two_apis(tmp_path) as (admin, other):
        key = await admin.with_key(role="read-only")
        there = Caller(other, key.key)
        async with asyncio.timeout(30):
            while (await there.get("/v1/topics")).status == 401:
                pass  # until it hears of the key
            await admin.done("POST", f"/v1/keys/{key.key_id}:revoke")
            while (await there.get("/v1/topics")).status == 200:
                pass  # and of its end


async def test_metrics_may_be_open(tmp_path: Path) -> None:
    await make_admin_key(tmp_path)
    config = ApiConfig(port=0, auth="keys", metrics_open=True)
    async with running_api(tmp_path, config) as api:
        assert (await api.get("/metrics")).status == 200
        assert (await api.get("/v1/topics")).status == 401


async def test_an_open_server_is_not_for_web_pages(tmp_path: Path) -> None:
    async with running_api(tmp_path) as api:
        rebound = await api.get("/v1/topics", headers={"Host": "evil.example"})
        assert (rebound.status, rebound.code) == (403, "forbidden_host")
        assert (
            await api.get("/v1/topics", headers={"Host": "localhost"})
        ).status == 200
        event = await api.publish("t", delay="P1D", data=1)
        target = f"/v1/events/{event['id']}:deliver-now"
        for headers in (
            {"Origin": "https://evil.example"},
            {"Sec-Fetch-Site": "cross-site"},
        ):
            forged = await api.post(target, headers=headers)
            assert (forged.status, forged.code) == (403, "cross_site")
        assert (await api.get(f"/v1/events/{event['id']}")).body["state"] == "scheduled"
        assert (await api.post(target)).status == 200


async def test_a_signing_secret_is_shown_once_and_ends_with_its_key(
    api: Api, admin: Caller
) -> None:
    made = await admin.done("POST", "/v1/keys", {"role": "read-only", "signing": True})
    key = f"/v1/keys/{made['id']}"
    first = made["signing_secret"]
    assert first.startswith(f"hps_{made['id']}_")
    assert made["signing_secrets"][0]["prefix"] == first[:16] + "…"
    reply = await admin.post(f"{key}:rotate-signing", {"keep_old_ms": 60_000})
    assert reply.headers["Cache-Control"] == "no-store"
    second = reply.body["signing_secret"]
    assert second != first
    assert [bool(it["expires_at"]) for it in reply.body["signing_secrets"]] == [
        False,
        True,
    ]
    for secret in (first, second):
        nobody = await Caller(api, secret).get("/v1/whoami")
        assert nobody.status == 401
        assert "signing secret" in nobody.body["detail"]
    dropped = await admin.done("POST", f"{key}:drop-signing")
    assert dropped["signing_secrets"] == []
    assert await Caller(api, made["secret"]).done("GET", "/v1/whoami")
    assert (await admin.done("POST", f"{key}:rotate-signing"))["signing_secrets"]
    revoked = await admin.done("POST", f"{key}:revoke")
    assert revoked["signing_secrets"] == []
    refused = await admin.post(f"{key}:rotate-signing")
    assert (refused.status, refused.code) == (409, "key_revoked")
    seen = str(await admin.done("GET", f"/v1/trail?object={made['id']}"))
    assert "rotate-signing" in seen
    assert first not in seen
    assert second not in seen


async def test_a_signing_secret_is_not_for_who_has_less_than_the_key(
    admin: Caller,
) -> None:
    strong = await admin.with_key(role="operator")
    weak = await scoped(admin, "admin")
    reply = await weak.post(f"/v1/keys/{strong.key_id}:rotate-signing")
    assert (reply.status, reply.code) == (403, "forbidden")
