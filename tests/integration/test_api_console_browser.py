"""The pages and the report of the audits, as a browser has them.

With HALFPAST_SCREENSHOTS=FOLDER the pictures stay there, to be looked at.
"""

import os
import sqlite3
import time
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect
from tests.integration.audit_books import Span, write
from tests.integration.browser import Site, axe_source

from halfpast_api.console.audits.dashboard import read_dashboard
from halfpast_api.console.audits.report import render_report
from halfpast_api.console.audits.scope import Wish
from halfpast_api.metadata.database import Database, parse_url
from halfpast_api.metadata.migrate import migrate

pytest_plugins = ["tests.integration.browser"]

PAGE = "/console/audits"
EMPTY, DAY, LARGE = "empty", "day", "large"
# How many of a picture's points must differ from the most frequent one.
PLOTS = {
    "rate": 200,
    "mix": 3000,
    "outcome": 200,
    "checks": 3000,
    "lateness": 500,
    "heat": 3000,
    "sla": 200,
    "timers": 3000,
}
INKED = """canvas => {
  const {width, height} = canvas;
  const {data} = canvas.getContext("2d").getImageData(0, 0, width, height);
  const seen = new Map();
  for (let at = 0; at < data.length; at += 4) {
    const point = data.slice(at, at + 4).join();
    seen.set(point, (seen.get(point) || 0) + 1);
  }
  return data.length / 4 - Math.max(...seen.values());
}"""
AXE = """async () => (await axe.run(document, {resultTypes: ["violations"]}))
  .violations.map(it => `${it.id}: ${it.nodes.map(node => node.target).join(" ")}`)"""


@pytest.fixture(scope="module")
def databases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Results of no audit, of one day, and of many topics and windows."""
    folder = tmp_path_factory.mktemp("results")
    found = {name: folder / f"{name}.sqlite" for name in (EMPTY, DAY, LARGE)}
    migrate(f"sqlite:///{found[EMPTY]}")
    write(f"sqlite:///{found[DAY]}", Span())
    write(f"sqlite:///{found[LARGE]}", Span(windows=720, topics=20, window_ms=3600_000))
    return found


@pytest.fixture(scope="module")
def addresses(site: Site, databases: dict[str, Path]) -> dict[str, str]:
    return {name: site(path) for name, path in databases.items()}


@contextmanager
def visiting(browser: Browser, **options: Any) -> Generator[tuple[Page, list[str]]]:
    """A page, and all that went wrong on it or was asked of anybody else."""
    context = browser.new_context(viewport={"width": 1440, "height": 1000}, **options)
    page, wrong = context.new_page(), list[str]()
    page.on("console", lambda it: wrong.append(f"{it.type}: {it.text}"))
    page.on("pageerror", lambda it: wrong.append(f"error: {it}"))
    page.on("requestfailed", lambda it: wrong.append(f"failed: {it.url}"))
    try:
        yield page, wrong
    finally:
        context.close()


def shoot(page: Page, name: str) -> None:
    folder = os.environ.get("HALFPAST_SCREENSHOTS")
    if folder:
        page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)


def plot(page: Page, name: str) -> Locator:
    return page.locator(f"figure[data-plot={name}]")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [EMPTY, DAY, LARGE])
def test_pages_are_drawn_and_usable_by_all(
    browser: Browser, addresses: dict[str, str], size: str, scheme: str
) -> None:
    with visiting(browser, color_scheme=scheme) as (page, wrong):
        asked: list[str] = []
        page.on("request", lambda it: asked.append(it.url))
        query = "?range=30d" if size == LARGE else ""
        answer = page.goto(addresses[size] + PAGE + query)
        assert answer is not None
        assert answer.status == 200
        page.wait_for_selector("html[data-drawn=yes]")
        shoot(page, f"{size}-{scheme}")
        for name, points in PLOTS.items() if size != EMPTY else ():
            canvas = plot(page, name).locator("canvas")
            assert canvas.evaluate(INKED) > points, name
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= 1440  # tables scroll within themselves
        assert wrong == []
        assert {url.partition("/console")[0] for url in asked} == {addresses[size]}
        page.evaluate(axe_source())
        assert page.evaluate(AXE) == []


def test_a_narrow_page_does_not_scroll_sideways(
    browser: Browser, addresses: dict[str, str]
) -> None:
    with visiting(browser) as (page, _):
        page.set_viewport_size({"width": 390, "height": 800})
        page.goto(addresses[DAY] + PAGE)
        page.wait_for_selector("html[data-drawn=yes]")
        shoot(page, "narrow")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_the_keyboard_reads_plots_and_tables(
    browser: Browser, addresses: dict[str, str]
) -> None:
    with visiting(browser) as (page, wrong):
        page.goto(addresses[DAY] + PAGE)
        lateness = plot(page, "lateness")
        lateness.locator(".u-wrap").focus()
        page.keyboard.press("Home")
        said = lateness.locator("[aria-live]").text_content()
        assert said is not None
        assert said.startswith("2025-12-31 12:00: p50 2 ms, p95 ")
        page.keyboard.press("ArrowRight")
        assert "2025-12-31 12:05" in lateness.locator("[aria-live]").inner_text()
        lateness.locator("summary").focus()
        page.keyboard.press("Enter")
        expect(lateness.locator(".as-table tbody tr")).to_have_count(288)
        heat = plot(page, "heat")
        heat.locator(".u-wrap").focus()
        page.keyboard.press("End")
        assert "1 ms " in heat.locator("[aria-live]").inner_text()
        assert wrong == []


def test_a_choice_is_shown_at_once_and_a_drag_looks_closer(
    browser: Browser, addresses: dict[str, str]
) -> None:
    with visiting(browser) as (page, wrong):
        page.goto(addresses[DAY] + PAGE)
        with page.expect_navigation():
            page.get_by_label("Topic").first.select_option("payments")
        assert "topic=payments" in page.url
        page.wait_for_selector("html[data-drawn=yes]")
        over = plot(page, "lateness").locator(".u-over")
        over.scroll_into_view_if_needed()
        box = over.bounding_box()
        assert box is not None
        middle = box["y"] + box["height"] / 2
        with page.expect_navigation():
            page.mouse.move(box["x"] + box["width"] * 0.8, middle)
            page.mouse.down()
            page.mouse.move(box["x"] + box["width"] * 0.95, middle, steps=4)
            page.mouse.up()
        assert "from=2026-01-01T07" in page.url
        assert "topic=payments" in page.url
        assert "topic payments" in page.locator(".span").first.inner_text()
        assert wrong == []


def test_an_offender_leads_to_its_time_line(
    browser: Browser, addresses: dict[str, str]
) -> None:
    with visiting(browser) as (page, wrong):
        page.goto(addresses[DAY] + PAGE)
        row = page.locator("section[aria-labelledby=offenders] tbody tr")
        twice = row.filter(has_text="duplicated").first
        event_id = twice.get_by_role("link").inner_text()
        twice.get_by_role("link").click()
        page.wait_for_url(f"**/events/{event_id}")
        shoot(page, "event")
        lines = page.locator(".timeline li strong").all_inner_texts()
        assert lines == ["schedule", "reschedule", "fired", "delivered", "delivered"]
        assert page.locator(".timeline li.bad").count() == 1
        page.evaluate(axe_source())
        assert page.evaluate(AXE) == []
        assert wrong == []


def test_the_report_needs_nothing_else_and_prints(
    browser: Browser, databases: dict[str, Path], tmp_path: Path
) -> None:
    database = Database(parse_url(f"sqlite:///{databases[DAY]}"))
    with database.reading() as connection:
        board = read_dashboard(connection, Wish(), int(time.time() * 1000))
    database.dispose()
    report = tmp_path / "report.html"
    report.write_text(render_report(board), "utf-8")
    with visiting(browser, color_scheme="dark", offline=True) as (page, wrong):
        page.goto(report.as_uri())
        page.wait_for_selector("html[data-drawn=yes]")
        shoot(page, "report")
        for name, points in PLOTS.items():
            assert plot(page, name).locator("canvas").evaluate(INKED) > points, name
        assert page.locator("a[href^='/'], a[href^='http']").count() == 0
        page.evaluate(axe_source())
        assert page.evaluate(AXE) == []
        page.emulate_media(media="print")
        page.wait_for_selector("html[data-theme=light]")
        assert page.pdf(prefer_css_page_size=True).startswith(b"%PDF")
        page.emulate_media(media="screen")
        page.wait_for_selector("html:not([data-theme])")
        assert wrong == []


def test_names_of_users_are_shown_as_they_are(
    browser: Browser, site: Site, databases: dict[str, Path], tmp_path: Path
) -> None:
    """Nothing that a name or a time line holds is read as markup."""
    evil = "</script><img src=x onerror=alert(1)>"
    copy = tmp_path / "evil.sqlite"
    copy.write_bytes(databases[DAY].read_bytes())
    with closing(sqlite3.connect(copy)) as connection, connection:
        for table, column in (("on_time", "topic"), ("transactions", "producer_group")):
            connection.execute(
                f"UPDATE halfpast_audit_{table} SET {column} = ? "
                f"WHERE {column} IN ('payments', 'billing')",
                (evil,),
            )
    with visiting(browser) as (page, wrong):
        page.goto(site(copy) + PAGE)
        page.wait_for_selector("html[data-drawn=yes]")
        assert page.get_by_role("link", name=evil).count() >= 2
        assert page.locator("img").count() == 0
        assert wrong == []
