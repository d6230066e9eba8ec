"""Recurring schedules over HTTP, on real services."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from tests.integration.api_server import Api, Reply, running_api

pytestmark = pytest.mark.asyncio
SCHEDULES = "/v1/schedules"
EVERY_SECOND = {"topic": "ticks", "data": {"n": 1}, "interval": "PT1S"}
HOURLY = {"topic": "ticks", "data": 1, "cron": "0 * * * *", "time_zone": "Europe/Rome"}
NOBODY = "00000000-0000-7000-8000-000000000000"


@pytest_asyncio.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    async with running_api(tmp_path) as api:
        yield api


async def made(api: Api, body: dict[str, Any], **options: Any) -> dict[str, Any]:
    reply = await api.post(SCHEDULES, body, **options)
    assert reply.status == 201, reply
    assert reply.headers["Location"] == f"{SCHEDULES}/{reply.body['id']}"
    assert reply.headers["ETag"] == '"1"'
    found: dict[str, Any] = reply.body
    return found


async def seen(api: Api, target: str) -> dict[str, Any]:
    reply = await api.get(target)
    assert reply.status == 200, reply
    found: dict[str, Any] = reply.body
    return found


async def taken(api: Api, count: int, topic: str = "ticks") -> list[dict[str, Any]]:
    """So many messages, as a group gets them."""
    found: list[dict[str, Any]] = []
    async with asyncio.timeout(20):
        while len(found) < count:
            reply = await api.post(
                "/v1/groups/g:pop", {"topic": topic, "max": count, "wait_ms": 5000}
            )
            found += reply.body["messages"]
    return found


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


async def test_it_delivers_again_and_again(api: Api) -> None:
    given = {**EVERY_SECOND, "key": "k", "tag": "t", "properties": {"a": "b"}}
    schedule = await made(api, given)
    assert (schedule["state"], schedule["interval_ms"]) == ("active", 1000)
    messages = await taken(api, 3)
    first = moment(schedule["next_at"])
    assert [moment(it["deliver_at"]) for it in messages] == [
        first + n * timedelta(seconds=1) for n in range(3)
    ]
    assert len({it["queue"] for it in messages}) == 1
    for number, it in enumerate(messages, 1):
        assert (it["data"], it["key"], it["tag"]) == ({"n": 1}, "k", "t")
        assert it["properties"] == {
            "a": "b",
            "schedule_id": schedule["id"],
            "schedule_occurrence": str(number),
            "schedule_time_ms": str(round(moment(it["deliver_at"]).timestamp() * 1000)),
        }
        assert moment(it["stored_at"]) >= moment(it["deliver_at"])
    now = await seen(api, f"{SCHEDULES}/{schedule['id']}")
    assert now["occurrences"] >= 3
    assert now["version"] == 1


async def test_an_occurrence_is_an_event(api: Api) -> None:
    schedule = await made(api, EVERY_SECOND)
    (message,) = await taken(api, 1)
    event = await seen(api, f"/v1/events/{message['id']}")
    assert event["state"] == "delivered"
    assert event["schedule_id"] == schedule["id"]
    assert event["occurrence"] == 1
    assert event["deliver_at"] == message["deliver_at"]
    assert event["lateness_ms"] >= 0
    assert event["data"] == {"n": 1}
    late = await api.delete(f"/v1/events/{message['id']}")
    assert (late.status, late.body["outcome"]) == (409, "too_late")
    listed = await seen(api, "/v1/events?topic=ticks")
    assert listed["events"] == []
    assert (await api.get(f"/v1/events/{schedule['id']}")).code == "unknown_event"


async def test_what_is_told_of_it(api: Api) -> None:
    until = "2099-01-01T00:00:00.000Z"
    given = {**HOURLY, "until": until, "times": 9, "jitter": "PT5M", "grace_ms": 7}
    given |= {"catch_up": "skip", "description": "the hour"}
    schedule = await made(api, given)
    again = await seen(api, f"{SCHEDULES}/{schedule['id']}")
    assert again == schedule
    same = ("topic", "data", "cron", "time_zone", "until", "times", "grace_ms")
    assert {name: schedule[name] for name in same} == {
        name: given[name] for name in same
    }
    assert (schedule["catch_up"], schedule["jitter_ms"]) == ("skip", 300_000)
    assert schedule["description"] == "the hour"
    assert "interval_ms" not in schedule


async def test_the_next_ten_times(api: Api) -> None:
    given = {**HOURLY, "cron": "30 2 * * *", "start_at": "2027-03-27T00:00:00+01:00"}
    schedule = await made(api, given)
    shown = await seen(api, f"{SCHEDULES}/{schedule['id']}/next?count=3")
    assert shown["occurrences"] == [
        {"occurrence": 1, "at": "2027-03-27T01:30:00.000Z"},
        {"occurrence": 2, "at": "2027-03-28T01:00:00.000Z"},  # 02:30 is skipped
        {"occurrence": 3, "at": "2027-03-29T00:30:00.000Z"},
    ]
    assert schedule["next_at"] == "2027-03-27T01:30:00.000Z"
    ten = await seen(api, f"{SCHEDULES}/{schedule['id']}/next")
    assert len(ten["occurrences"]) == 10


async def test_the_next_times_end_with_times_and_tell_of_jitter(api: Api) -> None:
    schedule = await made(api, {**HOURLY, "times": 4, "jitter_ms": 60_000})
    shown = await seen(api, f"{SCHEDULES}/{schedule['id']}/next")
    assert [it["occurrence"] for it in shown["occurrences"]] == [1, 2, 3, 4]
    for it in shown["occurrences"]:
        late = moment(it["at"]) - moment(it["nominal_at"])
        assert timedelta(0) <= late <= timedelta(minutes=1)
    assert shown["occurrences"][0]["at"] == schedule["next_at"]


async def test_exponential(api: Api) -> None:
    given = {
        "topic": "ticks",
        "data": 1,
        "exponential": {"first": "PT1M", "factor": 3, "longest": "PT10M"},
        "start_at": "2099-01-01T00:00:00Z",
    }
    schedule = await made(api, given)
    assert schedule["exponential"] == {
        "first_ms": 60_000,
        "factor": 3.0,
        "longest_ms": 600_000,
    }
    shown = await seen(api, f"{SCHEDULES}/{schedule['id']}/next?count=5")
    minutes = [moment(it["at"]).minute for it in shown["occurrences"]]
    assert minutes == [0, 1, 4, 13, 23]


async def test_pausing_and_resuming(api: Api) -> None:
    schedule = await made(api, {**EVERY_SECOND, "paused": True})
    target = f"{SCHEDULES}/{schedule['id']}"
    assert (schedule["state"], schedule["next_at"]) == ("paused", None)
    assert len((await seen(api, target + "/next"))["occurrences"]) == 10
    resumed = await api.post(target + ":resume")
    assert (resumed.status, resumed.body["state"]) == (200, "active")
    await taken(api, 1)
    paused = await api.post(target + ":pause")
    assert (paused.body["state"], paused.body["version"]) == ("paused", 3)
    again = await api.post(target + ":pause")
    assert (again.status, again.body["version"]) == (200, 3)


async def test_changing(api: Api) -> None:
    schedule = await made(api, {**HOURLY, "times": 9, "jitter_ms": 5, "key": "a"})
    target = f"{SCHEDULES}/{schedule['id']}"
    changed = await api.call("PATCH", target, {"times": None, "jitter": None})
    assert changed.status == 200, changed
    assert "times" not in changed.body
    assert "jitter_ms" not in changed.body
    assert changed.body["next_at"][14:] == "00:00.000Z"
    assert (changed.headers["ETag"], changed.body["version"]) == ('"2"', 2)

    changed = await api.call("PATCH", target, {"time_zone": "Asia/Kolkata"})
    assert changed.body["next_at"][14:] == "30:00.000Z"

    other = {"interval_ms": 60_000, "data": {"b": 2}, "tag": "t"}
    changed = await api.call("PATCH", target, other, headers={"If-Match": '"3"'})
    body = changed.body
    assert (body["interval_ms"], body["data"], body["tag"]) == (60_000, {"b": 2}, "t")
    assert (body["key"], body["occurrences"]) == ("a", 0)
    assert "cron" not in body
    ahead = moment(body["next_at"]) - datetime.now(UTC)
    assert timedelta(seconds=50) < ahead <= timedelta(seconds=60)

    stale = await api.call("PATCH", target, other, headers={"If-Match": '"3"'})
    assert (stale.status, stale.code) == (412, "stale_version")


async def test_deleting(api: Api) -> None:
    schedule = await made(api, HOURLY)
    target = f"{SCHEDULES}/{schedule['id']}"
    stale = await api.delete(target, headers={"If-Match": '"2"'})
    assert stale.code == "stale_version"
    for _ in range(2):
        ended = await api.delete(target)
        assert (ended.status, ended.body["state"]) == (200, "ended")
        assert ended.body["reason"] == "deleted"
        assert ended.body["next_at"] is None
    assert (await seen(api, target + "/next"))["occurrences"] == []
    for reply in (
        await api.post(target + ":pause"),
        await api.post(target + ":resume"),
        await api.call("PATCH", target, {"times": 5}),
    ):
        assert (reply.status, reply.code) == (409, "schedule_ended")


async def test_times_end_it(api: Api) -> None:
    schedule = await made(api, {**EVERY_SECOND, "times": 1})
    await taken(api, 1)
    ended = await seen(api, f"{SCHEDULES}/{schedule['id']}")
    assert (ended["state"], ended["reason"]) == ("ended", "times")


async def test_listing(api: Api) -> None:
    first = await made(api, HOURLY)
    second = await made(api, {**HOURLY, "topic": "others", "paused": True})
    third = await made(api, HOURLY)
    await api.delete(f"{SCHEDULES}/{third['id']}")

    async def ids(query: str) -> list[str]:
        page = await seen(api, SCHEDULES + query)
        return [it["id"] for it in page["schedules"]]

    assert await ids("") == [first["id"], second["id"], third["id"]]
    assert await ids("?topic=others") == [second["id"]]
    assert await ids("?state=active") == [first["id"]]
    assert await ids("?state=ended&topic=ticks") == [third["id"]]
    page = await seen(api, SCHEDULES + "?limit=2")
    assert "data" not in page["schedules"][0]
    rest = await ids(f"?limit=2&page_token={page['next_page_token']}")
    assert rest == [third["id"]]


async def test_an_idempotency_key_makes_one(api: Api) -> None:
    key = {"Idempotency-Key": "once"}
    first = await made(api, HOURLY, headers=key)
    again = await api.post(SCHEDULES, HOURLY, headers=key)
    assert (again.status, again.body["id"]) == (201, first["id"])
    assert again.headers["Idempotency-Replayed"] == "true"
    other = await api.post(SCHEDULES, EVERY_SECOND, headers=key)
    assert (other.status, other.code) == (422, "idempotency_key_reused")


async def test_messagepack_and_base64(api: Api) -> None:
    given = {"topic": "ticks", "data_base64": "AAE=", "interval": "PT1H"}
    schedule = await made(api, given)
    assert schedule["data_base64"] == "AAE="
    packed = await api.get(
        f"{SCHEDULES}/{schedule['id']}", headers={"Accept": "application/msgpack"}
    )
    assert (packed.body["data"], packed.body["json"]) == (b"\0\1", False)


async def test_it_goes_on_after_a_restart(tmp_path: Path) -> None:
    async with running_api(tmp_path) as api:
        once = await made(api, {**EVERY_SECOND, "topic": "once"})
        every = {**EVERY_SECOND, "topic": "all", "catch_up": "fire_all"}
        await made(api, every)
    await asyncio.sleep(3)  # nothing runs meanwhile
    async with running_api(tmp_path) as api:
        messages = await taken(api, 3, "all")
        dues = [moment(it["deliver_at"]) for it in messages]
        assert {b - a for a, b in pairwise(dues)} == {timedelta(seconds=1)}
        (message, *_) = await taken(api, 1, "once")
        assert message["properties"]["schedule_occurrence"] == "1"
        assert moment(message["deliver_at"]) > moment(once["next_at"])
        now = await seen(api, f"{SCHEDULES}/{once['id']}")
        assert moment(now["skipped_at"]) >= moment(once["next_at"])


async def test_unknown_ones(api: Api) -> None:
    for reply in (
        await api.get(f"{SCHEDULES}/{NOBODY}"),
        await api.get(f"{SCHEDULES}/{NOBODY}/next"),
        await api.call("PATCH", f"{SCHEDULES}/{NOBODY}", {"times": 5}),
        await api.delete(f"{SCHEDULES}/{NOBODY}"),
        await api.post(f"{SCHEDULES}/{NOBODY}:pause"),
    ):
        assert (reply.status, reply.code) == (404, "unknown_schedule")
    assert (await api.get(f"{SCHEDULES}/nonsense")).code == "invalid_schedule_id"


RULE = {"interval": "PT1H"}


@pytest.mark.parametrize(
    ("given", "code", "pointer"),
    [
        ({}, "missing_field", ""),
        ({"cron": "* * * * *", "interval": "PT1H"}, "invalid_schedule", "/interval"),
        ({"interval": "PT1H", "interval_ms": 5000}, "invalid_schedule", "/interval_ms"),
        ({"cron": "61 * * * *"}, "invalid_cron", "/cron"),
        ({"cron": ""}, "invalid_cron", "/cron"),
        ({"cron": "* * 30 2 *"}, "invalid_cron", "/cron"),
        ({"cron": "* * */20 * 1L"}, "never_occurs", "/cron"),
        ({"cron": "* * * * *", "time_zone": "Mars"}, "unknown_time_zone", "/time_zone"),
        ({"cron": "* * * * *", "time_zone": ""}, "unknown_time_zone", "/time_zone"),
        ({**RULE, "time_zone": "Europe/Rome"}, "invalid_schedule", "/time_zone"),
        ({"interval": "PT0.999S"}, "invalid_schedule", "/interval"),
        ({"interval": "PT0S"}, "invalid_schedule", "/interval"),
        ({"interval_ms": 0}, "invalid_schedule", "/interval"),
        ({"interval_ms": -5}, "invalid_schedule", "/interval_ms"),
        ({"interval_ms": 10**40}, "invalid_schedule", "/interval"),
        ({"interval": "1h"}, "invalid_time", "/interval"),
        ({"interval": "P9999999999D"}, "invalid_schedule", "/interval"),
        ({"interval": 5}, "invalid_request", "/interval"),
        ({"exponential": {}}, "invalid_schedule", "/exponential/first"),
        ({"exponential": {"first": "PT0.5S"}}, "invalid_schedule", "/exponential"),
        (
            {"exponential": {"first": "PT1S", "factor": 1}},
            "invalid_schedule",
            "/exponential",
        ),
        (
            {"exponential": {"first": "PT9S", "longest": "PT1S"}},
            "invalid_schedule",
            "/exponential",
        ),
        (
            {"exponential": {"first": "PT9S", "frist": 1}},
            "unknown_field",
            "/exponential/frist",
        ),
        ({**RULE, "until": "2020-01-01T00:00:00Z"}, "never_occurs", "/until"),
        ({**RULE, "until": "1969-01-01T00:00:00Z"}, "never_occurs", "/until"),
        ({**RULE, "until": "2030-01-01"}, "invalid_time", "/until"),
        ({**RULE, "until": "9999-01-01T00:00:00Z"}, "invalid_schedule", "/until"),
        ({**RULE, "start_at": "soon"}, "invalid_time", "/start_at"),
        ({**RULE, "times": 0}, "invalid_request", "/times"),
        ({**RULE, "times": 10**30}, "invalid_request", "/times"),
        ({**RULE, "jitter": "P2D"}, "invalid_schedule", "/jitter"),
        ({**RULE, "jitter_ms": -1}, "invalid_schedule", "/jitter_ms"),
        ({**RULE, "catch_up": "all"}, "invalid_request", "/catch_up"),
        ({**RULE, "grace_ms": -1}, "invalid_request", "/grace_ms"),
        ({**RULE, "intervall": 5}, "unknown_field", "/intervall"),
        ({**RULE, "delay": "PT5S"}, "unknown_field", "/delay"),
        ({**RULE, "data_base64": "AA=="}, "invalid_data", "/data_base64"),
        ({**RULE, "properties": {"schedule_id": "x"}}, "invalid_properties", None),
        ({**RULE, "key": "k" * 600}, "invalid_key", "/key"),
        ({**RULE, "description": "d" * 1001}, "invalid_request", "/description"),
        ({**RULE, "topic": "SYS_X"}, "reserved_topic", None),
    ],
)
async def test_bad_input(
    api: Api, given: dict[str, Any], code: str, pointer: str | None
) -> None:
    reply = await api.post(SCHEDULES, {"topic": "ticks", "data": 1} | given)
    assert (reply.status, reply.code) == (422, code), reply
    if pointer:
        assert reply.pointers == [pointer]
    assert (await seen(api, SCHEDULES))["schedules"] == []


async def test_bad_changes(api: Api) -> None:
    schedule = await made(api, HOURLY)
    target = f"{SCHEDULES}/{schedule['id']}"

    async def refused(body: dict[str, Any]) -> Reply:
        reply = await api.call("PATCH", target, body)
        assert reply.status == 422, reply
        return reply

    assert (await refused({})).code == "missing_field"
    assert (await refused({"topic": "other"})).code == "unknown_field"
    assert (await refused({"cron": "x"})).code == "invalid_cron"
    assert (await refused({"until": "2020-01-01T00:00:00Z"})).code == "never_occurs"
    assert await seen(api, target) == schedule


async def test_no_data_and_odd_queries(api: Api) -> None:
    reply = await api.post(SCHEDULES, {"topic": "ticks", **RULE})
    assert (reply.code, reply.pointers) == ("missing_field", ["/data"])
    for query in ("?state=done", "?limit=0", "?topics=a", "?page_token=*"):
        assert (await api.get(SCHEDULES + query)).status == 422
    schedule = await made(api, HOURLY)
    for count in ("0", "1001", "x"):
        reply = await api.get(f"{SCHEDULES}/{schedule['id']}/next?count={count}")
        assert reply.code == "invalid_parameter"
