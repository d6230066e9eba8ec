"""Logging in to the console, roles, and what other sites cannot do, in a browser."""

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect
from tests.integration.browser import axe_source
from tests.integration.console_site import ConsoleSite

from halfpast_api.config import ApiConfig

pytest_plugins = ["tests.integration.browser"]

AXE = """async () => (await axe.run(document, {resultTypes: ["violations"]}))
  .violations.map(it => `${it.id}: ${it.nodes.map(node => node.target).join(" ")}`)"""
HOUR_MS = 3_600_000

expect.set_options(timeout=15_000)  # of a machine that has other things to do as well


class Keys:
    """One key for each role; the first one made has closed the server."""

    def __init__(self, site: ConsoleSite) -> None:
        body = {"role": "admin", "view_payload": True, "all_namespaces": True}
        self.admin: str = site.post("/v1/keys", body)["secret"]
        self._site = site
        self.operator = self.make(role="operator", view_payload=True)
        self.reader = self.make(role="read-only")

    def make(self, **body: Any) -> str:
        secret: str = self._site.post("/v1/keys", body, **self.header)["secret"]
        return secret

    @property
    def header(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.admin}"}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleSite]:
    config = ApiConfig(port=0, auth="auto")
    with ConsoleSite(tmp_path_factory.mktemp("access"), config) as running:
        yield running


@pytest.fixture(scope="module")
def keys(site: ConsoleSite) -> Keys:
    return Keys(site)


@contextmanager
def visiting(browser: Browser, site: ConsoleSite) -> Generator[Page]:
    context = browser.new_context(base_url=site.address)
    page = context.new_page()
    page.set_default_timeout(10_000)
    try:
        yield page
    finally:
        context.close()


def log_in(page: Page, key: str, path: str = "/console") -> None:
    page.goto(path)
    page.get_by_label("Your key").fill(key)
    page.get_by_role("button", name="Log in").click()
    page.wait_for_selector("html[data-ready=yes]")


def session_of(page: Page) -> str:
    found = [
        it for it in page.context.cookies() if it.get("name") == "halfpast_session"
    ]
    assert found[0].get("httpOnly") is True
    assert found[0].get("sameSite") == "Lax"
    return str(found[0].get("value"))


def test_who_comes_without_a_key_logs_in_first(
    browser: Browser, site: ConsoleSite, keys: Keys
) -> None:
    with visiting(browser, site) as page:
        page.goto("/console/topics?page_token=")
        assert page.url.startswith(f"{site.address}/console/login?next=")
        page.evaluate(axe_source())
        assert page.evaluate(AXE) == []
        page.get_by_label("Your key").fill("hp_wrong_key")
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("alert")).to_contain_text("not known")
        page.get_by_label("Your key").fill(keys.reader)
        page.get_by_role("button", name="Log in").click()
        page.wait_for_url("**/console/topics?page_token=")
        expect(page.locator(".who")).to_contain_text("read-only")
        assert keys.reader not in page.content()


def test_logging_in_makes_a_new_session_and_logging_out_ends_it(
    browser: Browser, site: ConsoleSite, keys: Keys
) -> None:
    with visiting(browser, site) as page:
        planted = "A" * 43
        page.context.add_cookies(
            [{"name": "halfpast_session", "value": planted, "url": site.address}]
        )
        log_in(page, keys.reader)
        first = session_of(page)
        assert first != planted
        page.get_by_role("button", name="Log out").click()
        page.wait_for_url("**/console/login")
        page.context.add_cookies(
            [{"name": "halfpast_session", "value": first, "url": site.address}]
        )
        page.goto("/console/events")
        assert "/console/login" in page.url


def test_after_logging_in_one_goes_nowhere_else(
    browser: Browser, site: ConsoleSite, keys: Keys
) -> None:
    with visiting(browser, site) as page:
        log_in(page, keys.reader, "/console/login?next=https://evil.example/")
        assert page.url == f"{site.address}/console"


def test_a_reader_may_look_and_nothing_else(
    browser: Browser, site: ConsoleSite, keys: Keys
) -> None:
    event = {"data": {"card": "4111"}, "delay_ms": HOUR_MS}
    made = site.post("/v1/topics/roles/events", event, **keys.header)
    with visiting(browser, site) as page:
        log_in(page, keys.reader, f"/console/events/{made['id']}")
        expect(page.locator("main")).to_contain_text("that is a right of its own")
        assert "4111" not in page.content()
        assert page.locator("main form[method=post]").count() == 0
        for name in ("Keys", "Trail", "Namespaces"):
            assert page.locator("nav.side").get_by_text(name, exact=True).count() == 0
        token = page.locator("input[name=csrf_token]").first.get_attribute("value")
        answer = page.request.post(
            f"/console/events/{made['id']}:cancel", form={"csrf_token": token or ""}
        )
        assert answer.status == 403
        assert "needs the scope" in answer.text()
        assert page.request.get("/console/keys").status == 403
        found = site.get(f"/v1/events/{made['id']}", **keys.header)
        assert found["state"] == "scheduled"


def test_an_operator_schedules_and_an_administrator_sees_who_it_was(
    browser: Browser, site: ConsoleSite, keys: Keys
) -> None:
    with visiting(browser, site) as page:
        log_in(page, keys.operator, "/console/topics:new")
        page.get_by_label("Name").fill("operated")
        page.get_by_role("button", name="Make the topic").click()
        expect(page.locator("h1")).to_have_text("operated")
        assert page.request.get("/console/trail").status == 403
    with visiting(browser, site) as page:
        log_in(page, keys.admin, "/console/trail?object=operated")
        row = page.locator("#results tbody tr").first
        expect(row).to_contain_text("POST /v1/topics")
        operator = keys.operator.split("_")[1]
        expect(row).to_contain_text(f"key:{operator}")
        page.evaluate(axe_source())
        assert page.evaluate(AXE) == []


def test_a_key_is_made_shown_once_and_revoked(
    browser: Browser, site: ConsoleSite, keys: Keys
) -> None:
    with visiting(browser, site) as page, visiting(browser, site) as other:
        log_in(page, keys.admin, "/console/keys:new")
        page.get_by_label("What for").fill("made in the console")
        page.get_by_label("Role").select_option("operator")
        page.get_by_role("button", name="Make the key").click()
        secret = page.locator("code.secret").inner_text()
        assert secret.startswith("hp_")
        log_in(other, secret, "/console/topics")
        key_id = secret.split("_")[1]
        page.goto(f"/console/keys/{key_id}")
        assert secret not in page.content()
        page.locator("summary", has_text="Revoke").click()
        page.get_by_role("button", name="Revoke it for good").click()
        expect(page.locator("#facts .badge")).to_have_text("revoked")
        other.goto("/console/topics")
        assert "/console/login" in other.url


def test_scopes_of_ones_own_show_some_topics(
    browser: Browser, site: ConsoleSite, keys: Keys
) -> None:
    for name in ("mine-1", "theirs-1"):
        site.call("PUT", f"/v1/topics/{name}", {}, **keys.header)
    secret = keys.make(scopes=["read:mine-*"])
    with visiting(browser, site) as page:
        log_in(page, secret, "/console/topics")
        expect(page.locator("#results tbody tr")).to_have_count(1)
        expect(page.locator("#results tbody tr")).to_contain_text("mine-1")
        assert page.request.get("/console/topics/theirs-1").status in (403, 404)
        assert page.request.get("/console").status == 200


def test_a_namespace_sees_itself_alone(
    browser: Browser, site: ConsoleSite, keys: Keys
) -> None:
    site.call("PUT", "/v1/namespaces/acme", {}, **keys.header)
    secret = keys.make(role="admin", namespace="acme")
    acme = {"Authorization": f"Bearer {secret}"}
    site.call("PUT", "/v1/topics/plans", {}, **acme)
    site.call("PUT", "/v1/topics/roles", {}, **keys.header)
    with visiting(browser, site) as page:
        log_in(page, secret, "/console/topics")
        expect(page.locator(".who")).to_contain_text("namespace acme")
        assert page.locator("#results tbody th").all_inner_texts() == ["plans"]
        page.goto("/console/topics/roles")
        expect(page.locator("h1")).to_have_text("No such topic")
        assert "acme%" not in page.content()
        assert page.request.get("/console/audits").status == 403
        page.goto("/console")
        page.wait_for_selector("html[data-ready=yes]")
        assert page.locator(".tile", has_text="Written").count() == 0
    with visiting(browser, site) as page:  # bound to the default namespace
        log_in(page, keys.reader)
        assert page.locator(".tile", has_text="Written").count() == 0
        assert page.request.get("/console/audits").status == 403
    with visiting(browser, site) as page:
        log_in(page, keys.admin)
        assert page.locator(".tile", has_text="Written").count() == 1


def test_other_sites_can_do_nothing_with_ones_session(
    browser: Browser, site: ConsoleSite, keys: Keys
) -> None:
    with visiting(browser, site) as page:
        log_in(page, keys.admin)
        token = page.locator("input[name=csrf_token]").first.get_attribute("value")
        form: dict[str, str | float | bool] = {"name": "forged"}
        target = "/console/topics"
        assert page.request.post(target, form=form).status == 403
        wrong = {**form, "csrf_token": "x" * 43}
        page.locator("input[name=csrf_token]").first.evaluate("it => it.value = 'x'")
        page.get_by_role("button", name="Log out").click()
        expect(page.locator("h1")).to_have_text("The token of the session is missing")
        assert page.request.post(target, form=wrong).status == 403
        right = {**form, "csrf_token": token or ""}
        evil = {"Origin": "https://evil.example"}
        assert page.request.post(target, form=right, headers=evil).status == 403
        names = [it["name"] for it in site.get("/v1/topics", **keys.header)["topics"]]
        assert "forged" not in names
        assert page.request.post(target, form=right).ok
