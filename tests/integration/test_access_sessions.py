"""Sessions of the console: logging in, staying in, and being thrown out."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import replace
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlencode, urlsplit

import msgspec
import pytest
import pytest_asyncio
from sqlalchemy import text
from tests.integration.access_server import KEYS, Caller, keyed_api
from tests.integration.api_server import Api, Reply
from tests.integration.oidc_provider import FakeProvider, fake_provider

from halfpast_api.access.access import Access
from halfpast_api.access.config import SessionConfig
from halfpast_api.access.key_ring import KeyRing
from halfpast_api.access.sessions import Sessions, csrf_token
from halfpast_api.metadata.cache import MetadataCache
from halfpast_api.metadata.database import migration_engine, parse_url
from halfpast_api.metadata.store import MetadataStore

pytestmark = pytest.mark.asyncio(loop_scope="module")

FORM = "application/x-www-form-urlencoded"


class Browser:
    """Keeps cookies, and does not follow where it is sent."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self.cookies: dict[str, str] = {}
        self.set: SimpleCookie = SimpleCookie()

    @property
    def session(self) -> str:
        return self.cookies.get("halfpast_session", "")

    @property
    def token(self) -> str:
        return csrf_token(self.session)

    async def get(self, path: str, **headers: str) -> Reply:
        return await self._send("GET", path, b"", headers)

    async def form(self, path: str, **fields: str) -> Reply:
        return await self.form_with(path, {}, **fields)

    async def form_with(
        self, path: str, headers: dict[str, str], **fields: str
    ) -> Reply:
        sent = {"Content-Type": FORM, **headers}
        return await self._send("POST", path, urlencode(fields).encode(), sent)

    async def call(
        self, method: str, path: str, body: Any = None, **headers: str
    ) -> Reply:
        return await self._send(method, path, body, headers)

    async def _send(
        self, method: str, path: str, body: Any, headers: dict[str, str]
    ) -> Reply:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.cookies:
            sent["Cookie"] = "; ".join(f"{n}={v}" for n, v in self.cookies.items())
        url = self._api.address + path
        data = body
        if body is not None and not isinstance(body, bytes):
            sent["Content-Type"] = "application/json"
            data = msgspec.json.encode(body)
        async with self._api.session.request(
            method, url, data=data or None, headers=sent, allow_redirects=False
        ) as answer:
            content = await answer.read()
            self.set = SimpleCookie()
            for header in answer.headers.getall("Set-Cookie", ()):
                self.set.load(header)
            for name, morsel in self.set.items():
                if morsel["max-age"] == "0":
                    self.cookies.pop(name, None)
                else:
                    self.cookies[name] = morsel.value
            return Reply(answer.status, answer.headers, content)


async def log_in(api: Api, key: str, next_: str = "/console") -> Browser:
    browser = Browser(api)
    reply = await browser.form("/console/login", key=key, next=next_)
    assert (reply.status, reply.headers["Location"]) == (303, next_)
    return browser


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def provider() -> AsyncGenerator[FakeProvider]:
    async with fake_provider() as found:
        yield found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def place(
    tmp_path_factory: pytest.TempPathFactory, provider: FakeProvider
) -> AsyncGenerator[tuple[Api, Caller]]:
    config = replace(KEYS, oidc=provider.config(namespace="*"))
    async with keyed_api(tmp_path_factory.mktemp("sessions"), config) as found:
        yield found


@pytest.fixture
def api(place: tuple[Api, Caller]) -> Api:
    return place[0]


@pytest.fixture
def admin(place: tuple[Api, Caller]) -> Caller:
    return place[1]


async def test_logging_in_with_a_key(api: Api, admin: Caller) -> None:
    browser = await log_in(api, admin.key, "/console/topics")
    made = browser.set["halfpast_session"]
    assert (made["httponly"], made["samesite"], made["path"]) == (True, "Lax", "/")
    assert not made["secure"]
    assert admin.key not in str(browser.cookies)
    who = (await browser.get("/v1/whoami")).body
    assert (who["role"], who["all_namespaces"]) == ("admin", True)
    assert (await browser.get("/console")).status == 200


async def test_a_secure_cookie_behind_https(api: Api, admin: Caller) -> None:
    browser = Browser(api)
    sent = {"X_Forwarded_Proto": "https"}
    await browser.form_with("/console/login", sent, key=admin.key)
    assert browser.set["halfpast_session"]["secure"]


@pytest.mark.parametrize(
    ("key", "problem"), [("hp_x", "unknown_key"), ("", "unknown_key")]
)
async def test_a_wrong_key(api: Api, key: str, problem: str) -> None:
    browser = Browser(api)
    reply = await browser.form("/console/login", key=key, next="/console/topics")
    assert reply.status == 303
    assert reply.headers["Location"] == (
        f"/console/login?problem=unknown_key&next={quote('/console/topics', safe='')}"
    )
    assert browser.cookies == {}


async def test_pages_send_people_to_log_in_first(api: Api) -> None:
    reply = await Browser(api).get("/console/topics?a=b")
    assert reply.status == 303
    where = urlsplit(reply.headers["Location"])
    assert where.path == "/console/login"
    assert parse_qs(where.query) == {"next": ["/console/topics?a=b"]}
    assert (await Browser(api).form("/console/topics")).status == 401


async def test_nobody_is_sent_elsewhere_after_it(api: Api, admin: Caller) -> None:
    for elsewhere in ("https://evil.example/", "//evil.example", "/v1/topics"):
        browser = Browser(api)
        reply = await browser.form("/console/login", key=admin.key, next=elsewhere)
        assert reply.headers["Location"] == "/console"


async def test_a_session_is_never_taken_over(api: Api, admin: Caller) -> None:
    """Whatever cookie an attacker has planted, logging in makes another one, and what
    was there before is over."""
    planted = Browser(api)
    planted.cookies["halfpast_session"] = "A" * 43
    await planted.form("/console/login", key=admin.key)
    assert planted.session != "A" * 43
    first = await log_in(api, admin.key)
    attacker = Browser(api)
    attacker.cookies = dict(first.cookies)
    assert (await attacker.get("/v1/whoami")).status == 200
    await first.form("/console/login", key=admin.key)
    assert first.session != attacker.session
    assert (await attacker.get("/v1/whoami")).status == 401
    assert (await first.get("/v1/whoami")).status == 200


async def test_changes_need_the_token_of_the_session(api: Api, admin: Caller) -> None:
    browser = await log_in(api, admin.key)
    other = await log_in(api, admin.key)
    path = "/v1/topics/forged"
    for headers in ({}, {"X_CSRF_Token": ""}, {"X_CSRF_Token": other.token}):
        reply = await browser.call("PUT", path, {}, **headers)
        assert (reply.status, reply.code) == (403, "csrf")
    assert (await browser.get(path)).status == 404
    done = await browser.call("PUT", path, {}, X_CSRF_Token=browser.token)
    assert done.status == 201
    assert (await browser.get(path)).status == 200  # looking needs none
    bare = await browser.call("POST", "/v1/events/x:deliver-now")
    assert bare.code == "csrf"


async def test_forms_bring_the_token_as_a_field(api: Api, admin: Caller) -> None:
    browser = await log_in(api, admin.key)
    refused = await browser.form("/console/logout")
    assert (refused.status, refused.code) == (403, "csrf")
    assert (await browser.get("/v1/whoami")).status == 200
    crossed = await browser.form_with(
        "/console/logout",
        {"Origin": "https://evil.example"},
        csrf_token=browser.token,
    )
    assert crossed.code == "cross_site"


async def test_forms_of_other_sites_log_nobody_in(api: Api, admin: Caller) -> None:
    browser = Browser(api)
    for headers in (
        {"Origin": "https://evil.example"},
        {"Sec_Fetch_Site": "cross-site"},
    ):
        reply = await browser.form_with("/console/login", headers, key=admin.key)
        assert (reply.status, reply.code) == (403, "cross_site")
    assert browser.cookies == {}


async def test_a_key_needs_no_token(admin: Caller) -> None:
    assert (await admin.put("/v1/topics/by-key", {})).status == 201


async def test_logging_out(api: Api, admin: Caller) -> None:
    browser = await log_in(api, admin.key)
    kept = Browser(api)
    kept.cookies = dict(browser.cookies)
    reply = await browser.form("/console/logout", csrf_token=browser.token)
    assert (reply.status, reply.headers["Location"]) == (303, "/console/login")
    assert browser.cookies == {}
    assert (await kept.get("/v1/whoami")).status == 401
    acts = (await admin.get("/v1/trail?limit=5")).body["entries"]
    assert [it["action"] for it in acts[:2]] == ["log out", "log in"]


async def test_a_session_ends_with_its_key(api: Api, admin: Caller) -> None:
    key = await admin.with_key(role="operator")
    browser = await log_in(api, key.key)
    assert (await browser.get("/v1/topics")).status == 200
    await admin.done("PATCH", f"/v1/keys/{key.key_id}", {"scopes": ["publish"]})
    assert (await browser.get("/v1/topics")).status == 403
    await admin.done("POST", f"/v1/keys/{key.key_id}:revoke")
    assert (await browser.get("/v1/whoami")).status == 401
    assert (await browser.get("/console")).status == 303


async def test_what_people_do_is_on_record(api: Api, admin: Caller) -> None:
    """Of a person also what of a program would be its daily work."""
    made = await admin.done(
        "POST", "/v1/topics/person/events", {"delay": "P1D", "data": 1}
    )
    browser = await log_in(api, admin.key)
    path = f"/v1/events/{made['id']}"
    assert (
        await browser.call("DELETE", path, X_CSRF_Token=browser.token)
    ).status == 200
    (act, *_) = (await admin.get(f"/v1/trail?object={made['id']}")).body["entries"]
    assert act["action"] == "DELETE /v1/events/{id}"
    assert act["before"]["state"] == "scheduled"
    assert act["before"]["data"] == "…"


async def test_another_namespace_from_now_on(api: Api, admin: Caller) -> None:
    await admin.done("PUT", "/v1/namespaces/moved", {})
    browser = await log_in(api, admin.key)

    async def move(to: str) -> Reply:
        fields = {"namespace": to, "next": "/console", "csrf_token": browser.token}
        return await browser.form("/console/namespace", **fields)

    assert (await move("moved")).status == 303
    assert (await browser.get("/v1/whoami")).body["namespace"] == "moved"
    assert (await move("nowhere")).code == "unknown_namespace"
    assert (await move("")).status == 303
    assert (await browser.get("/v1/whoami")).body["namespace"] == ""


@pytest.mark.parametrize(
    "value", ["", "x", "A" * 43, "A" * 20_000, '"' + "A" * 43 + '"']
)
async def test_a_made_up_cookie(api: Api, value: str) -> None:
    browser = Browser(api)
    browser.cookies["halfpast_session"] = value
    reply = await browser.get("/v1/whoami")
    assert reply.status in (400, 401)  # 400: larger than a header may be


async def come_back(browser: Browser, where: str) -> Reply:
    parts = urlsplit(where)
    return await browser.get(f"{parts.path}?{parts.query}")


async def begin(browser: Browser) -> str:
    reply = await browser.get("/console/login/oidc?next=/console/topics")
    assert reply.status == 303
    made = browser.set["halfpast_login"]
    assert (made["httponly"], made["samesite"], made["path"]) == (
        *(True, "Lax"),
        "/console/login",
    )
    return reply.headers["Location"]


async def test_logging_in_by_a_provider(api: Api, provider: FakeProvider) -> None:
    provider.id_claims = {"groups": ["dev"]}
    browser = Browser(api)
    where = await begin(browser)
    assert where.startswith(f"{provider.issuer}/authorize?")
    reply = await come_back(browser, provider.log_in(where))
    assert (reply.status, reply.headers["Location"]) == (303, "/console/topics")
    assert set(browser.cookies) == {"halfpast_session"}
    who = (await browser.get("/v1/whoami")).body
    assert (who["actor"], who["kind"]) == ("user:ann@example.org", "user")
    assert (who["role"], who["all_namespaces"]) == ("read-only", True)
    refused = await browser.call("PUT", "/v1/topics/x", {}, X_CSRF_Token=browser.token)
    assert (refused.status, refused.code) == (403, "forbidden")


async def test_log_ins_by_a_provider_that_fail(
    api: Api, provider: FakeProvider, admin: Caller
) -> None:
    async def fails(browser: Browser, where: str) -> None:
        reply = await come_back(browser, where)
        assert reply.status == 303
        assert reply.headers["Location"].startswith("/console/login?problem=")
        assert browser.session == ""

    provider.id_claims = {"groups": ["sre"]}
    browser = Browser(api)
    await fails(browser, provider.log_in(await begin(browser), state="another"))
    where = provider.log_in(await begin(browser))
    await fails(Browser(api), where)  # who has not begun it: log-in forced on them
    await begin(browser)
    await fails(browser, where)  # another log-in's answer
    await fails(
        browser, provider.log_in(await begin(browser), iss="https://evil.example")
    )
    await fails(browser, provider.log_in(await begin(browser), code="made-up"))
    await begin(browser)
    await fails(browser, "/console/login/callback?error=access_denied&state=x")
    for claims in (
        {"nonce": "another"},
        {"aud": "halfpast"},  # good for a program, not for a log-in
        {"azp": "another", "aud": ["halfpast-console", "another"]},
        {"groups": ["nobody"]},
        {"exp": 1},
    ):
        provider.id_claims = {"groups": ["sre"], **claims}
        await fails(browser, provider.log_in(await begin(browser)))
    provider.id_claims = {"groups": ["sre"]}
    reply = await come_back(browser, provider.log_in(await begin(browser)))
    assert reply.headers["Location"] == "/console/topics"


async def test_programs_come_with_tokens(api: Api, provider: FakeProvider) -> None:
    program = Caller(api, provider.token(groups=["sre"]))
    assert (await program.put("/v1/topics/by-token", {})).status == 201
    acts = (await program.get("/v1/trail?object=by-token")).body["entries"]
    assert [it["actor"] for it in acts] == ["user:ann@example.org"]
    stranger = await Caller(api, provider.token(groups=["x"])).get("/v1/topics")
    assert (stranger.status, stranger.code) == (401, "unauthenticated")
    assert "HALFPAST_API_OIDC_ROLES" in stranger.body["detail"]


class Clock:
    def __init__(self) -> None:
        self.now_ms = 1_000_000_000

    def __call__(self) -> int:
        return self.now_ms


async def test_sessions_end_by_time(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/metadata.sqlite"
    store = await MetadataStore.open(url)
    clock = Clock()
    config = SessionConfig(idle_ms=600_000, absolute_ms=2_000_000)
    sessions = Sessions(store, KeyRing(MetadataCache(store), clock), config, clock)
    access = Access(actor="user:ann", kind="user", role="operator")
    try:
        token = await sessions.begin(access)
        for _ in range(3):
            clock.now_ms += 599_000
            assert await sessions.find(token)
        clock.now_ms += 300_000
        assert await sessions.find(token) is None  # however much it was used
        idle = await sessions.begin(access)
        clock.now_ms += 600_000
        assert await sessions.find(idle) is None
        live = await sessions.begin(access)
        assert await sessions.purge() == 2
        found = await sessions.find(live)
        assert found is not None
        assert found.session is not None
        assert found.session.csrf_token == csrf_token(live)
        assert live not in repr(found)
        assert found.session.csrf_token not in repr(found)
        with migration_engine(parse_url(url)).connect() as connection:
            rows = connection.execute(text("SELECT * FROM halfpast_sessions")).all()
        assert live not in str(rows)
        elsewhere = Sessions(store, KeyRing(MetadataCache(store), clock), config, clock)
        assert await elsewhere.find(live)
        await sessions.end(live)
        clock.now_ms += config.cached_ms
        assert await elsewhere.find(live) is None
        await asyncio.gather(*(sessions.find(f"{n:043}") for n in range(100)))
        assert sessions.remembered <= 10_000
    finally:
        await store.close()
