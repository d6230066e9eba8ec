"""Ordered groups and filter expressions over HTTP."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from tests.integration.api_server import Api, running_api

import halfpast

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def api(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Api]:
    async with running_api(tmp_path_factory.mktemp("api")) as api:
        yield api


async def make_ordered(api: Api, group: str) -> None:
    body = {"ordered": True, "max_attempts": 2, "backoff_initial_ms": 0}
    reply = await api.call("PUT", f"/v1/groups/{group}", body)
    assert reply.status == 201, reply
    assert reply.body["ordered"] is True


async def settle(api: Api, group: str, verb: str, message: dict[str, Any]) -> None:
    body = {"receipts": [message["receipt"]]}
    reply = await api.post(f"/v1/groups/{group}:{verb}", body)
    assert reply.body["results"][0]["status"] == 200, reply


def data_of(messages: list[dict[str, Any]]) -> list[Any]:
    return [message["data"] for message in messages]


# --- order ------------------------------------------------------------------------


async def test_an_ordered_group_gets_a_key_one_at_a_time(api: Api) -> None:
    await make_ordered(api, "fifo")
    for data in ("a1", "a2", "b1"):
        await api.publish("steps", data=data, key=data[0])
    first = {it["data"]: it for it in await api.pop("fifo", "steps")}
    assert sorted(first) == ["a1", "b1"]
    lag = (await api.get("/v1/groups/fifo/lag?topic=steps")).body
    assert (lag["lag"], lag["in_flight"], lag["held_back"]) == (3, 3, 1)
    waiting = asyncio.create_task(api.pop("fifo", "steps", wait_ms=20_000))
    await settle(api, "fifo", "ack", first["a1"])
    (second,) = await waiting
    assert (second["data"], second["attempt"]) == ("a2", 1)


async def test_failures_hold_back_the_key_until_the_dead_letter(api: Api) -> None:
    await make_ordered(api, "poison")
    for data in ("bad", "good"):
        await api.publish("pills", data=data, key="k")
    for attempt in (1, 2):
        (message,) = await api.pop("poison", "pills", wait_ms=5000)
        assert (message["data"], message["attempt"]) == ("bad", attempt)
        await settle(api, "poison", "nack", message)
    (message,) = await api.pop("poison", "pills", wait_ms=5000)
    assert message["data"] == "good"
    (dead,) = await api.pop("undertaker", "%DLQ%poison")
    assert dead["data"] == "bad"


async def test_order_is_that_of_the_log_however_messages_came(api: Api) -> None:
    await make_ordered(api, "mixed")
    await api.publish("ways", data="late", key="k", delay_ms=300)
    begun = await api.post(
        "/v1/transactions",
        {
            "producer_group": "ways",
            "messages": [{"topic": "ways", "data": "committed", "key": "k"}],
        },
    )
    await api.publish("ways", data="now", key="k")
    await api.post(f"/v1/transactions/{begun.body['id']}:commit", {})
    got: list[Any] = []
    offsets: list[int] = []
    for _ in range(3):
        (message,) = await api.pop("mixed", "ways", wait_ms=10_000)
        got.append(message["data"])
        offsets.append(message["offset"])
        await settle(api, "mixed", "ack", message)
    assert sorted(got) == ["committed", "late", "now"]
    assert offsets == [0, 1, 2]


async def test_a_group_may_become_ordered_while_it_is_at_work(api: Api) -> None:
    await api.publish("switch", data="a1", key="a")
    (first,) = await api.pop("switching", "switch")
    await make_ordered(api, "switching")
    await api.publish("switch", data="a2", key="a")
    assert await api.pop("switching", "switch") == []
    await settle(api, "switching", "ack", first)
    assert data_of(await api.pop("switching", "switch")) == ["a2"]


# --- filters ----------------------------------------------------------------------


async def test_a_pop_and_a_pull_take_what_an_expression_wants(api: Api) -> None:
    for number, region in enumerate(("eu", "us", "eu", None)):
        properties = {"n": str(number)} | ({"region": region} if region else {})
        await api.publish(
            "places", data=number, key="k", tag=f"t{number}", properties=properties
        )
    wanted = {"filter": "region = 'eu' OR TAGS = 't3'", "filter_type": "sql92"}
    assert data_of(await api.pop("g", "places", **wanted)) == [0, 2, 3]
    assert await api.pop("g", "places") == []  # the rest is done with
    (queue,) = {it["queue"] for it in await api.pop("h", "places")}
    path = f"/v1/topics/places/queues/{queue}/messages"
    pulled = (await api.get(f"{path}?filter=n%20%3E%201&filter_type=sql92")).body
    assert data_of(pulled["messages"]) == [2, 3]
    assert pulled["next_offset"] == 4
    pulled = (await api.get(f"{path}?filter=t0%20||%20t1&max=1")).body
    assert (data_of(pulled["messages"]), pulled["next_offset"]) == ([0], 1)
    pulled = (await api.get(f"{path}?filter=none")).body
    assert (pulled["messages"], pulled["next_offset"]) == ([], 4)


async def test_a_wrong_expression_is_refused_with_its_place(api: Api) -> None:
    await api.publish("wrong", data=1)
    body = {"topic": "wrong", "filter": "n >> 3", "filter_type": "sql92"}
    reply = await api.post("/v1/groups/fresh:pop", body)
    assert (reply.status, reply.code) == (422, "invalid_filter")
    assert "at character 4: expected a property or a value" in reply.body["detail"]
    assert reply.body["errors"][0]["pointer"] == "/filter"
    assert (await api.get("/v1/groups/fresh")).status == 404  # nothing has happened
    path = "/v1/topics/wrong/queues/0/messages"
    reply = await api.get(f"{path}?filter=n%20%3E%3E%203&filter_type=sql92")
    assert (reply.status, reply.code) == (422, "invalid_filter")
    reply = await api.get(f"{path}?filter=a&filter_type=regex")
    assert reply.code == "invalid_parameter"
    body = {"topic": "wrong", "filter": "a", "filter_type": "regex"}
    assert (await api.post("/v1/groups/fresh:pop", body)).code == "invalid_request"


# --- the Python client ------------------------------------------------------------


async def test_a_consumer_of_an_ordered_group_sees_each_key_in_order(api: Api) -> None:
    await make_ordered(api, "workers")
    got: dict[str, list[int]] = {"a": [], "b": []}
    under_way: set[str] = set()
    done = asyncio.Event()

    async def handle(message: halfpast.Message) -> None:
        key = message.key
        assert key is not None
        assert key not in under_way
        under_way.add(key)
        await asyncio.sleep(0)
        under_way.remove(key)
        data = message.data
        assert isinstance(data, int)
        got[key].append(data)
        if sum(map(len, got.values())) == 10:
            done.set()

    async with halfpast.Client(api.address) as client:
        for number in range(20):
            await client.publish(
                "work",
                number,
                key="ab"[number % 2],
                properties={"wanted": "yes" if number < 10 else "no"},
            )
        wanted = "wanted = 'yes'"
        async with halfpast.Consumer(
            client, "workers", "work", handle, filter=wanted, filter_type="sql92"
        ):
            await asyncio.wait_for(done.wait(), 30)
        assert got == {"a": [0, 2, 4, 6, 8], "b": [1, 3, 5, 7, 9]}
        for queue in (await client.topic("work")).queues:
            pulled = await client.pull(
                "work", queue.queue, 0, filter="wanted = 'no'", filter_type="sql92"
            )
            assert all(it.properties == {"wanted": "no"} for it in pulled.messages)
        with pytest.raises(halfpast.InvalidRequest) as refused:
            await client.pop("workers", "work", filter="wanted ==", filter_type="sql92")
        assert refused.value.code == "invalid_filter"
