"""One namespace cannot tell what is in another: not by id, not by name, not in lists.

Every route of the table is tried. A new one fails here until `_attempts` says how
somebody would try to reach by it what is not theirs.
"""

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tests.integration.access_server import Caller, keyed_api
from tests.integration.api_server import Reply

from halfpast_api.access.verbs import Verb

MARK = "seen-by-b-alone"
TAG = "tag-of-b"
LATER = {"delay": "P1D"}


@dataclass(frozen=True, slots=True)
class Attempt:
    """A call by which A tries to reach what is B's. `wanted`: how it must end.

    unknown    a 404, or a 422 where nothing can have that name
    nothing    a good answer, or a refusal, in which nothing is of B
    """

    path: str
    body: Any = None
    wanted: str = "unknown"


@dataclass(slots=True)
class World:
    """What B has, by the names that B knows."""

    ids: dict[str, str] = field(default_factory=dict[str, str])
    callers: dict[str, Caller] = field(default_factory=dict[str, Caller])
    routes: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    run: Callable[[Any], Any] = asyncio.run


async def _fill(b: Caller) -> dict[str, str]:
    """Make one of everything in B."""
    data = {"data": MARK, "tag": TAG, "key": TAG, "properties": {"of": MARK}}
    await b.done("PUT", "/v1/topics/orders", {"description": MARK})
    stored = await b.done("POST", "/v1/topics/orders/events", data)
    event = await b.done("POST", "/v1/topics/orders/events", data | LATER)
    schedule = await b.done(
        "POST",
        "/v1/schedules",
        {"topic": "orders", "cron": "0 4 * * *", "data": MARK, "description": MARK},
    )
    begun = await b.done(
        "POST",
        "/v1/transactions",
        {"producer_group": "shop", "messages": [{"topic": "orders", "data": MARK}]}
        | {"reference": MARK, "check_after_ms": 600_000},
    )
    operation = await b.done(
        "POST", "/v1/events:cancel", {"topic": "orders", "tag": "no", "dry_run": True}
    )
    await b.done("PUT", "/v1/groups/billing", {"max_attempts": 3})
    popped = await b.done("POST", "/v1/groups/billing:pop", {"topic": "orders"})
    await b.done("PUT", "/v1/producer-groups/shop", {"description": MARK})
    await b.done(
        "PUT",
        "/v1/endpoints/crm",
        {"url": "https://crm.example/hook", "topics": ["orders"], "description": MARK},
    )
    key = await b.done("POST", "/v1/keys", {"role": "read-only", "description": MARK})
    limited = f"/v1/limits/subjects/key:{key['id']}"
    await b.done("PUT", limited, {"requests_per_s": 7000})
    return {
        "stored": stored["id"],
        "event": event["id"],
        "schedule": schedule["id"],
        "transaction": begun["id"],
        "operation": operation["id"],
        "receipt": popped["messages"][0]["receipt"],
        "key": key["id"],
    }


def _attempts(
    ids: dict[str, str], prefix: str, named: str
) -> dict[tuple[str, str], list[Attempt]]:
    """`prefix`: how B's names are written, in the hope that the store knows them so;
    `named`: how that must end."""
    names = ("orders", "billing", "shop", "crm")
    topic, group, shop, crm = (quote(prefix + name, safe="") for name in names)
    plain = {name: prefix + name for name in names}
    events = [f"/v1/events/{ids[it]}" for it in ("event", "stored")]
    schedule = f"/v1/schedules/{ids['schedule']}"
    transaction = f"/v1/transactions/{ids['transaction']}"
    operation = f"/v1/operations/{ids['operation']}"
    key = f"/v1/keys/{ids['key']}"
    message = {"topic": plain["orders"], "data": 1}
    begin = {"producer_group": plain["shop"], "messages": [message]}
    more = {"first_index": 1, "messages": [{"topic": "mine", "data": 1}]}
    receipts = {"receipts": [ids["receipt"]]}
    ends = {"ends": [{"id": ids["transaction"], "state": "committed"}]}
    answers = {"answers": [{"id": ids["transaction"], "state": "rolled_back"}]}
    url = {"url": "https://a.example/", "topics": [plain["orders"]]}
    dead = {"source": "group", "group": plain["billing"], "all": True}

    limited = "/v1/limits/subjects"

    def of_b(body: Any = None) -> list[Attempt]:
        subjects = ("namespace:b", f"key:{ids['key']}")
        return [Attempt(f"{limited}/{it}", body) for it in subjects]

    def each(suffix: str, body: Any = None) -> list[Attempt]:
        return [Attempt(path + suffix, body) for path in events]

    def one(path: str, body: Any = None, wanted: str = "unknown") -> list[Attempt]:
        return [Attempt(path, body, wanted)]

    def name(path: str, body: Any = None) -> list[Attempt]:
        return [Attempt(path, body, named)]

    groups, topics = f"/v1/groups/{group}", f"/v1/topics/{topic}"
    makers, endpoints = f"/v1/producer-groups/{shop}", f"/v1/endpoints/{crm}"
    lists = {
        ("GET", path): one(path, None, "nothing")
        for path in (
            *("/v1/events", "/v1/operations", "/v1/due", "/v1/dead-letters"),
            *("/v1/dead-letters/counts", "/v1/schedules", "/v1/transactions"),
            *("/v1/topics", "/v1/groups", "/v1/producer-groups", "/v1/endpoints"),
            *("/v1/keys", "/v1/namespaces", "/v1/trail", "/v1/whoami"),
            *("/metrics", "/v1/clock"),
        )
    }
    lists["GET", "/v1/events"] += [
        Attempt(f"/v1/events?topic={topic}&data=true", None, named),
        Attempt(f"/v1/events?tag={TAG}&data=true", None, "nothing"),
        Attempt(f"/v1/events?key={TAG}&state=scheduled", None, "nothing"),
    ]
    lists["GET", "/v1/schedules"] += name(f"/v1/schedules?topic={topic}")
    lists["GET", "/v1/transactions"] += one(
        f"/v1/transactions?state=prepared&producer_group={shop}", None, "nothing"
    )
    lists["GET", "/v1/dead-letters"] += [
        Attempt(f"/v1/dead-letters?topic={topic}", None, named),
        Attempt(f"/v1/dead-letters?source=group&group={group}", None, "nothing"),
    ]
    lists["GET", "/v1/keys"] += one("/v1/keys?namespace=b")
    lists["GET", "/v1/trail"] += one("/v1/trail?namespace=b")
    return lists | {
        ("POST", "/v1/topics/{topic}/events"): name(f"{topics}/events", {"data": 1}),
        ("PUT", "/v1/topics/{topic}/events/{key}"): one(
            f"{topics}/events/{TAG}", {"data": 1} | LATER, named
        ),
        # Of the whole suite, as the metrics are.
        ("POST", "/v1/clock:advance"): one(
            "/v1/clock:advance", {"by_ms": 1000}, "nothing"
        ),
        ("POST", "/v1/events:batch"): one(
            "/v1/events:batch", {"events": [message]}, "nothing"
        ),
        ("GET", "/v1/events/{id}"): each(""),
        ("PATCH", "/v1/events/{id}"): each("", {"delay": "PT1S"}),
        ("DELETE", "/v1/events/{id}"): each(""),
        ("POST", "/v1/events/{id}:deliver-now"): each(":deliver-now"),
        ("POST", "/v1/events/{id}:redrive"): each(":redrive"),
        ("POST", "/v1/groups/{group}:pop"): one(
            f"{groups}:pop", {"topic": plain["orders"]}, named
        ),
        ("POST", "/v1/groups/{group}:ack"): one(f"{groups}:ack", receipts, "nothing"),
        ("POST", "/v1/groups/{group}:nack"): one(f"{groups}:nack", receipts, "nothing"),
        ("POST", "/v1/groups/{group}:extend"): one(
            f"{groups}:extend", receipts, "nothing"
        ),
        ("GET", "/v1/topics/{topic}/queues/{queue}/messages"): [
            Attempt(f"{topics}/queues/{queue}/messages", None, named)
            for queue in range(4)
        ],
        ("POST", "/v1/events:cancel"): [
            Attempt("/v1/events:cancel", {"topic": plain["orders"]}, named),
            Attempt("/v1/events:cancel", {"all": True}, "nothing"),
            Attempt("/v1/events:cancel", {"tag": TAG}, "nothing"),
        ],
        ("POST", "/v1/events:reschedule"): one(
            "/v1/events:reschedule", {"all": True, "shift_ms": 1000}, "nothing"
        ),
        ("GET", "/v1/operations/{id}"): one(operation),
        ("POST", "/v1/operations/{id}:cancel"): one(f"{operation}:cancel"),
        ("GET", "/v1/topics/{topic}/due"): name(f"{topics}/due"),
        ("POST", "/v1/dead-letters:redrive"): one(
            "/v1/dead-letters:redrive", dead, "nothing"
        ),
        ("POST", "/v1/dead-letters:discard"): one(
            "/v1/dead-letters:discard", dead, "nothing"
        ),
        ("POST", "/v1/schedules"): one(
            "/v1/schedules", message | {"cron": "0 5 * * *", "paused": True}, named
        ),
        ("GET", "/v1/schedules/{id}"): one(schedule),
        ("PATCH", "/v1/schedules/{id}"): one(schedule, {"description": "mine"}),
        ("DELETE", "/v1/schedules/{id}"): one(schedule),
        ("POST", "/v1/schedules/{id}:pause"): one(f"{schedule}:pause"),
        ("POST", "/v1/schedules/{id}:resume"): one(f"{schedule}:resume"),
        ("GET", "/v1/schedules/{id}/next"): one(f"{schedule}/next"),
        ("POST", "/v1/transactions"): one(
            "/v1/transactions",
            begin,
            named,
        ),
        ("POST", "/v1/transactions:batch"): one(
            "/v1/transactions:batch",
            {
                "transactions": [
                    {"producer_group": plain["shop"], "messages": [message]}
                ]
            },
            "nothing",
        ),
        ("POST", "/v1/transactions/{id}:add"): one(f"{transaction}:add", more),
        ("POST", "/v1/transactions/{id}:commit"): one(f"{transaction}:commit"),
        ("POST", "/v1/transactions/{id}:rollback"): one(f"{transaction}:rollback"),
        ("POST", "/v1/transactions:end"): one("/v1/transactions:end", ends, "nothing"),
        ("GET", "/v1/transactions/{id}"): one(transaction),
        ("POST", "/v1/transactions/{id}:resume"): one(f"{transaction}:resume"),
        ("POST", "/v1/transactions/{id}:force"): one(
            f"{transaction}:force", {"state": "committed", "reason": "mine"}
        ),
        ("GET", "/v1/producer-groups/{group}/checks"): name(f"{makers}/checks"),
        ("POST", "/v1/producer-groups/{group}/checks:answer"): name(
            f"{makers}/checks:answer", answers
        ),
        ("POST", "/v1/topics"): one("/v1/topics", {"name": plain["orders"]}, named),
        ("GET", "/v1/topics/{topic}"): name(topics),
        ("PUT", "/v1/topics/{topic}"): name(topics, {"paused": True}),
        ("PATCH", "/v1/topics/{topic}"): name(topics, {"paused": True}),
        ("GET", "/v1/groups/{group}"): name(groups),
        ("PUT", "/v1/groups/{group}"): name(groups, {"max_attempts": 1}),
        ("GET", "/v1/groups/{group}/lag"): name(f"{groups}/lag?topic={topic}"),
        ("PUT", "/v1/groups/{group}/offsets"): name(
            f"{groups}/offsets", {"topic": plain["orders"], "offsets": {"0": 0}}
        ),
        ("GET", "/v1/producer-groups/{group}"): name(makers),
        ("PUT", "/v1/producer-groups/{group}"): name(makers, {"check_max": 1}),
        ("DELETE", "/v1/producer-groups/{group}"): name(makers),
        ("GET", "/v1/endpoints/{name}"): name(endpoints),
        ("PUT", "/v1/endpoints/{name}"): name(endpoints, url),
        ("PATCH", "/v1/endpoints/{name}"): name(endpoints, {"description": "mine"}),
        ("DELETE", "/v1/endpoints/{name}"): name(endpoints),
        ("POST", "/v1/endpoints/{name}:pause"): name(f"{endpoints}:pause"),
        ("POST", "/v1/endpoints/{name}:resume"): name(f"{endpoints}:resume"),
        ("POST", "/v1/endpoints/{name}:enable"): name(f"{endpoints}:enable"),
        ("POST", "/v1/endpoints/{name}:rotate-secret"): name(
            f"{endpoints}:rotate-secret"
        ),
        ("POST", "/v1/endpoints/{name}:test"): name(f"{endpoints}:test"),
        ("GET", "/v1/endpoints/{name}/attempts"): name(f"{endpoints}/attempts"),
        ("POST", "/v1/keys"): one("/v1/keys", {"role": "read-only", "namespace": "b"}),
        ("GET", "/v1/keys/{id}"): one(key),
        ("PATCH", "/v1/keys/{id}"): one(key, {"description": "mine"}),
        ("POST", "/v1/keys/{id}:rotate"): one(f"{key}:rotate"),
        ("POST", "/v1/keys/{id}:revoke"): one(f"{key}:revoke"),
        ("POST", "/v1/keys/{id}:rotate-signing"): one(f"{key}:rotate-signing"),
        ("POST", "/v1/keys/{id}:drop-signing"): one(f"{key}:drop-signing"),
        ("GET", "/v1/limits"): one("/v1/limits", wanted="nothing"),
        ("GET", limited): one(limited, wanted="nothing"),
        ("GET", f"{limited}/{{subject}}"): of_b(),
        ("PUT", f"{limited}/{{subject}}"): of_b({"requests_per_s": 1}),
        ("DELETE", f"{limited}/{{subject}}"): of_b(),
        ("GET", "/v1/namespaces/{name}"): one("/v1/namespaces/b"),
        ("PUT", "/v1/namespaces/{name}"): one("/v1/namespaces/b", {"suspended": True}),
        ("DELETE", "/v1/namespaces/{name}"): one("/v1/namespaces/b"),
    }


SEEN_BY_B = (
    *("/v1/topics/orders", "/v1/events/{event}", "/v1/events/{stored}"),
    *("/v1/schedules/{schedule}", "/v1/transactions/{transaction}"),
    *("/v1/operations/{operation}", "/v1/groups/billing"),
    *("/v1/producer-groups/shop", "/v1/endpoints/crm", "/v1/keys/{key}"),
    *("/v1/namespaces/b", "/v1/limits/subjects/key:{key}"),
)
NO_NAMES = ("invalid_endpoint_name", "reserved_topic", "reserved_group")
PASSING = ("age_ms", "due_in_ms", "server_time", "last_used_at")


async def _seen_by(b: Caller, ids: dict[str, str]) -> dict[str, Any]:
    """All that B sees of what is B's, but for what changes by itself."""
    seen: dict[str, Any] = {}
    for path in SEEN_BY_B:
        body = await b.done("GET", path.format(**ids))
        seen[path] = {name: it for name, it in body.items() if name not in PASSING}
    return seen


def _check(attempt: Attempt, reply: Reply, ids: dict[str, str]) -> None:
    shown = (attempt, reply.status, reply.content)
    if attempt.wanted == "unknown":
        # Some names can be nobody's at all, which tells nothing about B.
        assert reply.status == 404 or reply.code in NO_NAMES, shown
    assert reply.status < 500, shown
    asked = f"{attempt.path} {attempt.body}"
    text = reply.content.decode()
    assert MARK not in text, shown
    for name, value in ids.items():
        assert value not in text or value in asked, (name, *shown)
    for result in reply.body.get("results", ()) if text[:1] == "{" else ():
        if ids["receipt"] in asked or ids["transaction"] in asked:
            assert result["status"] in (404, 409, 422), shown


class LoopThread:
    """A server that goes on between the examples of a property."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, work: Any) -> Any:
        future: Future[Any] = asyncio.run_coroutine_threadsafe(work, self._loop)
        return future.result(60)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("isolation")
    thread = LoopThread()
    manager = keyed_api(folder)
    api, suite = thread.run(manager.__aenter__())
    try:
        yield thread.run(_world(api.routes, suite, thread.run))
    finally:
        thread.run(manager.__aexit__(None, None, None))
        thread.close()


async def _world(routes: Any, suite: Caller, run: Callable[[Any], Any]) -> World:
    world = World(run=run)
    for name in ("a", "b"):
        await suite.done("PUT", f"/v1/namespaces/{name}", {})
    full = {"role": "admin", "view_payload": True}
    b = await suite.with_key(namespace="b", **full)
    world.ids = await _fill(b)
    world.callers = {
        "a": await suite.with_key(namespace="a", **full),
        "default": await suite.with_key(namespace="", **full),
        "b": b,
    }
    world.routes = [
        (route.method, route.template)
        for route in routes
        if not route.is_page and route.verb is not Verb.OPEN
    ]
    return world


def _named(who: str, prefix: str) -> str:
    """In the namespace a, `b%orders` is a name like others."""
    return "unknown" if who == "default" and prefix else "nothing"


def test_every_route_is_known(world: World) -> None:
    missing = set(world.routes) - set(_attempts(world.ids, "", "nothing"))
    assert not missing, f"say in _attempts how somebody would try {sorted(missing)}"


@pytest.mark.parametrize("who", ["a", "default"])
@pytest.mark.parametrize("prefix", ["", "b%", "%DLQ%b%"])
def test_what_is_anothers_is_unknown(world: World, who: str, prefix: str) -> None:
    """Before anything of one's own has the same name, looking at it is a 404."""

    async def look() -> None:
        caller = world.callers[who]
        for (method, template), some in _attempts(world.ids, prefix, "unknown").items():
            if method != "GET" or template.endswith(("/checks", "/messages")):
                continue  # the latter makes its topic
            for attempt in some:
                reply = await caller.get(attempt.path)
                assert b"b%" not in reply.content or "b%25" in attempt.path
                _check(attempt, reply, world.ids)

    world.run(look())


@settings(
    max_examples=60,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # the steps are few already
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_nothing_of_anothers_is_reached(world: World, data: st.DataObject) -> None:
    """Whatever A does, in whatever order, B's things stay as they are and unseen."""
    steps = data.draw(
        st.lists(
            st.tuples(
                st.sampled_from(["a", "default"]),
                st.sampled_from(["", "b%", "a%b%", "%DLQ%b%"]),
                st.sampled_from(world.routes),
                st.integers(0, 9),
            ),
            min_size=1,
            max_size=12,
        )
    )

    async def act() -> None:
        before = await _seen_by(world.callers["b"], world.ids)
        for who, prefix, route, number in steps:
            named = _named(who, prefix) if prefix == "b%" else "nothing"
            some = _attempts(world.ids, prefix, named)[route]
            attempt = some[number % len(some)]
            reply = await world.callers[who].call(route[0], attempt.path, attempt.body)
            _check(attempt, reply, world.ids)
        assert await _seen_by(world.callers["b"], world.ids) == before

    world.run(act())


def test_every_attempt_once(world: World) -> None:
    """Each of them, however lucky the draw above was; and B goes on afterwards."""

    async def act() -> None:
        b = world.callers["b"]
        before = await _seen_by(b, world.ids)
        for who in ("a", "default"):
            for prefix in ("", "b%"):
                attempts = _attempts(world.ids, prefix, _named(who, prefix))
                for (method, _), some in attempts.items():
                    for attempt in some:
                        reply = await world.callers[who].call(
                            method, attempt.path, attempt.body
                        )
                        _check(attempt, reply, world.ids)
        assert await _seen_by(b, world.ids) == before
        settled = await b.done(
            "POST", "/v1/groups/billing:ack", {"receipts": [world.ids["receipt"]]}
        )
        assert settled["results"][0]["status"] == 200
        ended = await b.done(
            "POST", f"/v1/transactions/{world.ids['transaction']}:commit"
        )
        assert ended["state"] == "committed"
        gone = await b.done("DELETE", f"/v1/events/{world.ids['event']}")
        assert gone["outcome"] == "cancelled"

    world.run(act())
