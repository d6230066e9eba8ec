"""Transactions over real HTTP on real services: begin, add, end, look."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import pytest
import pytest_asyncio
from tests.integration.api_server import Api, Reply, running_api

pytestmark = pytest.mark.asyncio
BEGIN = "/v1/transactions"
NOBODY = "01936f1e-8c00-7abc-8def-012345670000"
LATE = {"check_after_ms": 600_000}
MSGPACK = {"Content-Type": "application/msgpack"}


@pytest_asyncio.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    async with running_api(tmp_path) as api:
        yield api


def asked(*messages: dict[str, Any], **fields: Any) -> dict[str, Any]:
    some = [{"topic": "orders", "data": 1} | it for it in messages or ({},)]
    return {"producer_group": "shop", "messages": some} | LATE | fields


async def begin(api: Api, *messages: dict[str, Any], **fields: Any) -> dict[str, Any]:
    reply = await api.post(BEGIN, asked(*messages, **fields))
    assert reply.status == 201, reply
    body: dict[str, Any] = reply.body
    return body


async def end(api: Api, transaction: dict[str, Any], verb: str) -> Reply:
    return await api.post(f"{BEGIN}/{transaction['id']}:{verb}")


def moment(text: str) -> datetime:
    assert text.endswith("Z")
    return datetime.fromisoformat(text)


# --- begin and end --------------------------------------------------------------------


async def test_messages_are_invisible_until_the_commit(api: Api) -> None:
    reply = await api.post(
        BEGIN,
        asked(
            {"data": {"a": 1}, "key": "k", "tag": "t", "properties": {"x": "y"}},
            {"topic": "bills", "data": [1.50]},
            check_after_ms=5000,
        ),
    )
    begun = reply.body
    assert (reply.status, begun["state"]) == (201, "prepared")
    assert reply.headers["Location"] == f"{BEGIN}/{begun['id']}"
    assert begun["producer_group"] == "shop"
    waits = moment(begun["check_at"]) - moment(begun["server_time"])
    assert waits.total_seconds() == 5
    assert begun["id"].endswith("0000")
    number = UUID(begun["id"]).int
    assert begun["messages"] == [
        {"id": str(UUID(int=number + 1)), "topic": "orders"},
        {"id": str(UUID(int=number + 2)), "topic": "bills"},
    ]
    assert await api.pop("g", "orders") == []
    assert await api.pop("g", "bills") == []

    committed = await end(api, begun, "commit")
    assert committed.status == 200
    assert committed.body == {
        "id": begun["id"],
        "state": "committed",
        "decided_at": committed.body["decided_at"],
        "source": "producer",
        "checks": 0,
    }
    assert moment(committed.body["decided_at"]) >= moment(begun["server_time"])
    (order,) = await api.pop("g", "orders")
    (bill,) = await api.pop("g", "bills")
    assert [order["id"], bill["id"]] == [it["id"] for it in begun["messages"]]
    assert (order["data"], order["key"], order["tag"]) == ({"a": 1}, "k", "t")
    assert (order["properties"], bill["data"]) == ({"x": "y"}, [1.5])


async def test_a_delay_begins_with_the_commit(api: Api) -> None:
    begun = await begin(api, {"delay_ms": 300}, {"data": 2})
    assert (await api.get("/v1/events?topic=orders")).body["events"] == []
    decided = (await end(api, begun, "commit")).body["decided_at"]
    (now,) = await api.pop("g", "orders")
    (later,) = await api.pop("g", "orders", wait_ms=5000)
    assert (now["data"], later["data"]) == (2, 1)
    assert later["id"] == begun["messages"][0]["id"]
    waited = moment(later["deliver_at"]) - moment(decided)
    assert 300 <= waited.total_seconds() * 1000 <= 301
    assert moment(later["stored_at"]) >= moment(later["deliver_at"])


async def test_a_message_for_a_moment_waits_for_it_after_the_commit(api: Api) -> None:
    soon = datetime.now(UTC) + timedelta(hours=1)
    begun = await begin(api, {"deliver_at": soon.isoformat(timespec="milliseconds")})
    assert (await end(api, begun, "commit")).status == 200
    event = (await api.get(f"/v1/events/{begun['messages'][0]['id']}")).body
    assert event["state"] == "scheduled"
    assert abs(moment(event["deliver_at"]) - soon) < timedelta(milliseconds=1)
    assert "transaction_id" not in event


async def test_what_is_rolled_back_is_never_delivered(api: Api) -> None:
    begun = await begin(api, {}, {"delay_ms": 0})
    reply = await end(api, begun, "rollback")
    assert (reply.status, reply.body["state"]) == (200, "rolled_back")
    after = await begin(api, {"data": "after"})
    await end(api, after, "commit")
    (only,) = await api.pop("g", "orders", wait_ms=1000, max=10)
    assert only["data"] == "after"


async def test_the_same_outcome_again_is_answered_alike(api: Api) -> None:
    for verb in ("commit", "rollback"):
        begun = await begin(api)
        first, second = [await end(api, begun, verb) for _ in range(2)]
        assert (second.status, second.content) == (200, first.content)
    assert len(await api.pop("g", "orders", max=10)) == 1


async def test_the_other_outcome_is_a_conflict_that_tells_the_durable_one(
    api: Api,
) -> None:
    begun = await begin(api)
    assert (await end(api, begun, "commit")).status == 200
    reply = await end(api, begun, "rollback")
    assert (reply.status, reply.code) == (409, "transaction_conflict")
    assert reply.body["state"] == "committed"
    forced = await api.post(
        f"{BEGIN}/{begun['id']}:force", {"state": "rolled_back", "reason": "r"}
    )
    assert (forced.code, forced.body["state"]) == ("transaction_conflict", "committed")


async def test_of_two_contradicting_calls_one_wins_and_both_learn_which(
    api: Api,
) -> None:
    for _ in range(10):
        begun = await begin(api)
        replies = await asyncio.gather(
            *[end(api, begun, verb) for verb in ("commit", "rollback") * 3]
        )
        states = {reply.body["state"] for reply in replies}
        assert len(states) == 1
        assert sorted(reply.status for reply in replies) == [200] * 3 + [409] * 3
        shown = (await api.get(f"{BEGIN}/{begun['id']}")).body
        assert {shown["state"]} == states


@pytest.mark.parametrize("verb", ["commit", "rollback", "add", "resume", "force"])
async def test_nobody_knows_this_transaction(api: Api, verb: str) -> None:
    bodies: dict[str, Any] = {
        "add": {"first_index": 1, "messages": [{"topic": "a", "data": 1}]},
        "force": {"state": "committed", "reason": "r"},
    }
    reply = await api.post(f"{BEGIN}/{NOBODY}:{verb}", bodies.get(verb, {}))
    assert (reply.status, reply.code) == (404, "unknown_transaction")
    assert "0000" in reply.body["detail"]


async def test_looking_for_a_transaction_that_nobody_knows(api: Api) -> None:
    assert (await api.get(f"{BEGIN}/{NOBODY}")).code == "unknown_transaction"
    begun = await begin(api)
    reply = await api.get(f"{BEGIN}/{begun['messages'][0]['id']}")
    assert (reply.status, reply.code) == (404, "unknown_transaction")


async def test_an_empty_body_and_an_empty_object_both_commit(api: Api) -> None:
    for body in (None, b"{}"):
        begun = await begin(api)
        reply = await api.post(f"{BEGIN}/{begun['id']}:commit", body)
        assert reply.status == 200


# --- more messages ----------------------------------------------------------------


async def test_messages_are_added_behind_the_others_and_only_once(api: Api) -> None:
    begun = await begin(api, {"data": 0})
    target = f"{BEGIN}/{begun['id']}:add"
    more = {
        "first_index": 1,
        "messages": [
            {"topic": "orders", "data": 1, "delay_ms": 0},
            {"topic": "bills", "data": 2},
        ],
    }
    first, second = [await api.post(target, more) for _ in range(2)]
    number = UUID(begun["id"]).int
    assert first.status == 200
    assert first.body == {
        "id": begun["id"],
        "state": "prepared",
        "messages": [
            {"id": str(UUID(int=number + 2)), "topic": "orders"},
            {"id": str(UUID(int=number + 3)), "topic": "bills"},
        ],
    }
    assert second.body == first.body
    shown = (await api.get(f"{BEGIN}/{begun['id']}")).body
    assert shown["message_count"] == 3
    assert [it["what"] for it in shown["timeline"]] == ["begun", "added"]
    await end(api, begun, "commit")
    assert len(await api.pop("g", "orders", max=10)) == 2
    assert len(await api.pop("g", "bills", max=10)) == 1


async def test_messages_behind_a_gap_are_refused(api: Api) -> None:
    begun = await begin(api)
    messages = [{"topic": "orders", "data": 1}]
    reply = await api.post(
        f"{BEGIN}/{begun['id']}:add", {"first_index": 2, "messages": messages}
    )
    assert (reply.status, reply.code) == (409, "messages_out_of_order")
    assert "has 1 messages" in reply.body["detail"]


async def test_nothing_is_added_behind_an_outcome(api: Api) -> None:
    begun = await begin(api)
    await end(api, begun, "rollback")
    messages = [{"topic": "orders", "data": 1}]
    reply = await api.post(
        f"{BEGIN}/{begun['id']}:add", {"first_index": 1, "messages": messages}
    )
    assert (reply.code, reply.body["state"]) == ("transaction_conflict", "rolled_back")


# --- repetitions ------------------------------------------------------------------


async def test_a_repeated_begin_gets_the_first_answer(api: Api) -> None:
    headers = {"Idempotency-Key": "abc"}
    first = await api.post(BEGIN, asked(), headers=headers)
    second = await api.post(BEGIN, asked(), headers=headers)
    assert (second.status, second.content) == (201, first.content)
    assert second.headers["Location"] == first.headers["Location"]
    assert second.headers["Idempotency-Replayed"] == "true"
    assert "Idempotency-Replayed" not in first.headers
    other = await api.post(BEGIN, asked({"data": 2}), headers=headers)
    assert other.code == "idempotency_key_reused"
    assert len((await api.get(BEGIN)).body["transactions"]) == 1


async def test_a_repeated_batch_begins_nothing_twice(api: Api) -> None:
    headers = {"Idempotency-Key": "abc"}
    batch = {"transactions": [asked({"data": n}) for n in range(20)]}
    replies = await asyncio.gather(
        *[api.post(f"{BEGIN}:batch", batch, headers=headers) for _ in range(5)]
    )
    assert len({reply.content for reply in replies}) == 1
    replayed = [it for it in replies if "Idempotency-Replayed" in it.headers]
    assert len(replayed) == 4
    assert len((await api.get(BEGIN)).body["transactions"]) == 20


# --- many at once -------------------------------------------------------------------


async def test_one_bad_transaction_does_not_refuse_the_others(api: Api) -> None:
    transactions = [
        asked({"data": "first"}),
        asked({"delay_ms": -1}),
        asked(producer_group="a/b"),
        asked(messages=[]),
        asked({"data": "last"}, {"topic": "bills", "data": "bill"}),
    ]
    reply = await api.post(f"{BEGIN}:batch", {"transactions": transactions})
    assert reply.status == 200
    results = reply.body["results"]
    assert [it["index"] for it in results] == [0, 1, 2, 3, 4]
    assert [it["status"] for it in results] == [201, 422, 422, 422, 201]
    problems = [it["problem"] for it in results[1:4]]
    assert [it["code"] for it in problems] == [
        "invalid_time",
        "invalid_producer_group",
        "no_messages",
    ]
    assert problems[0]["errors"][0]["pointer"] == "/messages/0/delay_ms"
    good = [results[0], results[4]]
    assert {it["state"] for it in good} == {"prepared"}

    ends = [{"id": it["id"], "state": "committed"} for it in good]
    ended = await api.post(f"{BEGIN}:end", {"ends": ends})
    assert [it["status"] for it in ended.body["results"]] == [200, 200]
    popped = await api.pop("g", "orders", max=10)
    assert {it["data"] for it in popped} == {"first", "last"}
    (bill,) = await api.pop("g", "bills")
    assert UUID(bill["id"]).int == UUID(good[1]["id"]).int + 2


async def test_what_cannot_be_read_is_told_beside_the_good_ones(api: Api) -> None:
    transactions = [asked(), {"producer_group": 5}, asked(check_mx=3)]
    reply = await api.post(f"{BEGIN}:batch", {"transactions": transactions})
    results = reply.body["results"]
    assert [it["status"] for it in results] == [201, 422, 422]
    problem = results[2]["problem"]
    assert problem["code"] == "unknown_field"
    assert 'did you mean "check_max"?' in problem["detail"]


async def test_outcomes_are_decided_one_by_one(api: Api) -> None:
    first, second, third = [await begin(api) for _ in range(3)]
    await end(api, second, "rollback")
    ends = [
        {"id": first["id"].upper(), "state": "committed"},
        {"id": second["id"], "state": "committed"},
        {"id": NOBODY, "state": "committed"},
        {"id": "nonsense", "state": "committed"},
        {"id": third["id"], "state": "rolled_back"},
    ]
    reply = await api.post(f"{BEGIN}:end", {"ends": ends})
    assert reply.status == 200
    results = reply.body["results"]
    assert [it["index"] for it in results] == [0, 1, 2, 3, 4]
    assert [it["status"] for it in results] == [200, 409, 404, 422, 200]
    assert [it["problem"]["code"] for it in results[1:4]] == [
        "transaction_conflict",
        "unknown_transaction",
        "invalid_transaction_id",
    ]
    assert results[1]["problem"]["state"] == "rolled_back"
    assert (results[0]["id"], results[0]["state"]) == (first["id"], "committed")
    assert results[4]["state"] == "rolled_back"
    assert moment(results[0]["decided_at"]) <= datetime.now(UTC)
    assert len(await api.pop("g", "orders", max=10)) == 1


async def test_batches_are_spoken_in_message_pack_too(api: Api) -> None:
    transactions = [
        asked({"data": b"\x00\xff", "properties": {"a": "b"}}, reference=f"r{n}")
        for n in range(100)
    ]
    packed = msgspec.msgpack.encode({"transactions": transactions})
    reply = await api.post(f"{BEGIN}:batch", packed, headers=MSGPACK)
    results = reply.body["results"]
    assert {it["status"] for it in results} == {201}
    assert len({it["id"] for it in results}) == 100
    ends = [{"id": it["id"], "state": "committed"} for it in results]
    packed = msgspec.msgpack.encode({"ends": ends})
    ended = await api.post(f"{BEGIN}:end", packed, headers=MSGPACK)
    assert {it["status"] for it in ended.body["results"]} == {200}
    popped = await api.pop("g", "orders", max=200)
    assert len(popped) == 100
    assert {it["data_base64"] for it in popped} == {"AP8="}


# --- policies -----------------------------------------------------------------------


async def test_a_group_s_settings_make_the_policy_unless_the_request_does(
    api: Api,
) -> None:
    settings = {"check_after_ms": 70_000, "check_max": 3}
    assert (await api.put("/v1/producer-groups/shop", settings)).status == 201
    body = asked(check_interval_ms=500, check_required=True)
    del body["check_after_ms"]
    begun = (await api.post(BEGIN, body)).body
    waits = moment(begun["check_at"]) - moment(begun["server_time"])
    assert waits.total_seconds() == 70
    shown = (await api.get(f"{BEGIN}/{begun['id']}")).body
    assert (shown["check_max"], shown["check_interval_ms"]) == (3, 500)
    assert shown["next_check_at"] == begun["check_at"]


async def test_required_checks_need_a_group_that_somebody_has_set_up(api: Api) -> None:
    reply = await api.post(BEGIN, asked(check_required=True))
    assert (reply.status, reply.code) == (422, "producer_group_required")
    assert reply.pointers == ["/producer_group"]


# --- looking ------------------------------------------------------------------------


async def test_an_open_transaction_shows_its_messages(api: Api) -> None:
    begun = await begin(
        api, {"key": "k", "tag": "t"}, {"delay": "PT5S"}, reference="order 7"
    )
    shown = (await api.get(f"{BEGIN}/{begun['id']}")).body
    assert (shown["state"], shown["reference"]) == ("prepared", "order 7")
    assert (shown["message_count"], shown["checks"]) == (2, 0)
    first, second = shown["messages"]
    assert (first["topic"], first["key"], first["tag"]) == ("orders", "k", "t")
    assert (second["delay_ms"], "key" in second) == (5000, False)
    assert [first["id"], second["id"]] == [it["id"] for it in begun["messages"]]
    await end(api, begun, "commit")
    ended = (await api.get(f"{BEGIN}/{begun['id']}")).body
    assert (ended["state"], ended["source"]) == ("committed", "producer")
    assert [it["what"] for it in ended["timeline"]] == ["begun", "committed"]
    assert "age_ms" not in ended


async def test_transactions_are_listed_by_state_and_group_page_by_page(
    api: Api,
) -> None:
    begun = [await begin(api, producer_group=f"g{n % 2}") for n in range(6)]
    for one, verb in zip(begun, ("commit", "rollback", "commit"), strict=False):
        await end(api, one, verb)

    async def ids(query: str) -> list[str]:
        found: list[str] = []
        token = ""
        while len(found) < 20:
            page = (await api.get(f"{BEGIN}?limit=1{query}{token}")).body
            assert all("messages" not in it for it in page["transactions"])
            found += [it["id"] for it in page["transactions"]]
            if page["next_page_token"] is None:
                break
            token = f"&page_token={page['next_page_token']}"
        return found

    texts = [it["id"] for it in begun]
    assert await ids("") == texts[3:]
    assert await ids("&state=prepared") == texts[3:]
    assert await ids("&producer_group=g1") == [texts[3], texts[5]]
    assert await ids("&state=committed") == [texts[0], texts[2]]
    assert await ids("&state=committed&producer_group=g1") == []
    assert await ids("&state=rolled_back") == [texts[1]]
    assert await ids("&state=parked") == []


async def test_a_page_token_belongs_to_its_state(api: Api) -> None:
    for _ in range(2):
        await begin(api)
    page = (await api.get(f"{BEGIN}?limit=1")).body
    token = page["next_page_token"]
    reply = await api.get(f"{BEGIN}?state=committed&page_token={token}")
    assert (reply.status, reply.code) == (422, "invalid_page_token")
    assert (await api.get(f"{BEGIN}?state=open")).code == "invalid_parameter"
    reply = await api.get(f"{BEGIN}?producer_group=a.b")
    assert reply.code == "invalid_producer_group"


# --- events of transactions -----------------------------------------------------------


async def test_an_event_of_an_open_transaction_is_prepared(api: Api) -> None:
    begun = await begin(api, {"key": "k"}, {"delay_ms": 3_600_000})
    now, later = [f"/v1/events/{it['id']}" for it in begun["messages"]]
    shown = (await api.get(now)).body
    assert (shown["state"], shown["topic"], shown["key"]) == ("prepared", "orders", "k")
    assert shown["transaction_id"] == begun["id"]
    assert (await api.get(later)).body["delay_ms"] == 3_600_000
    await end(api, begun, "commit")
    shown = (await api.get(now)).body
    assert (shown["state"], shown["data"]) == ("stored", 1)
    assert "transaction_id" not in shown
    shown = (await api.get(later)).body
    assert (shown["state"], shown["data"]) == ("scheduled", 1)
    assert (await api.delete(later)).body["outcome"] == "cancelled"
    assert (await api.delete(now)).body["outcome"] == "too_late"


async def test_an_event_that_was_rolled_back_is_gone(api: Api) -> None:
    begun = await begin(api)
    event = f"/v1/events/{begun['messages'][0]['id']}"
    await end(api, begun, "rollback")
    shown = (await api.get(event)).body
    assert (shown["state"], shown["transaction_id"]) == ("rolled_back", begun["id"])
    reply = await api.delete(event)
    assert (reply.status, reply.code) == (404, "unknown_event")
    assert reply.body["outcome"] == "not_found"
    assert (await api.patch(event, {"delay_ms": 5})).code == "unknown_event"


async def test_an_event_of_an_open_transaction_cannot_be_changed(api: Api) -> None:
    begun = await begin(api, {"delay_ms": 3_600_000})
    event = f"/v1/events/{begun['messages'][0]['id']}"
    for reply in (
        await api.delete(event),
        await api.patch(event, {"delay_ms": 5}),
        await api.post(f"{event}:deliver-now"),
    ):
        assert (reply.status, reply.code) == (409, "event_in_transaction")
        assert begun["id"] in reply.body["detail"]


async def test_ids_near_those_of_a_transaction_are_unknown(api: Api) -> None:
    begun = await begin(api)
    for behind in (0, 2):
        text = UUID(int=UUID(begun["id"]).int + behind)
        assert (await api.get(f"/v1/events/{text}")).code == "unknown_event"


async def test_the_transaction_service_counts_for_readiness(api: Api) -> None:
    ready = await api.get("/readyz")
    assert (ready.status, ready.body["transactions"]) == (200, "ok")
    await begin(api)
    while b"\nhalfpast_transactions_open 1.0" not in (
        metrics := (await api.get("/metrics")).content
    ):
        assert b"halfpast_transactions_open" in metrics
