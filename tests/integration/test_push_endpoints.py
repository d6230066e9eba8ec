"""Endpoints over HTTP: their settings, every bad input, and where they may not go."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from ipaddress import ip_address
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web
from tests.integration.check_endpoint import TableLookup
from tests.integration.push_rig import QUICK, Receiver, Rig, push_rig, receiver

from halfpast_api.push.config import PushConfig
from halfpast_core_store.broker import Acquire, Empty
from halfpast_core_store.errors import FenceLost, FolderInUse

pytestmark = pytest.mark.asyncio(loop_scope="module")
URL = "https://crm.example/hooks"
GOOD: dict[str, Any] = {"url": URL, "topics": ["orders"]}
ONE = "/v1/endpoints/crm"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Rig]:
    async with push_rig(tmp_path_factory.mktemp("data"), allow="") as found:
        yield found


@pytest_asyncio.fixture(loop_scope="module", autouse=True)
async def clean(rig: Rig) -> AsyncGenerator[None]:
    yield
    for it in (await rig.api.get("/v1/endpoints")).body["endpoints"]:
        await rig.api.delete(f"/v1/endpoints/{it['name']}")


async def test_an_endpoint_is_made_changed_and_deleted(rig: Rig) -> None:
    made = await rig.api.put(ONE, GOOD)
    assert made.status == 201
    assert made.headers["Location"] == ONE
    (secret,) = made.body["secrets"]
    assert secret.startswith("whsec_")
    assert made.body["retry"] == {
        "max_attempts": 16,
        "initial_ms": 5000,
        "max_ms": 14_400_000,
    }
    assert (made.body["state"], made.body["group"]) == ("enabled", "endpoint-crm")
    shown = await rig.api.get(ONE)
    assert shown.body["secrets"] == 1
    assert secret not in shown.content.decode()
    assert shown.headers["ETag"] == made.headers["ETag"]
    patched = await rig.api.patch(
        ONE,
        {"retry": {"max_attempts": 3}, "filter": {"tags": ["a"]}, "rate_per_s": 0.5},
    )
    assert patched.body["retry"]["initial_ms"] == 5000
    assert patched.body["retry"]["max_attempts"] == 3
    assert patched.body["filter"] == {"tags": ["a"]}
    assert patched.body["rate_per_s"] == 0.5
    assert (await rig.api.patch(ONE, {"filter": None})).body["filter"] is None
    replaced = await rig.api.put(ONE, GOOD)
    assert (replaced.status, replaced.body["secrets"]) == (200, 1)
    assert replaced.body["retry"]["max_attempts"] == 16
    assert (await rig.api.delete(ONE)).body == {"name": "crm", "outcome": "deleted"}
    assert (await rig.api.get(ONE)).code == "unknown_endpoint"
    assert (await rig.api.delete(ONE)).code == "unknown_endpoint"


async def test_a_change_can_depend_on_what_was_seen(rig: Rig) -> None:
    made = await rig.api.put(ONE, GOOD, headers={"If-None-Match": "*"})
    again = await rig.api.put(ONE, GOOD, headers={"If-None-Match": "*"})
    assert again.code == "stale_version"
    tag = made.headers["ETag"]
    changed = await rig.api.patch(ONE, {"concurrency": 3}, headers={"If-Match": tag})
    assert changed.status == 200
    for verb in ("pause", "resume", "rotate-secret"):
        stale = await rig.api.post(f"{ONE}:{verb}", headers={"If-Match": tag})
        assert stale.code == "stale_version"
    assert (await rig.api.delete(ONE, headers={"If-Match": tag})).status == 412


async def test_a_pause_outlives_other_changes(rig: Rig) -> None:
    await rig.api.put(ONE, GOOD)
    await rig.api.post(f"{ONE}:pause", {"reason": "release"})
    assert (await rig.api.put(ONE, GOOD)).body["state"] == "paused"
    assert (await rig.api.patch(ONE, {"concurrency": 2})).body["reason"] == "release"
    assert (await rig.api.post(f"{ONE}:resume")).body["reason"] == ""


async def test_endpoints_are_listed_page_by_page(rig: Rig) -> None:
    for name in ("a", "b", "c"):
        await rig.api.put(f"/v1/endpoints/{name}", GOOD)
    first = (await rig.api.get("/v1/endpoints?limit=2")).body
    assert [it["name"] for it in first["endpoints"]] == ["a", "b"]
    token = first["next_page_token"]
    rest = (await rig.api.get(f"/v1/endpoints?limit=2&page_token={token}")).body
    assert [it["name"] for it in rest["endpoints"]] == ["c"]
    assert rest["next_page_token"] is None


@pytest.mark.parametrize(
    ("change", "code", "pointer"),
    [
        ({"url": "ftp://crm.example"}, "invalid_url", "/url"),
        ({"url": "https://ann:pw@crm.example"}, "invalid_url", "/url"),
        ({"url": "http://127.0.0.1/x"}, "forbidden_url", "/url"),
        ({"url": "http://localhost/x"}, "forbidden_url", "/url"),
        ({"url": "http://169.254.169.254/latest"}, "forbidden_url", "/url"),
        ({"url": "http://[::ffff:10.0.0.1]/"}, "forbidden_url", "/url"),
        ({"url": "http://0x7f.1/"}, "invalid_url", "/url"),
        ({"topics": []}, "invalid_settings", "/topics"),
        ({"topics": ["a b"]}, "invalid_topic", "/topics/0"),
        ({"topics": ["ok", "SYS_GROUPS"]}, "reserved_topic", "/topics/1"),
        ({"topics": ["%DLQ%*"]}, "invalid_topic", "/topics/0"),
        ({"topics": ["x"] * 101}, "invalid_settings", "/topics"),
        ({"mode": "smtp"}, "invalid_request", "/mode"),
        ({"ordering": "random"}, "invalid_request", "/ordering"),
        ({"concurrency": 0}, "invalid_settings", "/concurrency"),
        ({"timeout_ms": 10}, "invalid_settings", "/timeout_ms"),
        ({"rate_per_s": -1}, "invalid_settings", "/rate_per_s"),
        ({"rate_per_s": 0.001}, "invalid_settings", "/rate_per_s"),
        ({"retry": {"max_attempts": 0}}, "invalid_settings", "/retry/max_attempts"),
        ({"retry": {"initial_ms": 5}}, "invalid_settings", "/retry/initial_ms"),
        ({"retry": {"max_ms": 1}}, "invalid_settings", "/retry/max_ms"),
        ({"retry": {"tries": 1}}, "unknown_field", "/retry/tries"),
        ({"secrets": []}, "invalid_secret", "/secrets"),
        ({"secrets": ["whsec_AAAA"]}, "invalid_secret", "/secrets/0"),
        ({"filter": {"sql": "1=1"}}, "unknown_field", "/filter/sql"),
        ({"filter": {"tags": [""]}}, "invalid_request", "/filter/tags/0"),
        ({"state": "paused"}, "unknown_field", "/state"),
        ({"description": "x" * 1001}, "invalid_settings", "/description"),
    ],
)
async def test_bad_settings_are_refused_where_they_are(
    rig: Rig, change: dict[str, Any], code: str, pointer: str
) -> None:
    reply = await rig.api.put(ONE, GOOD | change)
    assert (reply.code, reply.pointers) == (code, [pointer])
    assert (await rig.api.get(ONE)).status == 404
    await rig.api.put(ONE, GOOD)
    assert (await rig.api.patch(ONE, change)).code == code
    assert (await rig.api.get(ONE)).body["url"] == URL


async def test_what_is_missing_is_named(rig: Rig) -> None:
    assert (await rig.api.put(ONE, {"url": URL})).pointers == ["/topics"]
    assert (await rig.api.put(ONE, {"topics": ["a"]})).pointers == ["/url"]
    assert (await rig.api.patch(ONE, {})).code == "unknown_endpoint"


@pytest.mark.parametrize("name", ["a%25b", "a.b", "x" * 65, "%C3%BC"])
async def test_bad_names_are_refused(rig: Rig, name: str) -> None:
    reply = await rig.api.put(f"/v1/endpoints/{name}", GOOD)
    assert reply.code == "invalid_endpoint_name"


async def test_where_an_endpoint_begins_is_not_changed_later(rig: Rig) -> None:
    await rig.api.put(ONE, GOOD)
    reply = await rig.api.patch(ONE, {"start": "earliest"})
    assert (reply.code, reply.pointers) == ("invalid_settings", ["/start"])


async def test_rotation_takes_a_secret_of_ones_own_and_ends(rig: Rig) -> None:
    own = "whsec_" + "A" * 43 + "="
    await rig.api.put(ONE, GOOD)
    rotated = await rig.api.post(f"{ONE}:rotate-secret", {"secret": own})
    assert (rotated.body["secret"], rotated.body["secrets"]) == (own, 2)
    twice = await rig.api.post(f"{ONE}:rotate-secret", {"secret": own})
    assert twice.code == "invalid_secret"
    both = {"secret": own, "finish": True}
    assert (await rig.api.post(f"{ONE}:rotate-secret", both)).status == 422
    ended = await rig.api.post(f"{ONE}:rotate-secret", {"finish": True})
    assert ended.body["secrets"] == 1


async def test_a_name_is_judged_by_what_it_stands_for_each_time(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """A public address at first, our own network a moment later."""
    public, home = ip_address("192.0.43.8"), ip_address("127.0.0.1")
    lookup = TableLookup(crm_example=[[home], [public, home]])
    folder = tmp_path_factory.mktemp("names")
    async with push_rig(folder, allow="", lookup=lookup) as rig, receiver() as inside:
        port = inside.url.split(":")[2].split("/")[0]
        await rig.put(
            "crm", f"http://crm.example:{port}/hook", "orders", timeout_ms=500
        )
        tested = (await rig.api.post(f"{ONE}:test")).body
        assert (tested["result"], tested["status"]) == ("refused_address", None)
        assert "not public" in tested["error"]
        tested = (await rig.api.post(f"{ONE}:test")).body
        assert tested["result"] in ("timeout", "connection_failed")
        assert inside.got == []
        assert len(lookup.asked) == 2


@pytest.mark.parametrize(
    "query",
    ["state=lost", "event_id=17", "limit=0", "page_token=!", "page=2"],
)
async def test_bad_questions_about_attempts_are_refused(rig: Rig, query: str) -> None:
    await rig.api.put(ONE, GOOD)
    assert (await rig.api.get(f"{ONE}/attempts?{query}")).status == 422
    assert (await rig.api.get("/v1/endpoints/none/attempts")).status == 404


async def test_attempts_are_bounded_and_good_ones_keep_the_bad_ones(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    config = PushConfig(wait_ms=QUICK.wait_ms, attempts_kept=10)
    folder = tmp_path_factory.mktemp("ring")
    async with push_rig(folder, config=config) as rig, receiver() as hook:
        await _fill(rig, hook)
        all_of_them = await rig.attempts("e", "?limit=1000")
        failed = await rig.attempts("e", "?state=failed")
        assert [it["status"] for it in failed] == [500, 500, 500]
        assert 10 <= len(all_of_them) - 3 <= 11
        assert [it["at"] for it in all_of_them] == sorted(
            (it["at"] for it in all_of_them), reverse=True
        )
        page = (await rig.api.get("/v1/endpoints/e/attempts?limit=4")).body
        after = page["next_page_token"]
        target = f"/v1/endpoints/e/attempts?limit=4&page_token={after}"
        rest = (await rig.api.get(target)).body["attempts"]
        assert [it["id"] for it in page["attempts"] + rest] == [
            it["id"] for it in all_of_them[:8]
        ]


async def _fill(rig: Rig, hook: Receiver) -> None:
    left = [500, 500, 500]
    hook.answer = lambda _: web.Response(status=left.pop() if left else 204)
    retry = {"initial_ms": 100, "max_ms": 100}
    await rig.put("e", hook.url, "t", retry=retry, concurrency=1)
    for number in range(40):
        await rig.api.publish("t", data=number)
    await hook.wait_for(43)
    await rig.until(lambda: _all_delivered(rig))


async def _all_delivered(rig: Rig) -> bool:
    now = (await rig.get("e"))["now"]
    return bool(now["delivered"] == 40)


async def test_a_new_endpoint_gets_nothing_of_one_that_had_its_name(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    async with push_rig(tmp_path_factory.mktemp("names")) as rig, receiver() as hook:
        hook.answer = lambda _: web.Response(status=500)
        retry = {"initial_ms": 100, "max_ms": 100}
        await rig.put("crm", hook.url, "orders", retry=retry)
        await rig.api.publish("orders", data="old")
        await hook.wait_for(1)
        await rig.api.delete(ONE)
        await rig.until(lambda: _is_idle(rig))
        hook.answer = lambda _: web.Response()
        hook.got.clear()
        await rig.put("crm", hook.url, "orders")
        await rig.api.publish("orders", data="new")
        await hook.wait_for(1)
        assert hook.datas() == ["new"]


async def _is_idle(rig: Rig) -> bool:
    status = await rig.push.status(Empty())
    return status.gauges["push_endpoints"] == 0


async def test_one_push_process_works_at_a_time(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """A second one on the same folder is refused; one elsewhere takes over."""
    async with push_rig(tmp_path_factory.mktemp("two")) as rig:
        with pytest.raises(FolderInUse):
            await rig.start()
        await rig.broker.acquire(Acquire("push"))
        with pytest.raises(FenceLost):
            await asyncio.wait_for(asyncio.shield(rig.push.failed), 30)
