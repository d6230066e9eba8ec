"""Deliveries to a real receiver: signed, tried again, given up, in order."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web
from standardwebhooks.webhooks import Webhook, WebhookVerificationError
from tests.integration.push_rig import Got, Receiver, Rig, push_rig, receiver

pytestmark = pytest.mark.asyncio(loop_scope="module")
QUICK_RETRY = {"retry": {"max_attempts": 3, "initial_ms": 100, "max_ms": 100}}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Rig]:
    async with push_rig(tmp_path_factory.mktemp("data")) as found:
        yield found


@pytest_asyncio.fixture(loop_scope="module")
async def hook() -> AsyncGenerator[Receiver]:
    async with receiver() as found:
        yield found


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """Of topic and endpoint alike: one for each test."""
    return f"t{abs(hash(request.node.nodeid)):x}"


def statuses(*codes: int, **headers: str) -> Any:
    """A receiver that answers with these, and then with 200."""
    left = list(codes)

    def answer(_: Got) -> web.Response:
        status = left.pop(0) if left else 200
        return web.Response(status=status, headers=headers if status != 200 else {})

    return answer


async def test_a_delivery_is_signed_so_that_the_library_accepts_it(
    rig: Rig, hook: Receiver, name: str
) -> None:
    made = await rig.put(name, hook.url, name)
    (secret,) = made["secrets"]
    event = await rig.api.publish(name, data={"n": 1}, key="17", tag="paid")
    (got,) = await hook.wait_for(1)
    body = Webhook(secret).verify(got.body, dict(got.headers))
    assert body["data"] == {"n": 1}
    assert body["type"] == name
    assert body["event"]["id"] == event["id"]
    assert (body["event"]["key"], body["event"]["tag"]) == ("17", "paid")
    assert got.headers["webhook-id"] == f"{event['id']}_{name}"
    with pytest.raises(WebhookVerificationError):
        Webhook(secret).verify(got.body + b" ", dict(got.headers))


async def test_bytes_and_schedules_arrive_too(
    rig: Rig, hook: Receiver, name: str
) -> None:
    await rig.put(name, hook.url, name)
    await rig.api.publish(name, data_base64="/wA=", delay_ms=200)
    (got,) = await hook.wait_for(1)
    assert got.json["data_base64"] == "/wA="
    assert "data" not in got.json
    assert got.json["event"]["deliver_at"]


async def test_while_a_secret_is_rotated_both_sign(
    rig: Rig, hook: Receiver, name: str
) -> None:
    (old,) = (await rig.put(name, hook.url, name))["secrets"]
    rotated = await rig.api.post(f"/v1/endpoints/{name}:rotate-secret")
    new = rotated.body["secret"]
    assert rotated.body["secrets"] == 2
    await rig.api.publish(name, data=1)
    (got,) = await hook.wait_for(1)
    for secret in (old, new):
        Webhook(secret).verify(got.body, dict(got.headers))
    finished = await rig.api.post(
        f"/v1/endpoints/{name}:rotate-secret", {"finish": True}
    )
    assert (finished.body["secret"], finished.body["secrets"]) == (None, 1)
    await rig.api.publish(name, data=2)
    got = (await hook.wait_for(2))[1]
    Webhook(new).verify(got.body, dict(got.headers))
    with pytest.raises(WebhookVerificationError):
        Webhook(old).verify(got.body, dict(got.headers))


async def test_a_failed_delivery_is_tried_again_under_the_same_id(
    rig: Rig, hook: Receiver, name: str
) -> None:
    hook.answer = statuses(500, 404)
    await rig.put(name, hook.url, name, **QUICK_RETRY)
    event = await rig.api.publish(name, data=1)
    got = await hook.wait_for(3)
    assert len({it.headers["webhook-id"] for it in got}) == 1
    assert [it.headers["halfpast-attempt"] for it in got] == ["1", "2", "3"]
    assert len({it.body for it in got}) == 1
    await rig.until(lambda: _has(rig, name, 3))
    attempts = await rig.attempts(name, f"?event_id={event['id']}")
    assert [it["state"] for it in attempts] == ["delivered", "retrying", "retrying"]
    assert [it["status"] for it in attempts] == [200, 404, 500]
    assert attempts[1]["next_attempt_at"]
    failed = await rig.attempts(name, "?state=failed")
    assert [it["status"] for it in failed] == [404, 500]


async def _has(rig: Rig, name: str, count: int) -> bool:
    return len(await rig.attempts(name)) >= count


async def test_what_is_given_up_is_a_dead_letter_with_the_reason_and_can_be_redriven(
    rig: Rig, hook: Receiver, name: str
) -> None:
    hook.answer = lambda _: web.Response(status=500, text="no\x1b[1m <b>way</b>")
    await rig.put(name, hook.url, name, **QUICK_RETRY)
    event = await rig.api.publish(name, data={"n": 1}, properties={"a": "b"})
    await rig.until(lambda: _is_dead(rig, name))
    (dead,) = await rig.dead(name)
    assert dead["id"] == event["id"]
    assert (dead["attempts"], dead["reason"]) == (3, "http 500")
    assert dead["properties"] == {"a": "b"}
    (newest, *_) = await rig.attempts(name)
    assert (newest["state"], newest["response"]) == ("dead", "no[1m <b>way</b>")
    counts = (await rig.api.get("/v1/dead-letters/counts")).body["counts"]
    mine = [it for it in counts if it["endpoint"] == name]
    assert [it["dead_letters"] for it in mine] == [1]
    hook.answer = statuses()
    wish = {"source": "endpoint", "endpoint": name, "ids": [event["id"]]}
    tried = await rig.operation({**wish, "dry_run": True})
    assert (tried["matched"], tried["changed"]) == (1, 0)
    done = await rig.operation(wish)
    assert (done["state"], done["matched"], done["changed"]) == ("done", 1, 1)
    got = (await hook.wait_for(4))[3]
    assert got.headers["halfpast-attempt"] == "1"
    assert got.headers["webhook-id"] == f"{event['id']}_{name}"
    assert await rig.dead(name) == []


async def _is_dead(rig: Rig, name: str) -> bool:
    return bool(await rig.dead(name))


async def test_retry_after_is_honoured_for_the_message_and_the_endpoint(
    rig: Rig, hook: Receiver, name: str
) -> None:
    hook.answer = statuses(503, **{"Retry-After": "1"})
    await rig.put(name, hook.url, name, **QUICK_RETRY)
    begun_s = time.monotonic()
    await rig.api.publish(name, data=1)
    await hook.wait_for(1)
    await rig.api.publish(name, data=2)
    await hook.wait_for(3)
    assert time.monotonic() - begun_s >= 1
    (oldest,) = [it for it in await rig.attempts(name) if it["status"] == 503]
    assert oldest["state"] == "retrying"


async def test_410_disables_the_endpoint_and_nothing_is_lost(
    rig: Rig, hook: Receiver, name: str
) -> None:
    hook.answer = statuses(410)
    await rig.put(name, hook.url, name)
    await rig.api.publish(name, data=1)
    await rig.until(lambda: _has_state(rig, name, "disabled"))
    assert "410" in (await rig.get(name))["reason"]
    await rig.api.publish(name, data=2)
    (attempt,) = await rig.attempts(name)
    assert attempt["state"] == "held"
    enabled = await rig.api.post(f"/v1/endpoints/{name}:enable")
    assert (enabled.body["state"], enabled.body["reason"]) == ("enabled", "")
    await hook.wait_for(3)
    assert sorted(hook.datas()) == [1, 1, 2]
    assert [it.headers["halfpast-attempt"] for it in hook.got] == ["1"] * 3


async def _has_state(rig: Rig, name: str, state: str) -> bool:
    return bool((await rig.get(name))["state"] == state)


async def test_redirects_are_not_followed(rig: Rig, hook: Receiver, name: str) -> None:
    location = hook.url.replace("/hook", "/elsewhere")
    hook.answer = statuses(302, Location=location)
    await rig.put(name, hook.url, name, **QUICK_RETRY)
    await rig.api.publish(name, data=1)
    got = await hook.wait_for(2)
    assert {it.path for it in got} == {"/hook"}
    await rig.until(lambda: _has(rig, name, 2))
    assert (await rig.attempts(name))[1]["result"] == "redirect"


async def test_a_paused_endpoint_gets_nothing_until_it_is_resumed(
    rig: Rig, hook: Receiver, name: str
) -> None:
    await rig.put(name, hook.url, name)
    paused = await rig.api.post(f"/v1/endpoints/{name}:pause", {"reason": "release"})
    assert (paused.body["state"], paused.body["reason"]) == ("paused", "release")
    await rig.api.publish(name, data=1)
    tested = (await rig.api.post(f"/v1/endpoints/{name}:test")).body
    assert tested["delivered"]  # a test goes all the same, and comes alone
    assert len(hook.got) == 1
    await rig.api.post(f"/v1/endpoints/{name}:resume")
    assert (await hook.wait_for(2))[1].data == 1


async def test_only_what_the_filter_wants_is_delivered(
    rig: Rig, hook: Receiver, name: str
) -> None:
    wanted = {"tags": ["paid"], "properties": {"region": ["eu", "us"]}}
    await rig.put(name, hook.url, name, filter=wanted)
    for number, (tag, region) in enumerate(
        [("paid", "eu"), ("open", "eu"), ("paid", "cn"), ("paid", "us")]
    ):
        properties = {"region": region}
        await rig.api.publish(name, data=number, tag=tag, properties=properties)
    await hook.wait_for(2)
    assert sorted(hook.datas()) == [0, 3]


async def test_an_endpoint_begins_with_what_comes_or_with_all_there_is(
    rig: Rig, hook: Receiver, name: str
) -> None:
    await rig.api.publish(name, data="before")
    await rig.put(f"{name}-late", hook.url, name)
    await rig.api.publish(name, data="after")
    await hook.wait_for(1)
    assert hook.datas() == ["after"]
    async with receiver() as early:
        await rig.put(f"{name}-early", early.url, name, start="earliest")
        await early.wait_for(2)
        assert sorted(early.datas()) == ["after", "before"]


async def test_a_pattern_takes_in_topics_that_come_later(
    rig: Rig, hook: Receiver, name: str
) -> None:
    await rig.put(name, hook.url, f"{name}-*")
    await rig.api.publish(f"{name}-new", data="new")
    await rig.api.publish(f"other-{name}-new", data="other")
    await hook.wait_for(1)
    assert hook.datas() == ["new"]


async def test_messages_of_a_key_come_in_order_whatever_fails(
    rig: Rig, hook: Receiver, name: str
) -> None:
    failed: Counter[str] = Counter()
    delivered: dict[str, list[int]] = {}

    async def answer(got: Got) -> web.Response:
        await asyncio.sleep(0)
        key, number = got.data
        if number % 3 == 1 and failed[f"{key}/{number}"] < 2:
            failed[f"{key}/{number}"] += 1
            return web.Response(status=500)
        delivered.setdefault(key, []).append(number)
        return web.Response()

    hook.answer = answer
    retry = {"max_attempts": 5, "initial_ms": 100, "max_ms": 100}
    await rig.put(name, hook.url, name, ordering="per_key", retry=retry)
    events = [
        {"topic": name, "key": key, "data": [key, number]}
        for number in range(8)
        for key in ("a", "b", "c")
    ]
    reply = await rig.api.post("/v1/events:batch", {"events": events})
    assert reply.status == 200
    await hook.wait_until(
        lambda: [len(delivered.get(key, [])) for key in "abc"] == [8] * 3
    )
    assert delivered == {key: list(range(8)) for key in "abc"}


async def test_a_dead_message_lets_the_next_of_its_key_go(
    rig: Rig, hook: Receiver, name: str
) -> None:
    hook.answer = lambda got: web.Response(status=500 if got.data == 1 else 200)
    await rig.put(name, hook.url, name, ordering="per_key", **QUICK_RETRY)
    for number in (1, 2):
        await rig.api.publish(name, key="k", data=number)
    await hook.wait_for(4)
    assert hook.datas() == [1, 1, 1, 2]
    await rig.until(lambda: _is_dead(rig, name))


async def test_a_slow_endpoint_holds_up_no_other(
    rig: Rig, hook: Receiver, name: str
) -> None:
    never = asyncio.Event()

    async def answer(_: Got) -> web.Response:
        await never.wait()
        return web.Response()

    async with receiver() as slow:
        slow.answer = answer
        await rig.put(f"{name}-slow", slow.url, name, concurrency=2)
        await rig.put(name, hook.url, name)
        for number in range(20):
            await rig.api.publish(name, data=number)
        await hook.wait_for(20)
        assert sorted(hook.datas()) == list(range(20))
        await slow.wait_for(2)
        assert len(slow.got) == 2
        now = (await rig.get(f"{name}-slow"))["now"]
        assert now["in_flight"] == 2
        assert now["waiting"] <= 2
        never.set()
        await slow.wait_for(20)


async def test_a_call_that_takes_too_long_has_failed(
    rig: Rig, hook: Receiver, name: str
) -> None:
    never = asyncio.Event()

    async def answer(_: Got) -> web.Response:
        if len(hook.got) == 1:
            await never.wait()
        return web.Response()

    hook.answer = answer
    await rig.put(name, hook.url, name, timeout_ms=200, **QUICK_RETRY)
    await rig.api.publish(name, data=1)
    await hook.wait_for(2)
    await rig.until(lambda: _has(rig, name, 2))
    assert (await rig.attempts(name))[1]["result"] == "timeout"


async def test_a_status_counts_though_its_body_never_ends(
    rig: Rig, hook: Receiver, name: str
) -> None:
    async def answer(_: Got) -> web.StreamResponse:
        response = web.StreamResponse()
        response.content_length = 1_000_000
        hook_request = waiting.pop()
        await response.prepare(hook_request)
        await response.write(b"x" * 5_000)
        await asyncio.Event().wait()
        return response

    waiting: list[web.Request] = []
    plain = hook.handle

    async def handle(request: web.Request) -> web.StreamResponse:
        waiting.append(request)
        return await plain(request)

    app = web.Application()
    app.router.add_post("/hook", handle)
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True)
    await runner.setup()
    hook.answer = answer
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}/hook"
        await rig.put(name, url, name)
        await rig.api.publish(name, data=1)
        await rig.until(lambda: _has(rig, name, 1))
    finally:
        await runner.cleanup()
    (attempt,) = await rig.attempts(name)
    assert (attempt["state"], len(attempt["response"])) == ("delivered", 1024)


async def test_a_rate_is_kept(rig: Rig, hook: Receiver, name: str) -> None:
    await rig.put(name, hook.url, name, rate_per_s=4)
    for number in range(8):
        await rig.api.publish(name, data=number)
    begun_s = time.monotonic()
    await hook.wait_for(8)
    assert time.monotonic() - begun_s >= 0.5  # four at once, four more at 4 a second
