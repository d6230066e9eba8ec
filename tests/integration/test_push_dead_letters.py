"""Dead letters of all sources: looked at, counted, redriven, discarded, refused."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from tests.integration.push_rig import Rig, push_rig

pytestmark = pytest.mark.asyncio(loop_scope="module")
NOBODY = "00000000-0000-7000-8000-000000000000"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Rig]:
    async with push_rig(tmp_path_factory.mktemp("data")) as found:
        yield found


@pytest.fixture
def group(request: pytest.FixtureRequest) -> str:
    return f"g{abs(hash(request.node.nodeid)):x}"


async def die(rig: Rig, group: str, count: int, **event: Any) -> list[str]:
    """So many messages of a topic that is called as the group; gives their ids."""
    await rig.api.put(f"/v1/groups/{group}", {"max_attempts": 1})
    ids = [
        (await rig.api.publish(group, data=i, key=f"k{i}", **event))["id"]
        for i in range(count)
    ]

    async def are_seen() -> bool:
        messages = await rig.api.pop(group, group, max=100)
        receipts = [it["receipt"] for it in messages]
        if receipts:
            await rig.api.post(f"/v1/groups/{group}:nack", {"receipts": receipts})
        return len(await dead(rig, group)) == count

    await rig.until(are_seen)
    return ids


async def dead(rig: Rig, group: str, query: str = "") -> list[Any]:
    target = f"/v1/dead-letters?source=group&group={group}{query}"
    reply = await rig.api.get(target)
    assert reply.status == 200, reply
    found: list[Any] = reply.body["dead_letters"]
    return found


async def test_they_are_shown_with_the_reason_page_by_page(
    rig: Rig, group: str
) -> None:
    ids = await die(rig, group, 5, tag="paid")
    first = (
        await rig.api.get(f"/v1/dead-letters?source=group&group={group}&limit=3")
    ).body
    token = first["next_page_token"]
    rest = await dead(rig, group, f"&limit=3&page_token={token}")
    both = first["dead_letters"] + rest
    assert sorted(it["id"] for it in both) == sorted(ids)
    assert [it["number"] for it in both] == [0, 1, 2, 3, 4]
    one = both[0]
    assert (one["source"], one["group"], one["endpoint"]) == ("group", group, None)
    assert (one["topic"], one["tag"], one["state"]) == (group, "paid", "dead")
    assert one["attempts"] == 1
    assert "refused" in one["reason"]


async def test_some_are_redriven_by_filter_and_go_to_their_group_alone(
    rig: Rig, group: str
) -> None:
    await die(rig, group, 4)
    assert len(await rig.api.pop("others", group, max=10)) == 4
    wish = {"source": "group", "group": group, "key": "k2"}
    done = await rig.operation(wish)
    assert (done["scanned"], done["matched"], done["changed"]) == (4, 1, 1)
    assert done["filter"]["group"] == group
    (message,) = await rig.api.pop(group, group, max=10)
    assert (message["key"], message["attempt"]) == ("k2", 1)
    assert await rig.api.pop("others", group, max=10) == []
    assert sorted(it["key"] for it in await dead(rig, group)) == ["k0", "k1", "k3"]
    again = await rig.operation(wish)
    assert (again["scanned"], again["matched"]) == (3, 0)


async def test_all_are_discarded(rig: Rig, group: str) -> None:
    await die(rig, group, 3)
    everything = {"source": "group", "group": group, "all": True}
    done = await rig.operation(everything, "discard")
    assert (done["action"], done["changed"]) == ("discard", 3)
    assert await dead(rig, group) == []
    assert await rig.api.pop(group, group, max=10) == []


async def test_ranges_of_time_are_meant_and_others_are_not(
    rig: Rig, group: str
) -> None:
    await die(rig, group, 2)
    early = {"source": "group", "group": group, "dead_before": "2020-01-01T00:00:00Z"}
    assert (await rig.operation(early))["matched"] == 0
    late = {"source": "group", "group": group, "dead_after": "2020-01-01T00:00:00Z"}
    assert (await rig.operation(late | {"dry_run": True}))["matched"] == 2
    nobody = {"source": "group", "group": group, "ids": [NOBODY]}
    assert (await rig.operation(nobody))["matched"] == 0


async def test_who_has_any_is_counted(rig: Rig, group: str) -> None:
    await die(rig, group, 2)
    counts = (await rig.api.get("/v1/dead-letters/counts")).body["counts"]
    mine = [it for it in counts if it["group"] == group]
    assert mine == [
        {"source": "group", "group": group, "endpoint": None, "dead_letters": 2}
    ]


async def test_operations_of_both_kinds_are_listed_and_looked_up(
    rig: Rig, group: str
) -> None:
    begun = await rig.api.post("/v1/events:cancel", {"all": True, "dry_run": True})
    done = await rig.operation(
        {"source": "group", "group": group, "all": True, "dry_run": True}
    )
    assert done["state"] == "done"
    listed = (await rig.api.get("/v1/operations")).body["operations"]
    ids = [it["id"] for it in listed]
    assert {begun.body["id"], done["id"]} <= set(ids)
    running = (await rig.api.get("/v1/operations?state=failed")).body["operations"]
    assert done["id"] not in [it["id"] for it in running]
    stopped = await rig.api.post(f"/v1/operations/{done['id']}:cancel")
    assert stopped.code == "operation_ended"
    assert (await rig.api.get(f"/v1/operations/{begun.body['id']}")).status == 200
    assert (await rig.api.get(f"/v1/operations/{NOBODY}")).code == "unknown_operation"


@pytest.mark.parametrize(
    "query",
    [
        "source=group",
        "source=endpoint",
        "source=endpoint&group=g",
        "source=group&group=g&endpoint=e",
        "source=nothing",
        "source=group&group=g&page_token=!",
        "source=group&group=%25x",
    ],
)
async def test_bad_questions_are_refused(rig: Rig, query: str) -> None:
    assert (await rig.api.get(f"/v1/dead-letters?{query}")).status == 422


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"source": "group", "group": "g"}, "filter_required"),
        ({"source": "group", "group": "g", "all": True, "key": "k"}, "filter_required"),
        ({"source": "group", "all": True}, "invalid_parameter"),
        ({"source": "delay", "group": "g", "all": True}, "invalid_request"),
        ({"source": "group", "group": "g", "ids": ["x"]}, "invalid_event_id"),
        ({"source": "group", "group": "g", "ids": []}, "invalid_request"),
        ({"source": "group", "group": "g", "dead_after": "noon"}, "invalid_time"),
        ({"source": "group", "group": "g", "topic": "SYS_X"}, "reserved_topic"),
        ({"group": "g", "all": True}, "missing_field"),
    ],
)
async def test_bad_wishes_are_refused(
    rig: Rig, body: dict[str, Any], code: str
) -> None:
    assert (await rig.api.post("/v1/dead-letters:redrive", body)).code == code


async def test_a_group_that_nobody_knows_has_no_dead_letters(rig: Rig) -> None:
    assert await dead(rig, "nobody") == []
    done = await rig.operation({"source": "group", "group": "nobody", "all": True})
    assert (done["state"], done["scanned"]) == ("done", 0)


async def test_dead_letters_of_the_delay_server_are_listed_as_before(rig: Rig) -> None:
    reply = await rig.api.get("/v1/dead-letters")
    assert reply.body == {"dead_letters": [], "next_page_token": None}
    done = await rig.operation({"source": "delay", "all": True})
    assert (done["state"], done["matched"]) == ("done", 0)


async def test_a_repeated_redrive_is_the_first_one(rig: Rig, group: str) -> None:
    await die(rig, group, 2)
    wish = {"source": "group", "group": group, "all": True, "dry_run": True}
    target = "/v1/dead-letters:redrive"
    key = {"Idempotency-Key": f"redrive-{group}"}
    first = await rig.api.call("POST", target, wish, headers=key)
    again = await rig.api.call("POST", target, wish, headers=key)
    other = await rig.api.call("POST", target, wish)
    assert first.body["id"] == again.body["id"] != other.body["id"]
    assert "Idempotency-Replayed" not in first.headers
    assert again.headers["Idempotency-Replayed"] == "true"
    changed = {**wish, "dry_run": False}
    refused = await rig.api.call("POST", target, changed, headers=key)
    assert (refused.status, refused.code) == (422, "idempotency_key_reused")
    shown = (await rig.api.get(first.headers["Location"])).content
    assert b"redrive-" not in shown
    assert b'"once"' not in shown
