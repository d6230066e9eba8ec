"""Check-backs over real HTTP: a producer is asked, answers, and an operator helps."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from tests.integration.api_server import Api, running_api

pytestmark = pytest.mark.asyncio
BEGIN = "/v1/transactions"
GROUP = "/v1/producer-groups/shop"
AT_ONCE = {"check_after_ms": 0, "check_interval_ms": 100, "check_max": 1000}
ONCE = {"check_after_ms": 0, "check_interval_ms": 100, "check_max": 1}


@pytest_asyncio.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    async with running_api(tmp_path) as api:
        yield api


async def begin(api: Api, **fields: Any) -> dict[str, Any]:
    messages = [{"topic": "orders", "data": 1, "key": "k"}]
    body = {"producer_group": "shop", "messages": messages} | AT_ONCE | fields
    reply = await api.post(BEGIN, body)
    assert reply.status == 201, reply
    begun: dict[str, Any] = reply.body
    return begun


async def poll(api: Api, wait_ms: int = 5000) -> list[dict[str, Any]]:
    reply = await api.get(f"{GROUP}/checks?wait_ms={wait_ms}")
    assert reply.status == 200, reply
    checks: list[dict[str, Any]] = reply.body["checks"]
    return checks


async def answer(api: Api, *answers: dict[str, Any]) -> list[dict[str, Any]]:
    reply = await api.post(f"{GROUP}/checks:answer", {"answers": answers})
    assert reply.status == 200, reply
    results: list[dict[str, Any]] = reply.body["results"]
    return results


async def until(api: Api, transaction: dict[str, Any], state: str) -> dict[str, Any]:
    """Look again and again until it has this state."""
    async with asyncio.timeout(10):
        while True:
            shown = (await api.get(f"{BEGIN}/{transaction['id']}")).body
            if shown["state"] == state:
                return shown  # type: ignore[no-any-return]


async def test_a_producer_is_asked_and_its_answer_is_the_outcome(api: Api) -> None:
    begun = await begin(api, reference="order 7")
    (check,) = await poll(api)
    assert check == {
        "id": begun["id"],
        "check": check["check"],
        "producer_group": "shop",
        "begun_at": begun["server_time"],
        "reference": "order 7",
        "message_count": 1,
        "messages": [{"id": begun["messages"][0]["id"], "topic": "orders", "key": "k"}],
    }
    told = {"id": check["id"], "check": check["check"], "state": "committed"}
    (result,) = await answer(api, told)
    assert (result["index"], result["status"]) == (0, 200)
    assert (result["id"], result["state"]) == (begun["id"], "committed")
    shown = (await api.get(f"{BEGIN}/{begun['id']}")).body
    assert (shown["source"], shown["check"]) == ("check", check["check"])
    assert len(await api.pop("g", "orders", max=10)) == 1
    commit = await api.post(f"{BEGIN}/{begun['id']}:commit")
    assert (commit.body["source"], commit.body["state"]) == ("check", "committed")


async def test_unknown_changes_nothing_and_the_producer_is_asked_again(
    api: Api,
) -> None:
    begun = await begin(api)
    (first,) = await poll(api)
    (result,) = await answer(api, {"id": begun["id"], "state": "unknown"})
    assert (result["status"], result["state"]) == (200, "prepared")
    (second,) = await poll(api)
    assert second["id"] == first["id"]
    assert second["check"] > first["check"]
    shown = (await api.get(f"{BEGIN}/{begun['id']}")).body
    assert (shown["state"], shown["last_answer"]) == ("prepared", "unknown")
    (result,) = await answer(api, {"id": begun["id"], "state": "rolled_back"})
    assert result["state"] == "rolled_back"


async def test_answers_count_one_by_one(api: Api) -> None:
    ours = await begin(api)
    theirs = await begin(api, producer_group="other")
    results = await answer(
        api,
        {"id": theirs["id"], "state": "committed"},
        {"id": "01936f1e-8c00-7abc-8def-012345670000", "state": "committed"},
        {"id": ours["messages"][0]["id"], "state": "committed"},
        {"id": ours["id"], "state": "committed"},
        {"id": ours["id"], "state": "rolled_back"},
    )
    assert [it["status"] for it in results[:4]] == [409, 404, 404, 200]
    codes = [it["problem"]["code"] for it in results[:3]]
    assert codes == [
        "wrong_producer_group",
        "unknown_transaction",
        "unknown_transaction",
    ]
    assert results[4]["problem"]["code"] == "transaction_conflict"
    shown = (await api.get(f"{BEGIN}/{theirs['id']}")).body
    assert shown["state"] == "prepared"


async def test_a_poll_waits_for_the_first_question(api: Api) -> None:
    assert await poll(api, wait_ms=0) == []
    waiting = asyncio.create_task(poll(api))
    begun = await begin(api)
    (check,) = await waiting
    assert (check["id"], check["check"]) == (begun["id"], 1)


async def test_polls_take_as_many_as_they_ask_for(api: Api) -> None:
    begun = {(await begin(api, check_interval_ms=60_000))["id"] for _ in range(3)}
    found: list[str] = []
    while len(found) < 3:
        reply = await api.get(f"{GROUP}/checks?wait_ms=5000&max=1")
        (check,) = reply.body["checks"]
        found.append(check["id"])
    assert {*found} == begun


async def test_a_poll_is_answered_empty_when_the_server_stops(tmp_path: Path) -> None:
    async with running_api(tmp_path) as api:
        waiting = asyncio.create_task(poll(api, wait_ms=30_000))
        while (
            b"halfpast_http_long_polls 1.0" not in (await api.get("/metrics")).content
        ):
            assert not waiting.done()
        async with asyncio.timeout(5):
            await api.stop()
            assert await waiting == []


async def test_after_the_last_check_it_is_parked_until_an_operator_decides(
    api: Api,
) -> None:
    begun = await begin(api, **ONCE)
    shown = await until(api, begun, "parked")
    assert shown["checks"] == 1
    assert "next_check_at" not in shown
    assert [it["what"] for it in shown["timeline"]] == ["begun", "checked", "parked"]
    event = (await api.get(f"/v1/events/{begun['messages'][0]['id']}")).body
    assert event["state"] == "prepared"
    for verb in ("commit", "rollback"):
        reply = await api.post(f"{BEGIN}/{begun['id']}:{verb}")
        assert (reply.status, reply.code) == (409, "transaction_parked")
        assert reply.body["state"] == "parked"
        assert ":resume" in reply.body["detail"]
    ends = [{"id": begun["id"], "state": "committed"}]
    (result,) = (await api.post(f"{BEGIN}:end", {"ends": ends})).body["results"]
    assert result["problem"]["code"] == "transaction_parked"

    forced = await api.post(
        f"{BEGIN}/{begun['id']}:force",
        {"state": "committed", "reason": " the order is paid ", "by": "mia"},
    )
    assert (forced.status, forced.body["source"]) == (200, "operator")
    shown = (await api.get(f"{BEGIN}/{begun['id']}")).body
    assert (shown["state"], shown["by"]) == ("committed", "mia")
    assert shown["reason"] == "the order is paid"
    assert len(await api.pop("g", "orders")) == 1


async def test_an_operator_has_a_parked_one_asked_again(api: Api) -> None:
    begun = await begin(api, **ONCE)
    await until(api, begun, "parked")
    await poll(api, wait_ms=0)
    resumed = await api.post(f"{BEGIN}/{begun['id']}:resume", {"reason": "it is back"})
    assert (resumed.status, resumed.body["state"]) == (200, "prepared")
    (check,) = await poll(api)
    assert (check["id"], check["check"]) == (begun["id"], 2)
    told = {"id": begun["id"], "check": 2, "state": "rolled_back"}
    (result,) = await answer(api, told)
    assert result["state"] == "rolled_back"
    reply = await api.post(f"{BEGIN}/{begun['id']}:resume")
    assert (reply.code, reply.body["state"]) == ("transaction_conflict", "rolled_back")


async def test_what_is_in_doubt_is_listed_parked_ones_first(api: Api) -> None:
    prepared = [await begin(api, check_after_ms=600_000) for _ in range(2)]
    parked = [await begin(api, **ONCE) for _ in range(2)]
    for one in parked:
        await until(api, one, "parked")
    page = (await api.get(BEGIN)).body
    expected = [it["id"] for it in parked + prepared]
    assert [it["id"] for it in page["transactions"]] == expected
    assert page["next_page_token"] is None
