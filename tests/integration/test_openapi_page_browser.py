"""The page of the API's description in a real browser: for all, from nowhere else."""

import pytest
from playwright.sync_api import Browser
from tests.integration.browser import Site, axe_source

from halfpast_api.metadata.migrate import migrate
from halfpast_api.openapi.catalogue import OPERATIONS, WEBHOOKS

pytest_plugins = ["tests.integration.browser"]
# All cards are alike, and a look at each of them takes a while.
PART = """async () => (await axe.run(
    {include: [[".side"], ["#top"], [".chapter:first-of-type"],
      ["#schemas ~ article:nth-of-type(-n + 3)"]]},
    {resultTypes: ["violations"]},
  )).violations.map(it => `${it.id}: ${it.nodes.map(node => node.target).join(" ")}`)"""
WHOLE = """async () => (await axe.run(
    document, {resultTypes: ["violations"], runOnly: ["landmark-unique", "duplicate-id",
      "duplicate-id-aria", "heading-order", "region", "label", "link-name"]},
  )).violations.map(it => `${it.id}: ${it.nodes.map(node => node.target).join(" ")}`)"""


@pytest.fixture(scope="module")
def address(site: Site, tmp_path_factory: pytest.TempPathFactory) -> str:
    database = tmp_path_factory.mktemp("docs") / "empty.sqlite"
    migrate(f"sqlite:///{database}")
    return site(database)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_calls_are_there_for_all_readers(
    browser: Browser, address: str, scheme: str
) -> None:
    context = browser.new_context(color_scheme=scheme)  # type: ignore[arg-type]
    page = context.new_page()
    wrong: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: wrong.append(message.text))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    answer = page.goto(address + "/docs")
    assert answer is not None
    assert answer.status == 200
    assert "script-src 'self'" in answer.headers["content-security-policy"]
    count = len(OPERATIONS) + len(WEBHOOKS)
    assert page.locator(".side li").count() == count
    assert page.locator("article .line").count() == count
    page.evaluate(axe_source())
    assert page.evaluate(PART) == []
    assert page.evaluate(WHOLE) == []
    assert wrong == []
    assert all(url.startswith(address) for url in asked)
    context.close()


def test_a_call_is_found_by_words_and_by_path(browser: Browser, address: str) -> None:
    page = browser.new_page()
    page.goto(address + "/docs")
    shown = page.locator(".side li:visible")
    page.get_by_label("Find a call").fill("cancel event")
    assert "Cancel an event" in shown.all_inner_texts()[0]
    page.get_by_label("Find a call").fill("/lag")
    assert shown.count() == 1
    shown.first.get_by_role("link").click()
    assert page.url.endswith("#getLag")
    page.close()


def test_a_narrow_page_does_not_scroll_sideways(browser: Browser, address: str) -> None:
    page = browser.new_page(viewport={"width": 390, "height": 800})
    page.goto(address + "/docs")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.close()
