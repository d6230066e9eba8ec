"""What pages ask of the API, and what they make of it."""

import asyncio
import re
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import pytest
from multidict import CIMultiDict, CIMultiDictProxy
from tests.unit.console_stub import StubApi, location

from halfpast_api.access.access import OPEN_ACCESS, Access
from halfpast_api.access.roles import ROLES
from halfpast_api.console.live_stream import LiveStream
from halfpast_api.console.said import heard
from halfpast_api.problems import Refusal

EVENT_ID = "01936f1e-8c00-7abc-8def-0123456789ab"
AT = "2026-11-20T10:00:00.000Z"
EVIL = "<script>alert(1)</script>"
READ_ONLY = replace(
    OPEN_ACCESS, role="read-only", scopes=ROLES["read-only"], may_view_payload=False
)

EVENT: dict[str, Any] = {
    "id": EVENT_ID,
    "topic": "orders",
    "key": EVIL,
    "tag": EVIL,
    "properties": {EVIL: EVIL},
    "state": "scheduled",
    "deliver_at": AT,
    "created_at": AT,
    "version": 3,
    "data": {"text": EVIL},
    "timeline": [{"at": AT, "what": "scheduled"}],
}
TOPIC: dict[str, Any] = {
    "name": "orders",
    "queues": 4,
    "max_delay_ms": 1000,
    "max_body_bytes": 1000,
    "description": EVIL,
    "release": {"state": "open", "pending": 10_000_000},
}
DUE = {"from": AT, "to": "2026-11-20T11:00:00.000Z", "server_time": AT}
TRANSACTION: dict[str, Any] = {
    "id": EVENT_ID,
    "state": "parked",
    "producer_group": "shop",
    "reference": EVIL,
    "begun_at": AT,
    "age_ms": 5000,
    "last_answer": EVIL,
    "timeline": [{"at": AT, "what": "begun"}, {"at": AT, "what": "parked"}],
}
SCHEDULE: dict[str, Any] = {
    "id": EVENT_ID,
    "topic": "orders",
    "state": "active",
    "version": 1,
    "description": EVIL,
    "cron": "30 2 * * *",
    "data": EVIL,
}
OPERATION: dict[str, Any] = {
    "id": EVENT_ID,
    "action": "cancel",
    "state": "done",
    "dry_run": True,
    "filter": {"tag": EVIL},
    "matched": 12,
    "progress": 1.0,
    "created_at": AT,
}
GROUP = {
    "name": "billing",
    "max_attempts": 16,
    "backoff_initial_ms": 1000,
    "backoff_max_ms": 1000,
    "invisible_ms": 1000,
}
PRODUCERS = {
    "name": "shop",
    "check_secrets": 1,
    "check_after_ms": 6000,
    "check_interval_ms": 6000,
    "check_max": 15,
    "check_timeout_ms": 5000,
    "check_concurrency_max": 8,
    "description": EVIL,
}
ENDPOINT: dict[str, Any] = {
    "name": "crm",
    "url": "https://crm.example/",
    "topics": ["orders"],
    "secrets": 1,
    "reason": EVIL,
}
ATTEMPT = {"id": "1", "state": "retrying", "at": AT, "response": EVIL, "error": EVIL}
DEAD = {"id": EVENT_ID, "topic": "orders", "reason": EVIL, "dead_at": AT, "key": EVIL}
KEY: dict[str, Any] = {"id": "k3x9q2mv", "description": EVIL, "role": "operator"}
LIMITS: dict[str, Any] = {
    "subject": f"user:{EVIL}",
    "set_by": "every-user",
    "requests_per_s": 0.5,
    "requests_left": 0,
    "bytes_per_s": 1000,
    "max_delay_ms": 5000,
}
ACT = {"id": "1", "at": AT, "actor": EVIL, "action": "PUT", "after": {EVIL: EVIL}}

ANSWERS: dict[str, object] = {
    "/v1/events": {"events": [EVENT] * 50, "next_page_token": "dG9rZW4"},
    f"/v1/events/{EVENT_ID}": EVENT,
    "/v1/topics": {"topics": [TOPIC] * 50, "next_page_token": "dG9rZW4"},
    "/v1/topics/orders": TOPIC,
    "/v1/topics/orders/due": DUE,
    "/v1/transactions": {"transactions": [TRANSACTION] * 50},
    f"/v1/transactions/{EVENT_ID}": TRANSACTION,
    "/v1/schedules": {"schedules": [SCHEDULE]},
    f"/v1/schedules/{EVENT_ID}": SCHEDULE,
    f"/v1/schedules/{EVENT_ID}/next": {"occurrences": [{"occurrence": 1, "at": AT}]},
    "/v1/operations": {"operations": [OPERATION]},
    f"/v1/operations/{EVENT_ID}": OPERATION,
    "/v1/groups": {"groups": [GROUP]},
    "/v1/groups/billing": GROUP,
    "/v1/groups/billing/lag": {
        **{"group": "billing", "topic": "orders", "lag": 1, "in_flight": 0},
        "queues": [
            {"queue": 0, "offset": 4, "min_offset": 1, "max_offset": 9, "lag": 5}
        ],
    },
    "/v1/producer-groups": {"producer_groups": [PRODUCERS]},
    "/v1/producer-groups/shop": PRODUCERS,
    "/v1/endpoints": {"endpoints": [ENDPOINT]},
    "/v1/endpoints/crm": ENDPOINT,
    "/v1/endpoints/crm/attempts": {"attempts": [ATTEMPT]},
    "/v1/dead-letters": {"dead_letters": [DEAD]},
    "/v1/dead-letters/counts": {"counts": []},
    "/v1/keys": {"keys": [KEY]},
    "/v1/keys/k3x9q2mv": KEY,
    "/v1/namespaces": {"namespaces": [{"name": "acme", "description": EVIL}]},
    "/v1/trail": {"entries": [ACT]},
    "/v1/limits": {"limits": [LIMITS], "pending": 3, "server": {}},
    "/v1/limits/subjects": {"limits": [LIMITS]},
    f"/v1/limits/subjects/{quote(LIMITS['subject'], safe='')}": LIMITS,
}

PAGES = (
    "/console/events",
    "/console/events?state=dead&topic=orders",
    f"/console/events/{EVENT_ID}",
    "/console/events:new",
    "/console/events:bulk",
    "/console/topics",
    "/console/topics:new",
    "/console/topics/orders",
    "/console/transactions",
    "/console/transactions?state=committed",
    f"/console/transactions/{EVENT_ID}",
    "/console/schedules",
    "/console/schedules:new",
    f"/console/schedules/{EVENT_ID}",
    f"/console/schedules/{EVENT_ID}:change",
    "/console/operations",
    f"/console/operations/{EVENT_ID}",
    "/console/groups",
    "/console/groups/billing?topic=orders",
    "/console/producer-groups",
    "/console/producer-groups:new",
    "/console/producer-groups/shop",
    "/console/endpoints",
    "/console/endpoints:new",
    "/console/endpoints/crm",
    "/console/dead-letters",
    "/console/keys",
    "/console/keys:new",
    "/console/keys/k3x9q2mv",
    "/console/namespaces",
    "/console/trail",
    "/console/limits",
    f"/console/limits/{quote(LIMITS['subject'], safe='')}",
)


@pytest.fixture
def api() -> StubApi:
    return StubApi(ANSWERS)


@pytest.mark.parametrize("access", [OPEN_ACCESS, READ_ONLY], ids=["admin", "read-only"])
@pytest.mark.parametrize("path", PAGES)
def test_a_page_asks_little_and_only_to_see(
    api: StubApi, path: str, access: Access
) -> None:
    """A page of a list and a few things by name, whatever number there is of them."""
    answer = api.visit(path, access=access)
    assert answer.status == 200, answer.content
    assert len(api.calls) <= 3
    for method, target, body, _ in api.calls:
        assert method == "GET"
        assert body is None
        names = set(re.findall(r"[?&](\w+)=", target))
        if "limit" in names:
            assert int(re.findall(r"limit=(\d+)", target)[0]) <= 200
        else:
            assert target.partition("?")[0] not in ("/v1/events", "/v1/topics")


@pytest.mark.parametrize("path", PAGES)
def test_nothing_of_users_becomes_markup(api: StubApi, path: str) -> None:
    text = api.visit(path).content.decode()
    assert "<script>" not in text
    assert not re.search(r"<[^>]+\s(on[a-z]+|style)=", text)
    assert not re.search(r"<script(?! (defer src|type=\"application/json\"))", text)


@pytest.mark.parametrize("path", PAGES)
def test_a_page_lets_nothing_in_from_elsewhere(api: StubApi, path: str) -> None:
    answer = api.visit(path)
    policy = answer.extra("Content-Security-Policy")
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert answer.extra("Cache-Control") == "no-store"
    sources = re.findall(r'(?:src|href|action)="([^"]*)"', answer.content.decode())
    assert all(it.startswith(("/console", "#", "?")) for it in sources), sources


@pytest.mark.parametrize("path", PAGES)
def test_every_form_goes_to_a_route_and_brings_the_token(
    api: StubApi, path: str
) -> None:
    from halfpast_api.access.session import Session

    session = Session(csrf_token="the-token", created_at_ms=0, expires_at_ms=1)
    access = replace(OPEN_ACCESS, session=session, kind="key", actor="key:a")
    text = api.visit(path, access=access).content.decode()
    for form in re.findall(r"<form[^>]*method=\"post\".*?</form>", text, re.DOTALL):
        assert 'name="csrf_token" value="the-token"' in form
        target = re.findall(r'action="([^"]*)"', form)[0]
        if target not in ("/console/logout", "/console/namespace"):
            api._router.find("POST", target)  # pyright: ignore[reportPrivateUsage]


def test_who_may_only_look_is_offered_nothing_else(api: StubApi) -> None:
    for path in PAGES:
        text = api.visit(path, access=READ_ONLY).content.decode()
        main = text.partition("<main")[2]
        if ":new" in path or ":bulk" in path or ":change" in path:
            continue
        assert 'method="post"' not in main, path


def test_a_payload_is_withheld_from_who_may_not_see_it(api: StubApi) -> None:
    text = api.visit(f"/console/events/{EVENT_ID}", access=READ_ONLY).content.decode()
    assert "a right of its own" in text
    assert "alert(1)" in text  # the key is shown
    assert "&#34;text&#34;" not in text
    answer = api.visit(f"/console/events/{EVENT_ID}/payload", access=READ_ONLY)
    assert answer.status == 404


def test_a_payload_is_given_as_a_file(api: StubApi) -> None:
    answer = api.visit(f"/console/events/{EVENT_ID}/payload")
    assert answer.content == b'{"text":"<script>alert(1)</script>"}'
    assert b"Content-Type: application/octet-stream\r\n" in answer.head()
    assert answer.extra("Content-Disposition").startswith("attachment")
    assert answer.extra("X-Content-Type-Options") == "nosniff"


def test_what_is_not_there_is_a_page_that_says_so(api: StubApi) -> None:
    api.answers["/v1/topics/orders"] = Refusal("unknown_topic", f"no topic {EVIL}")
    answer = api.visit("/console/topics/orders")
    assert answer.status == 404
    text = answer.content.decode()
    assert "No such topic" in text
    assert "&lt;script&gt;" in text


def test_an_error_that_nobody_foresaw_is_not_hidden(api: StubApi) -> None:
    api.answers["/v1/topics"] = KeyError("a defect")
    with pytest.raises(KeyError):
        api.visit("/console/topics")


def test_a_list_that_has_found_nothing_yet_goes_on(api: StubApi) -> None:
    api.answers["/v1/events"] = {"events": [], "next_page_token": "dG9rZW4"}
    text = api.visit("/console/events?tag=rare").content.decode()
    assert "more to look through" in text
    assert "/console/events?tag=rare&amp;page_token=dG9rZW4" in text


def test_a_change_is_done_once_and_told_on_the_next_page(api: StubApi) -> None:
    form = {"version": "3"}
    answer = api.visit(f"/console/events/{EVENT_ID}:deliver-now", form=form)
    assert answer.status == 404  # the stub has no such route, and so nothing was done
    api.answers[f"/v1/events/{EVENT_ID}:deliver-now"] = EVENT
    api.calls.clear()
    answer = api.visit(f"/console/events/{EVENT_ID}:deliver-now", form=form)
    assert answer.status == 303
    assert location(answer) == f"/console/events/{EVENT_ID}"
    ((method, target, body, sent),) = api.calls
    assert (method, target) == ("POST", f"/v1/events/{EVENT_ID}:deliver-now")
    assert body is None
    assert sent == {"If-Match": '"3"'}
    cookie = answer.extra("Set-Cookie").partition(";")[0]
    said = heard(CIMultiDictProxy(CIMultiDict({"Cookie": cookie})))
    assert said is not None
    assert "delivered" in said.text


def test_a_refused_form_is_shown_again_with_what_was_typed(api: StubApi) -> None:
    api.answers["/v1/topics"] = {"topics": []}
    form = {"topic": "orders", "form": "json", "data": "{", "when": "now"}
    answer = api.visit("/console/events", form=form)
    assert answer.status == 422
    text = answer.content.decode()
    assert "The data is not JSON" in text
    assert 'value="orders"' in text


def test_what_was_typed_into_one_form_is_not_put_into_another(api: StubApi) -> None:
    answer = api.visit("/console/endpoints/crm:test", form={"data": "{"})
    assert answer.status == 422
    assert 'value="https://crm.example/"' in answer.content.decode()
    mine = {"url": "https://mine.example/", "concurrency": "many"}
    answer = api.visit("/console/endpoints/crm", form=mine)
    assert answer.status == 422
    assert 'value="https://mine.example/"' in answer.content.decode()


def test_a_form_of_another_type_is_refused(api: StubApi) -> None:
    headers = {"Content-Type": "text/plain"}
    answer = api.visit("/console/topics", form="name=a", headers=headers)
    assert answer.status == 415
    assert [it for it in api.calls if it[0] != "GET"] == []


def test_a_place_to_go_back_to_is_always_ours(api: StubApi) -> None:
    api.answers[f"/v1/events/{EVENT_ID}"] = EVENT
    for back in ("https://evil.example/", "//evil.example", "/console/\\evil", "/x"):
        form = {"action": "cancel", "id": EVENT_ID, "back": back}
        answer = api.visit("/console/events:ticked", form=form)
        assert location(answer) == "/console/events"


def test_force_needs_more_than_a_click(api: StubApi) -> None:
    path = f"/console/transactions/{EVENT_ID}:force"
    for form in ({"state": "committed", "reason": "r"}, {"sure": "yes", "reason": "r"}):
        answer = api.visit(path, form=form)
        assert answer.status == 422
    assert {method for method, *_ in api.calls} == {"GET"}
    api.answers[f"/v1/transactions/{EVENT_ID}:force"] = {}
    form = {"state": "committed", "reason": "because", "sure": "yes"}
    assert api.visit(path, form=form).status == 303
    assert api.calls[-1][2] == {
        **{"state": "committed", "reason": "because"},
        "by": "operator",
    }


def test_all_of_a_bulk_change_must_be_meant(api: StubApi) -> None:
    form = {"action": "cancel", "how": "do", "topic": "orders"}
    assert api.visit("/console/events:bulk", form=form).status == 422
    assert api.visit("/console/events:bulk", form={"action": "cancel"}).status == 422
    api.answers["/v1/events:cancel"] = OPERATION
    answer = api.visit("/console/events:bulk", form={**form, "sure": "yes"})
    assert location(answer) == f"/console/operations/{EVENT_ID}"
    assert api.calls[-1][2] == {"topic": "orders", "dry_run": False}


def test_a_new_secret_is_in_the_answer_and_nowhere_else(api: StubApi) -> None:
    api.answers["/v1/keys/k3x9q2mv:rotate"] = {**KEY, "secret": "hp_k3x9q2mv_secret"}
    answer = api.visit("/console/keys/k3x9q2mv:rotate", form={"keep_old": "1d"})
    assert answer.status == 200
    assert "hp_k3x9q2mv_secret" in answer.content.decode()
    assert answer.extra("Set-Cookie") == ""
    assert answer.extra("Cache-Control") == "no-store"


def test_a_new_signing_secret_is_shown_with_its_access_key(api: StubApi) -> None:
    path = "/v1/keys/k3x9q2mv:rotate-signing"
    api.answers[path] = {**KEY, "signing_secret": "hps_k3x9q2mv_secret"}
    answer = api.visit("/console/keys/k3x9q2mv:rotate-signing", form={"keep_old": "1d"})
    assert answer.status == 200
    shown = answer.content.decode()
    assert "hps_k3x9q2mv_secret" in shown
    assert "with k3x9q2mv as access key" in shown
    assert answer.extra("Cache-Control") == "no-store"


def test_a_page_that_never_changes_has_no_stream(api: StubApi) -> None:
    stream = {"Accept": "text/event-stream"}
    answer = api.visit("/console/topics", headers=stream)
    assert answer.status == 204
    live = api.visit("/console/topics/orders", headers=stream)
    assert live.goes_on
    head = live.whole("GET")
    assert b"text/event-stream" in head
    assert b"Content-Length" not in head


def test_what_has_ended_since_the_page_was_made_is_told_once_more(
    api: StubApi,
) -> None:
    """Else the page would show for ever what was true before its stream began."""
    done = f"/console/operations/{EVENT_ID}"
    sent = asyncio.run(streamed(api, done))
    assert b"event: part" in sent
    assert b"12 would be cancelled" in sent
    assert sent.endswith(b"event: end\ndata: \n\n")


async def streamed(api: StubApi, path: str) -> bytes:
    sent: list[bytes] = []

    class Connection:
        async def send(self, data: bytes) -> None:
            sent.append(data)

    answer = await api.visited(path, headers={"Accept": "text/event-stream"})
    assert isinstance(answer, LiveStream)
    await answer.send_parts(Connection())
    return b"".join(sent)
