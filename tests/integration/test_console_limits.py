"""Limits in the console, in a real browser."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect
from tests.integration.console_site import ConsoleSite
from tests.integration.test_console_flows import go, visiting

pytest_plugins = ["tests.integration.browser"]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleSite]:
    with ConsoleSite(tmp_path_factory.mktemp("limits")) as running:
        yield running


def test_a_key_is_limited_from_its_page(browser: Browser, site: ConsoleSite) -> None:
    key_id = site.post("/v1/keys", {"role": "operator", "description": "shop"})["id"]
    with visiting(browser, site) as (page, wrong):
        go(page, f"/console/keys/{key_id}")
        page.get_by_role("link", name="Limit it").click()
        assert page.get_by_label("Whom").input_value() == f"key:{key_id}"
        page.get_by_label("Bytes a second").fill("1000000")
        page.get_by_role("button", name="Limit", exact=True).click()
        expect(page.get_by_role("region", name="Limits of each")).to_contain_text(
            f"key:{key_id}"
        )
        assert wrong == []


def test_a_namespace_is_limited_watched_and_let_go(
    browser: Browser, site: ConsoleSite
) -> None:
    with visiting(browser, site) as (page, wrong):
        go(page, "/console/limits")
        expect(page.get_by_text("You have none but the server's own")).to_be_visible()
        page.get_by_label("Whom").fill("default-namespace")
        page.get_by_label("Requests a second").fill("2000.5")
        page.get_by_label("Pending events").fill("1000")
        page.get_by_label("How far ahead").fill("30d")
        page.get_by_role("button", name="Limit", exact=True).click()
        expect(page.locator(".said")).to_contain_text("default-namespace is limited")
        yours = page.get_by_role("region", name="Your limits")
        expect(yours).to_contain_text("default-namespace")
        expect(yours).to_contain_text("2000.5")
        folder = os.environ.get("HALFPAST_SCREENSHOTS")
        if folder:
            page.screenshot(path=Path(folder) / "limits.png", full_page=True)
        everybody = page.get_by_role("region", name="Limits of each")
        everybody.get_by_role("link", name="default-namespace").click()
        assert page.get_by_label("How far ahead").input_value() == "30d"
        page.get_by_label("Requests a second").fill("many")
        page.get_by_role("button", name="Save").click()
        expect(page.get_by_role("alert")).to_contain_text("must be a number")
        page.get_by_label("Requests a second").fill("0")
        page.get_by_role("button", name="Save").click()
        expect(page.locator(".said")).to_contain_text("Changed")
        found = site.get("/v1/limits/subjects/default-namespace")
        assert (found["requests_per_s"], found["max_pending"]) == (0, 1000)
        page.get_by_text("Take them away…").click()
        page.get_by_role("button", name="Take them away", exact=True).click()
        expect(page.locator(".said")).to_contain_text("no limits of its own")
        assert [it for it in wrong if "422" not in it] == []
