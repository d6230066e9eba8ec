"""The real suite on a virtual clock: months pass, and everything comes at its time."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import msgspec
import pytest
import pytest_asyncio
from aiohttp import ClientSession, web
from tests.integration.push_rig import receiver

import halfpast
from halfpast.embedding import AsyncEmbedded

pytestmark = pytest.mark.asyncio
T0 = datetime(2026, 1, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


@pytest_asyncio.fixture
async def mq() -> AsyncIterator[AsyncEmbedded]:
    async with halfpast.embedded(at=T0) as running:
        yield running


async def popped(mq: AsyncEmbedded, topic: str, **options: Any) -> list[Any]:
    messages = await mq.client.pop("group", topic, max_messages=100, **options)
    await mq.client.ack("group", messages)
    return [it.data for it in messages]


async def call(
    mq: AsyncEmbedded, method: str, path: str, body: object = None
) -> tuple[int, dict[str, Any]]:
    async with (
        ClientSession() as session,
        session.request(method, mq.url + path, json=body) as answer,
    ):
        return answer.status, msgspec.json.decode(await answer.read())


async def test_it_stands_still_and_is_moved(mq: AsyncEmbedded) -> None:
    assert await mq.now() == T0
    assert await mq.advance(minutes=30) == T0 + 30 * MINUTE
    assert await mq.advance_to(T0 + 31 * MINUTE) == await mq.now()
    with pytest.raises(halfpast.Conflict, match="is over") as refused:
        await mq.advance_to(T0)
    assert refused.value.code == "clock_goes_forward"
    assert await mq.now() == T0 + 31 * MINUTE


async def test_delays_come_in_due_order_at_their_own_time(mq: AsyncEmbedded) -> None:
    for minutes in (30, 10, 365 * 24 * 60, 20):
        # With a key, so that they share a queue.
        await mq.client.schedule("late", minutes, delay=minutes * MINUTE, key="k")
    await mq.advance(minutes=29, seconds=59)
    assert await popped(mq, "late") == [10, 20]
    await mq.advance(seconds=1)
    [message] = await mq.client.pop("group", "late")
    assert message.stored_at == message.deliver_at == T0 + 30 * MINUTE
    assert await popped(mq, "late") == []
    await mq.client.ack("group", [message])
    await mq.advance(days=365)
    assert await popped(mq, "late") == [365 * 24 * 60]


async def test_many_that_are_due_in_one_millisecond_are_all_there(
    mq: AsyncEmbedded,
) -> None:
    events = [
        halfpast.NewEvent(topic="many", data=number, delay=MINUTE)
        for number in range(2_000)
    ]
    await mq.client.batch(events)
    await mq.advance(minutes=1)
    found: list[int] = []
    while some := await popped(mq, "many"):
        found += some
    assert sorted(found) == list(range(2_000))


async def test_recurring_schedules_fire_each_time(mq: AsyncEmbedded) -> None:
    await mq.client.create_schedule(
        "nightly", "report", cron="30 2 * * *", time_zone="Europe/Berlin"
    )
    await mq.advance(days=10)
    messages = await mq.client.pop("group", "nightly", max_messages=100)
    berlin = timedelta(hours=1)  # in winter
    times = [it.stored_at + berlin for it in messages if it.stored_at is not None]
    assert len(times) == 10
    assert {(it.hour, it.minute, it.second) for it in times} == {(2, 30, 0)}
    assert len({it.date() for it in times}) == 10


async def test_an_hour_of_a_schedule_by_the_second(mq: AsyncEmbedded) -> None:
    await mq.client.create_schedule("beats", 1, interval=timedelta(seconds=10))
    await mq.advance(minutes=10)
    found: list[int] = []
    while some := await popped(mq, "beats"):
        found += some
    assert len(found) == 60


async def test_what_is_popped_and_not_settled_comes_back(mq: AsyncEmbedded) -> None:
    await mq.client.publish("jobs", "work")
    [first] = await mq.client.pop("group", "jobs", invisible=5 * MINUTE)
    await mq.advance(minutes=4, seconds=59)
    assert await mq.client.pop("group", "jobs") == []
    await mq.advance(seconds=1)
    [again] = await mq.client.pop("group", "jobs", invisible=5 * MINUTE)
    assert (again.id, again.attempt) == (first.id, 2)
    await mq.client.nack("group", [again], delay=timedelta(hours=1))
    await mq.advance(minutes=59)
    assert await mq.client.pop("group", "jobs") == []
    await mq.advance(minutes=1)
    assert [it.attempt for it in await mq.client.pop("group", "jobs")] == [3]


async def test_who_waits_is_woken(mq: AsyncEmbedded) -> None:
    """By an event that becomes due, and by a message that comes back."""
    await mq.client.publish("topic", "hidden")
    await mq.client.pop("group", "topic", invisible=timedelta(hours=2))
    await mq.client.schedule("topic", "delayed", delay=timedelta(hours=1))
    async with mq.async_client() as other:
        for wanted in ("delayed", "hidden"):
            wait = timedelta(seconds=30)
            waiting = asyncio.create_task(other.pop("group", "topic", wait=wait))
            while "http_long_polls 1" not in await metrics(mq):
                assert not waiting.done()
            await mq.advance(hours=1)
            [message] = await waiting
            assert message.data == wanted
            await other.ack("group", [message])


async def test_idempotency_keys_are_forgotten_in_time(mq: AsyncEmbedded) -> None:
    first = await mq.client.publish("once", 1, idempotency_key="a")
    await mq.advance(hours=23)
    again = await mq.client.publish("once", 1, idempotency_key="a")
    assert (again.id, again.replayed) == (first.id, True)
    await mq.advance(hours=2)
    other = await mq.client.publish("once", 1, idempotency_key="a")
    assert other.id != first.id


async def test_transactions_in_doubt_are_checked_back_and_parked(
    mq: AsyncEmbedded,
) -> None:
    body = {"producer_group": "gone", "messages": [{"topic": "orders", "data": 1}]}
    _, begun = await call(mq, "POST", "/v1/transactions", body)
    path = f"/v1/transactions/{begun['id']}"
    await mq.advance(seconds=6)
    _, found = await call(mq, "GET", path)
    assert (found["state"], found["checks"]) == ("prepared", 1)
    await mq.advance(days=1)
    _, found = await call(mq, "GET", path)
    assert (found["state"], found["checks"]) == ("parked", 15)
    assert await popped(mq, "orders") == []


async def test_a_producer_that_polls_is_waited_for(mq: AsyncEmbedded) -> None:
    """Its answer is there when the clock has been moved, and not some time after."""
    asked: list[int] = []

    def check(question: halfpast.TransactionCheck) -> str:
        asked.append(question.check)
        return "committed" if question.check == 2 else "unknown"

    body = {"producer_group": "shop", "messages": [{"topic": "orders", "data": 1}]}
    poll = timedelta(milliseconds=200)
    async with halfpast.TransactionalProducer(mq.client, "shop", check, poll=poll):
        await call(mq, "POST", "/v1/transactions", body)
        while "http_long_polls 1" not in await metrics(mq):
            pass
        await mq.advance(seconds=6)
        assert asked == [1]
        assert await popped(mq, "orders") == []
        await mq.advance(minutes=1)
    assert asked == [1, 2]
    assert await popped(mq, "orders") == [1]


async def test_deliveries_and_their_retries_are_waited_for(mq: AsyncEmbedded) -> None:
    async with receiver() as hook:
        hook.answer = lambda _: web.Response(status=204 if len(hook.got) > 3 else 500)
        retry = {"initial_ms": 60_000}
        wish = {"url": hook.url, "topics": ["orders-*"], "retry": retry}
        status, made = await call(mq, "PUT", "/v1/endpoints/shop", wish)
        assert status == 201, made
        await mq.client.schedule("orders-new", {"id": 7}, delay=timedelta(hours=1))
        await mq.advance(minutes=59)
        assert hook.got == []
        await mq.advance(minutes=1)
        assert [it.data for it in hook.got] == [{"id": 7}]
        await mq.advance(days=1)
        assert len(hook.got) == 4
        _, page = await call(mq, "GET", "/v1/endpoints/shop/attempts")
        states = [it["state"] for it in page["attempts"]]
        assert states == ["delivered", "retrying", "retrying", "retrying"]
        times = [datetime.fromisoformat(it["at"]) for it in reversed(page["attempts"])]
        assert times[0] + timedelta(seconds=5) > T0 + 60 * MINUTE
        pauses = [later - earlier for earlier, later in pairwise(times)]
        for number, pause in enumerate(pauses):
            assert 0.7 * 2**number * MINUTE < pause < 1.3 * 2**number * MINUTE
        # Receivers hold signatures against their own clock.
        last = hook.got[-1]
        halfpast.verify_webhook(last.headers, last.body, made["secrets"])


async def test_wrong_moves_are_refused(mq: AsyncEmbedded) -> None:
    for body, code in (
        ({}, "missing_field"),
        ({"by": "PT1S", "to": "2027-01-01T00:00:00Z"}, "several_times"),
        ({"by_ms": -1}, "invalid_time"),
        ({"by": "1 hour"}, "invalid_time"),
        ({"to": "2027-01-01T00:00:00"}, "invalid_time"),
        ({"by_ms": 2**53}, "invalid_time"),
        ({"at": "2027-01-01T00:00:00Z"}, "unknown_field"),
    ):
        status, problem = await call(mq, "POST", "/v1/clock:advance", body)
        assert (status, problem["code"]) == (422, code), body
    with pytest.raises(ValueError, match="forward"):
        await mq.advance(minutes=-1)
    with pytest.raises(ValueError, match="either"):
        await mq.client.advance_clock()
    assert await mq.now() == T0


async def test_two_who_move_it_take_turns(mq: AsyncEmbedded) -> None:
    await mq.client.create_schedule("ticks", 1, interval=timedelta(seconds=60))
    body = {"by": "PT5M"}
    results = await asyncio.gather(
        *(call(mq, "POST", "/v1/clock:advance", body) for _ in range(3))
    )
    assert sorted(it["now"] for _, it in results) == [
        f"2026-01-01T00:{minutes:02}:00.000Z" for minutes in (5, 10, 15)
    ]
    assert len(await mq.client.pop("group", "ticks", max_messages=100)) == 15


async def test_the_machines_clock_is_not_moved() -> None:
    async with halfpast.embedded(real_time=True) as mq:
        before = datetime.now(UTC)
        with pytest.raises(halfpast.Conflict, match="--clock virtual") as refused:
            await mq.now()
        assert refused.value.code == "clock_not_virtual"
        with pytest.raises(halfpast.Conflict):
            await mq.client.advance_clock(to=before + MINUTE)
        published = await mq.client.publish("now", 1)
        assert published.server_time is not None
        assert abs(published.server_time - before) < timedelta(hours=1)


async def metrics(mq: AsyncEmbedded) -> str:
    async with ClientSession() as session, session.get(mq.url + "/metrics") as answer:
        return await answer.text()


async def test_a_paused_topic_holds_nothing_up_and_goes_on_later(
    mq: AsyncEmbedded,
) -> None:
    await mq.client.schedule("paused", 1, delay=MINUTE)
    await mq.client.schedule("open", 2, delay=2 * MINUTE)
    await call(mq, "PATCH", "/v1/topics/paused", {"paused": True})
    await mq.advance(minutes=5)
    assert (await popped(mq, "paused"), await popped(mq, "open")) == ([], [2])
    await call(mq, "PATCH", "/v1/topics/paused", {"paused": False})
    await mq.advance()
    assert await popped(mq, "paused") == [1]


async def test_a_rate_is_one_of_virtual_seconds(mq: AsyncEmbedded) -> None:
    for number in range(6):
        await mq.client.schedule("slow", number, delay=MINUTE, key="k")
    await call(mq, "PATCH", "/v1/topics/slow", {"release_rate_per_s": 1})
    await mq.advance(minutes=1)
    found = await popped(mq, "slow")
    assert found == [0]
    await mq.advance(seconds=3)
    found += await popped(mq, "slow")
    assert found == [0, 1, 2, 3]
    await mq.advance(minutes=1)
    assert found + await popped(mq, "slow") == [*range(6)]


async def test_what_no_topic_takes_is_a_dead_letter_in_time(mq: AsyncEmbedded) -> None:
    event = await mq.client.schedule("closed", 1, delay=MINUTE)
    await call(mq, "PATCH", "/v1/topics/closed", {"accepting": False})
    await mq.advance(minutes=1)
    assert (await mq.client.get(event.id)).state is halfpast.EventState.SCHEDULED
    await mq.advance(days=1)
    assert (await mq.client.get(event.id)).state is halfpast.EventState.DEAD


async def test_the_console_says_so_and_counts_ages_by_it(mq: AsyncEmbedded) -> None:
    await mq.advance(minutes=1)
    shown_ms = round((T0 + MINUTE).timestamp() * 1000)
    assert f'data-clock-ms="{shown_ms}"' in await page(mq)
    async with halfpast.embedded(real_time=True) as other:
        assert "data-clock-ms" not in await page(other)


async def page(mq: AsyncEmbedded) -> str:
    url, headers = mq.url + "/console", {"Accept": "text/html"}
    async with (
        ClientSession(headers=headers) as session,
        session.get(url) as answer,
    ):
        assert answer.status == 200
        return await answer.text()
