"""What people do in the console, in a real browser.

With HALFPAST_SCREENSHOTS=FOLDER the pictures stay there, to be looked at.
"""

import os
import re
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from aiohttp import web
from playwright.sync_api import Browser, Page, expect
from tests.integration.browser import axe_source
from tests.integration.console_site import ConsoleSite

pytest_plugins = ["tests.integration.browser"]

AXE = """async () => (await axe.run(document, {resultTypes: ["violations"]}))
  .violations.map(it => `${it.id}: ${it.nodes.map(node => node.target).join(" ")}`)"""
AXE_COLOURS = """async () => (await axe.run(document, {resultTypes: ["violations"],
  runOnly: ["color-contrast"]}))
  .violations.map(it => it.nodes.map(node => node.target).join(" "))"""
WIDTH = "document.documentElement.scrollWidth"
EVIL = '"><img src=x onerror=alert(1)><script>alert(2)</script>'
HOUR_MS = 3_600_000

expect.set_options(timeout=15_000)  # of a machine that has other things to do as well


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleSite]:
    with ConsoleSite(tmp_path_factory.mktemp("console")) as running:
        yield running


@contextmanager
def visiting(
    browser: Browser, site: ConsoleSite, **options: Any
) -> Generator[tuple[Page, list[str]]]:
    """A page, and all that went wrong on it."""
    options = {"viewport": {"width": 1280, "height": 900}, **options}
    context = browser.new_context(
        base_url=site.address, timezone_id="Europe/Berlin", **options
    )
    page, wrong = context.new_page(), list[str]()
    page.set_default_timeout(10_000)
    page.on("console", lambda it: wrong.append(f"{it.type}: {it.text}"))
    page.on("pageerror", lambda it: wrong.append(f"error: {it}"))
    page.on("dialog", lambda it: wrong.append(f"dialog: {it.message}"))
    try:
        yield page, wrong
    finally:
        context.close()


def go(page: Page, path: str) -> None:
    page.goto(path)
    page.wait_for_selector("html[data-ready=yes]")


def shoot(page: Page, name: str) -> None:
    folder = os.environ.get("HALFPAST_SCREENSHOTS")
    if folder:
        page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)


def schedule(site: ConsoleSite, topic: str, **event: Any) -> str:
    body = {"data": {"n": 1}, "delay_ms": HOUR_MS, **event}
    made: str = site.post(f"/v1/topics/{topic}/events", body)["id"]
    return made


def state_of(site: ConsoleSite, event_id: str) -> str:
    state: str = site.get(f"/v1/events/{event_id}")["state"]
    return state


def test_an_event_is_scheduled_found_and_rescheduled(
    browser: Browser, site: ConsoleSite
) -> None:
    with visiting(browser, site) as (page, wrong):
        go(page, "/console/events:new")
        page.get_by_label("Topic").fill("flow-orders")
        page.get_by_label("Data", exact=True).fill('{"order": 17, "price": 1.50}')
        page.get_by_label("Key").fill("customer-17")
        page.get_by_label("Tag").fill("paid")
        page.get_by_label("After", exact=True).fill("1h30m")
        page.get_by_role("button", name="Schedule it").click()
        expect(page.locator(".said")).to_contain_text("Scheduled")
        event_id = page.url.rpartition("/")[2]
        expect(page.locator("pre.payload")).to_contain_text('"price": 1.50')
        made = site.get(f"/v1/events/{event_id}")
        assert (made["key"], made["tag"], made["state"]) == (
            *("customer-17", "paid"),
            "scheduled",
        )
        page.reload()
        assert page.locator(".said").count() == 0  # it is said once
        go(page, "/console/events")
        page.get_by_label("Key").fill("customer-17")
        page.get_by_label("Topic").fill("flow-orders")
        page.get_by_role("button", name="Search").click()
        page.wait_for_url("**key=customer-17**")
        expect(page.locator("#results tbody tr")).to_have_count(1)
        page.locator("#results tbody a.id").click()
        page.wait_for_url(f"**/events/{event_id}")
        page.get_by_label("at a time").check()
        page.get_by_label("Day and time").fill("2030-01-02T03:04:05")
        page.get_by_role("button", name="Reschedule").click()
        expect(page.locator(".said")).to_contain_text("Moved")
        moved = site.get(f"/v1/events/{event_id}")
        assert moved["deliver_at"] == "2030-01-02T02:04:05.000Z"  # as in Berlin
        assert moved["version"] == 2
        when = page.locator("#facts time")
        expect(when).to_contain_text("2030-01-02 03:04:05")
        assert "02:04:05.000 UTC" in (when.get_attribute("title") or "")
        page.get_by_role("button", name="Deliver now").click()
        expect(page.locator("#facts .badge")).to_have_text("delivered")
        assert wrong == []


def test_a_form_that_is_refused_keeps_what_was_typed(
    browser: Browser, site: ConsoleSite
) -> None:
    with visiting(browser, site) as (page, _):
        go(page, "/console/events:new")
        page.get_by_label("Topic").fill("flow-bad")
        page.get_by_label("Data", exact=True).fill("{not json")
        page.get_by_label("After", exact=True).fill("5 parsecs")
        page.get_by_role("button", name="Schedule it").click()
        expect(page.get_by_role("alert")).to_contain_text("The data is not JSON")
        expect(page.get_by_label("Data", exact=True)).to_have_value("{not json")
        page.get_by_label("Data", exact=True).fill("1")
        page.get_by_role("button", name="Schedule it").click()
        expect(page.get_by_role("alert")).to_contain_text("'5 parsecs' is not a span")
        page.get_by_label("After", exact=True).fill("5m")
        page.get_by_role("button", name="Schedule it").click()
        expect(page.locator(".said")).to_contain_text("Scheduled")


def test_the_same_form_twice_makes_one_event(
    browser: Browser, site: ConsoleSite
) -> None:
    with visiting(browser, site) as (page, _):
        ids: set[str] = set()
        go(page, "/console/events:new")
        once = page.locator("input[name=once]").input_value()
        for _ in range(2):
            go(page, "/console/events:new")
            page.locator("input[name=once]").evaluate(f"it => it.value = '{once}'")
            page.get_by_label("Topic").fill("flow-once")
            page.get_by_role("button", name="Schedule it").click()
            page.wait_for_url(re.compile("/console/events/0"))
            ids.add(page.url)
        assert len(ids) == 1


def test_many_are_cancelled_after_a_trial(browser: Browser, site: ConsoleSite) -> None:
    ids = [schedule(site, "flow-bulk", tag="old") for _ in range(30)]
    kept = schedule(site, "flow-bulk", tag="new")
    with visiting(browser, site) as (page, wrong):
        go(page, "/console/events?topic=flow-bulk&tag=old")
        expect(page.locator("#results tbody tr")).to_have_count(30)
        page.get_by_role("link", name="Change all that match").click()
        expect(page.get_by_label("Tag")).to_have_value("old")
        page.get_by_role("button", name="Try it").click()
        expect(page.locator("#progress")).to_contain_text("30 would be cancelled")
        shoot(page, "trial")
        assert state_of(site, ids[0]) == "scheduled"
        page.locator("summary", has_text="Cancel these 30").click()
        page.get_by_label("I mean all of them.").check()
        page.get_by_role("button", name="Do it").click()
        expect(page.locator("#progress")).to_contain_text("30 cancelled")
        assert {state_of(site, it) for it in ids} == {"cancelled"}
        assert state_of(site, kept) == "scheduled"
        assert wrong == []


def test_some_are_ticked_and_cancelled(browser: Browser, site: ConsoleSite) -> None:
    ids = [schedule(site, "flow-ticked") for _ in range(3)]
    with visiting(browser, site) as (page, _):
        go(page, "/console/events?topic=flow-ticked")
        cancel = page.get_by_role("button", name="Cancel")
        expect(cancel).to_be_disabled()
        page.get_by_label(f"Choose {ids[0]}").check()
        page.get_by_label(f"Choose {ids[2]}").check()
        expect(page.locator("[data-ticked]")).to_have_text("2 chosen")
        cancel.click()
        expect(page.locator(".said")).to_contain_text("2 events cancelled")
        assert "topic=flow-ticked" in page.url
        assert [state_of(site, it) for it in ids] == [
            *("cancelled", "scheduled"),
            "cancelled",
        ]


def test_a_topic_is_made_paused_and_changed(
    browser: Browser, site: ConsoleSite
) -> None:
    with visiting(browser, site) as (page, wrong):
        go(page, "/console/topics:new")
        page.get_by_label("Name").fill("flow-topic")
        page.get_by_label("Quota").fill("100")
        page.get_by_role("button", name="Make the topic").click()
        expect(page.locator("h1")).to_have_text("flow-topic")
        page.get_by_role("button", name="Pause release").click()
        expect(page.locator(".said")).to_contain_text("Paused")
        held = schedule(site, "flow-topic", delay_ms=1)
        site.until(
            "/v1/topics/flow-topic", lambda it: it["release"]["state"] == "paused"
        )
        expect(page.locator(".tile", has_text="Release")).to_contain_text("paused")
        expect(page.locator(".tile", has_text="Due already")).to_contain_text("1")
        page.get_by_role("button", name="Resume release").click()
        site.until(f"/v1/events/{held}", lambda it: it["state"] == "delivered")
        page.get_by_label("Release rate").fill("50")
        page.get_by_role("button", name="Save").click()
        expect(page.locator(".said")).to_contain_text("Changed")
        settings = site.get("/v1/topics/flow-topic")
        assert (settings["release_rate_per_s"], settings["max_pending"]) == (50, 100)
        assert wrong == []


def test_somebody_elses_change_in_between_is_told(
    browser: Browser, site: ConsoleSite
) -> None:
    site.call("PUT", "/v1/topics/flow-stale", {"description": "first"})
    with visiting(browser, site) as (page, _):
        go(page, "/console/topics/flow-stale")
        site.call("PATCH", "/v1/topics/flow-stale", {"description": "second"})
        page.get_by_label("Description").fill("third")
        page.get_by_role("button", name="Save").click()
        expect(page.get_by_role("alert")).to_contain_text("Changed since")
        assert site.get("/v1/topics/flow-stale")["description"] == "second"


def test_a_transaction_in_doubt_is_forced_with_a_reason(
    browser: Browser, site: ConsoleSite
) -> None:
    begun = site.post(
        "/v1/transactions",
        {
            "producer_group": "flow-shop",
            "reference": "order 4711",
            "messages": [{"topic": "flow-created", "data": 1}],
            "check_after_ms": 100,
            "check_interval_ms": 100,
            "check_max": 1,
        },
    )
    path = f"/v1/transactions/{begun['id']}"
    with visiting(browser, site) as (page, wrong):
        go(page, "/console/transactions?producer_group=flow-shop")
        row = page.locator("#results tbody tr")
        expect(row.locator(".badge")).to_have_text("parked")  # it comes by itself
        shoot(page, "inbox")
        row.get_by_role("link", name="order 4711").click()
        expect(page.locator("#facts .badge")).to_have_text("parked")
        page.get_by_label("commit: its messages").check()
        page.get_by_label("I have looked").check()
        reason = page.get_by_label("Reason").first
        page.get_by_role("button", name="Force the outcome").click()
        assert reason.evaluate("it => it.matches(':invalid')")  # nothing was sent
        assert site.get(path)["state"] == "parked"
        reason.fill("The shop's database has the order.")
        page.get_by_role("button", name="Force the outcome").click()
        expect(page.locator("#facts .badge")).to_have_text("committed")
        found = site.get(path)
        assert found["source"] == "operator"
        assert found["reason"] == "The shop's database has the order."
        assert wrong == []


def test_a_parked_transaction_is_asked_about_again(
    browser: Browser, site: ConsoleSite
) -> None:
    policy = {"check_after_ms": 100, "check_interval_ms": 100, "check_max": 1}
    messages = [{"topic": "flow-created", "data": 1}]
    begun = site.post(
        "/v1/transactions",
        {"producer_group": "flow-again", "messages": messages, **policy},
    )
    path = f"/v1/transactions/{begun['id']}"
    site.until(path, lambda it: it["state"] == "parked")
    with visiting(browser, site) as (page, _):
        go(page, f"/console/transactions/{begun['id']}")
        page.get_by_label("Reason").last.fill("The shop is up again.")
        page.get_by_role("button", name="Resume check-backs").click()
        expect(page.locator(".said")).to_contain_text("Resumed")
        said = [it["what"] for it in site.get(path)["timeline"]]
        assert "resumed" in said


def test_a_dead_letter_is_redriven(browser: Browser, site: ConsoleSite) -> None:
    site.call("PUT", "/v1/topics/flow-dead", {})
    event_id = schedule(site, "flow-dead", delay_ms=300)
    site.call("PATCH", "/v1/topics/flow-dead", {"accepting": False})
    site.until(f"/v1/events/{event_id}", lambda it: it["state"] == "dead")
    with visiting(browser, site) as (page, wrong):
        go(page, "/console/dead-letters?topic=flow-dead")
        row = page.locator("#results tbody tr")
        expect(row).to_contain_text("topic_closed")
        site.call("PATCH", "/v1/topics/flow-dead", {"accepting": True})
        shoot(page, "dead-letters")
        row.locator("a.id").click()
        page.get_by_role("button", name="Redrive").click()
        expect(page.locator("#facts .badge")).to_have_text("delivered")
        assert state_of(site, event_id) == "delivered"
        assert wrong == []


def test_dead_letters_are_redriven_together(
    browser: Browser, site: ConsoleSite
) -> None:
    site.call("PUT", "/v1/topics/flow-deads", {})
    ids = [schedule(site, "flow-deads", delay_ms=300) for _ in range(3)]
    site.call("PATCH", "/v1/topics/flow-deads", {"accepting": False})
    for event_id in ids:
        site.until(f"/v1/events/{event_id}", lambda it: it["state"] == "dead")
    site.call("PATCH", "/v1/topics/flow-deads", {"accepting": True})
    with visiting(browser, site) as (page, wrong):
        go(page, "/console/dead-letters?topic=flow-deads")
        page.get_by_label(f"Choose {ids[0]}").check()
        page.get_by_role("button", name="Redrive", exact=True).click()
        expect(page.locator("#progress")).to_contain_text("1 redriven")
        site.until(f"/v1/events/{ids[0]}", lambda it: it["state"] == "delivered")
        assert state_of(site, ids[1]) == "dead"
        go(page, "/console/dead-letters?topic=flow-deads")
        page.locator("summary", has_text="All of them").click()
        page.get_by_label("I mean all").check()
        page.get_by_role("button", name="Redrive all").click()
        expect(page.locator("#progress")).to_contain_text("2 redriven")
        for event_id in ids:
            site.until(f"/v1/events/{event_id}", lambda it: it["state"] == "delivered")
        assert wrong == []


def test_an_endpoint_is_made_tried_and_watched(
    browser: Browser, site: ConsoleSite
) -> None:
    site.receiver.answer = lambda _: web.Response(status=500, text=EVIL)
    with visiting(browser, site) as (page, wrong):
        go(page, "/console/endpoints:new")
        page.get_by_label("Name").fill("flow-crm")
        page.get_by_label("URL").fill(site.receiver.url)
        page.get_by_label("Topics").fill("flow-hooks\nflow-pay-*")
        page.get_by_label("Attempts").fill("1")
        page.get_by_role("button", name="Make the endpoint").click()
        secret = page.locator("code.secret").inner_text()
        assert secret.startswith("whsec_")
        page.get_by_role("link", name="Go on to the endpoint").click()
        page.get_by_role("button", name="Send a test").click()
        expect(page.locator(".said.bad")).to_contain_text("The test was not delivered")
        expect(page.locator(".said.bad pre").first).to_have_text(EVIL)
        shoot(page, "endpoint-test")
        go(page, "/console/endpoints/flow-crm")
        site.post("/v1/topics/flow-hooks/events", {"data": EVIL, "key": EVIL})
        row = page.locator("#results tbody tr", has_text="dead")
        expect(row).to_have_count(1)  # it comes by itself
        row.locator("summary").click()
        expect(row.locator("pre")).to_have_text(EVIL)
        shoot(page, "endpoint")
        go(page, "/console/dead-letters?source=endpoint&endpoint=flow-crm")
        expect(page.locator("#results tbody tr")).to_have_count(1)
        site.receiver.answer = lambda _: web.Response(status=204)
        page.get_by_label("Choose all on this page").check()
        page.get_by_role("button", name="Redrive", exact=True).click()
        expect(page.locator("#progress")).to_contain_text("1 redriven")
        go(page, "/console/endpoints/flow-crm")
        row = page.locator("#results tbody tr", has_text="delivered")
        expect(row).to_have_count(1)
        page.get_by_label("Description").fill("The CRM")
        page.get_by_role("button", name="Save").click()
        expect(page.locator(".said")).to_contain_text("Changed")
        page.get_by_role("button", name="Pause").click()
        expect(page.locator(".said")).to_contain_text("Paused")
        assert page.locator("img").count() == 0
        assert secret not in page.content()
        found = site.get("/v1/endpoints/flow-crm")
        assert found["topics"] == ["flow-hooks", "flow-pay-*"]
        assert (found["state"], found["description"]) == ("paused", "The CRM")
        assert wrong == []


def test_a_schedule_is_made_changed_and_ended(
    browser: Browser, site: ConsoleSite
) -> None:
    with visiting(browser, site) as (page, wrong):
        go(page, "/console/schedules:new")
        page.get_by_label("Topic").fill("flow-reports")
        page.get_by_label("Cron expression").nth(1).fill("30 2 * * MON-FRI")
        page.get_by_label("Time zone").fill("Europe/Berlin")
        page.get_by_label("Description").fill("Reports")
        page.get_by_role("button", name="Make the schedule").click()
        expect(page.locator("h1")).to_have_text("Reports")
        schedule_id = page.url.rpartition("/")[2]
        expect(page.locator("section[aria-labelledby=next] tbody tr")).to_have_count(10)
        assert site.get(f"/v1/schedules/{schedule_id}")["time_zone"] == "Europe/Berlin"
        page.get_by_role("button", name="Pause").click()
        expect(page.locator("#facts .badge")).to_have_text("paused")
        page.get_by_role("link", name="Change").click()
        page.get_by_label("Interval").check()
        page.get_by_label("Every").fill("15m")
        page.get_by_role("button", name="Save").click()
        expect(page.locator("#facts code")).to_have_text("every 15m")
        page.locator("summary", has_text="End it").click()
        page.get_by_role("button", name="End it for good").click()
        expect(page.locator("#facts .badge")).to_have_text("ended")
        assert wrong == []


def test_a_group_is_moved_to_the_beginning(browser: Browser, site: ConsoleSite) -> None:
    for number in range(3):
        site.post("/v1/topics/flow-lag/events", {"data": number, "key": "k"})
    popped = site.post("/v1/groups/flow-group:pop", {"topic": "flow-lag", "max": 10})
    receipts = [it["receipt"] for it in popped["messages"]]
    site.post("/v1/groups/flow-group:ack", {"receipts": receipts})
    lag = "/v1/groups/flow-group/lag?topic=flow-lag"
    site.until(lag, lambda it: it["lag"] == 0)
    with visiting(browser, site) as (page, _):
        go(page, "/console/groups/flow-group")
        page.get_by_label("Topic", exact=True).fill("flow-lag")
        page.get_by_role("button", name="Show").click()
        page.locator("summary", has_text="Move it").click()
        page.get_by_label("at the beginning").check()
        page.get_by_label("I mean it").check()
        page.get_by_role("button", name="Move it").click()
        expect(page.locator(".said")).to_contain_text("Moved in 1 of 4 queues")
        assert site.get(lag)["lag"] == 3


def test_a_group_is_made_ordered(browser: Browser, site: ConsoleSite) -> None:
    for number in range(2):
        site.post("/v1/topics/flow-order/events", {"data": number, "key": "k"})
    site.call("PUT", "/v1/groups/flow-ordered", {"max_attempts": 7})
    with visiting(browser, site) as (page, wrong):
        go(page, "/console/groups/flow-ordered")
        page.get_by_label("In order").check()
        page.get_by_role("button", name="Save").click()
        expect(page.locator(".said")).to_contain_text("Changed.")
        group = site.get("/v1/groups/flow-ordered")
        assert (group["ordered"], group["max_attempts"]) == (True, 7)
        site.post("/v1/groups/flow-ordered:pop", {"topic": "flow-order", "max": 10})
        go(page, "/console/groups/flow-ordered?topic=flow-order")
        row = page.locator("tr", has_text="held back")
        expect(row.locator("td").last).to_have_text("1")
        go(page, "/console/groups")
        row = page.locator("tr", has_text="flow-ordered")
        expect(row.locator("td").first).to_have_text("yes")
        assert wrong == []


def test_what_users_have_named_is_shown_as_it_is(
    browser: Browser, site: ConsoleSite
) -> None:
    event_id = schedule(
        site,
        "flow-evil",
        key=EVIL,
        tag=EVIL[:60],
        properties={EVIL: EVIL},
        data={EVIL: EVIL},
    )
    site.post(
        "/v1/transactions",
        {
            "producer_group": "flow-evil",
            "reference": EVIL,
            "messages": [{"topic": "flow-evil", "data": 1, "key": EVIL}],
        },
    )
    site.call("PATCH", "/v1/topics/flow-evil", {"description": EVIL})
    plan = {"interval": "PT1H", "description": EVIL}
    site.post("/v1/schedules", {"topic": "flow-evil", "data": EVIL, **plan})
    with visiting(browser, site) as (page, wrong):
        for path in (
            "/console/events?topic=flow-evil",
            f"/console/events/{event_id}",
            f"/console/events?key={quote(EVIL)}&topic=flow-evil",
            "/console/topics",
            "/console/topics/flow-evil",
            "/console/transactions?producer_group=flow-evil",
            "/console/schedules",
        ):
            go(page, path)
            assert page.locator("img").count() == 0, path
            assert EVIL[:40] in page.locator("body").inner_html().replace(
                "&lt;", "<"
            ).replace("&gt;", ">").replace("&#34;", '"').replace("&quot;", '"'), path
        go(page, f"/console/find?q={quote(EVIL)}")
        assert page.locator("img").count() == 0
        assert [it for it in wrong if "404" not in it] == []


def test_what_an_event_holds_is_a_file_and_never_a_page(
    browser: Browser, site: ConsoleSite
) -> None:
    event_id = site.post(
        "/v1/topics/flow-html/events",
        {"data_base64": "PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==", "delay_ms": HOUR_MS},
    )["id"]
    with visiting(browser, site) as (page, wrong):
        go(page, f"/console/events/{event_id}")
        expect(page.locator("pre.payload")).to_have_text("<script>alert(1)</script>")
        with page.expect_download() as download:
            page.get_by_role("link", name="Download it").click()
        assert download.value.suggested_filename == f"{event_id}.bin"
        assert wrong == []


def test_the_field_on_top_finds_ids_names_and_keys(
    browser: Browser, site: ConsoleSite
) -> None:
    event_id = schedule(site, "flow-find", key="find-me")
    begun = site.post(
        "/v1/transactions",
        {"producer_group": "g", "messages": [{"topic": "flow-find", "data": 1}]},
    )
    with visiting(browser, site) as (page, _):
        for text, where in (
            (event_id, f"/console/events/{event_id}"),
            (begun["id"], f"/console/transactions/{begun['id']}"),
            ("flow-find", "/console/topics/flow-find"),
            ("find-me", "/console/events?key=find-me"),
        ):
            go(page, "/console")
            page.keyboard.press("Control+k")
            page.keyboard.type(text)
            page.keyboard.press("Enter")
            page.wait_for_url(f"**{where}")


def test_all_of_a_flow_by_the_keyboard(browser: Browser, site: ConsoleSite) -> None:
    event_id = schedule(site, "flow-keys", key="by-keyboard")
    with visiting(browser, site) as (page, wrong):
        go(page, "/console/events?topic=flow-keys")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        page.keyboard.press("Enter")
        reach(page, lambda: "by-keyboard" in (row_text(page) or ""), "a.id")
        page.keyboard.press("Enter")
        page.wait_for_url(f"**/events/{event_id}")
        reach(page, lambda: "Cancel…" in focused_text(page), "summary")
        page.keyboard.press("Enter")
        page.keyboard.press("Tab")
        assert "Cancel the event" in focused_text(page)
        page.keyboard.press("Enter")
        expect(page.locator("#facts .badge")).to_have_text("cancelled")
        assert wrong == []


def focused_text(page: Page) -> str:
    text: str = page.evaluate("document.activeElement.textContent")
    return text


def row_text(page: Page) -> str | None:
    text: str | None = page.evaluate(
        "document.activeElement.closest('tr') && document.activeElement.closest('tr')"
        ".textContent"
    )
    return text


def reach(page: Page, is_there: Any, selector: str) -> None:
    """Press Tab until the focus is on what is wanted, and can be seen."""
    for _ in range(80):
        page.keyboard.press("Tab")
        fits = page.evaluate(f"document.activeElement.matches('{selector}')")
        if fits and is_there():
            outline = page.evaluate(
                "getComputedStyle(document.activeElement).outlineStyle"
            )
            assert outline == "solid"
            return
    raise AssertionError("the keyboard does not get there")


def test_the_heat_map_is_in_the_readers_zone_and_walked_by_arrows(
    browser: Browser, site: ConsoleSite
) -> None:
    for hours in (1, 2, 3, 27):
        schedule(site, "flow-heat", delay_ms=hours * HOUR_MS)
    with visiting(browser, site) as (page, wrong):
        go(page, "/console")
        expect(page.locator("#coming")).to_contain_text("Europe/Berlin")
        cells = page.locator(".heat td a")
        assert page.locator(".heat td a[tabindex='0']").count() == 1
        cells.first.focus()
        page.keyboard.press("ArrowRight")
        assert page.evaluate("document.activeElement.closest('.heat') !== null")
        shoot(page, "overview")
        cells.last.click()
        page.wait_for_url("**/console/events?due_after=**")
        assert page.locator("#results tbody tr").count() >= 1
        assert wrong == []


def test_pages_stay_live_and_give_their_stream_back(
    browser: Browser, site: ConsoleSite
) -> None:
    with visiting(browser, site) as (page, wrong):
        event_id = schedule(site, "flow-live", delay_ms=1500)
        go(page, f"/console/events/{event_id}")
        expect(page.locator("[data-live-dot]")).to_have_text("live")
        badge = page.locator("#facts .badge")
        expect(badge).to_have_text("delivered")  # nobody has reloaded the page
        assert page.locator(".timeline li").count() == 2
        go(page, "/console")
        expect(page.locator("[data-live-dot]")).to_have_text("live")
        assert wrong == []


PAGES = (
    "/console",
    "/console/events",
    "/console/events?state=delivered",
    "/console/events:new",
    "/console/events:bulk",
    "/console/topics",
    "/console/topics:new",
    "/console/topics/axe-topic",
    "/console/transactions",
    "/console/schedules",
    "/console/schedules:new",
    "/console/groups",
    "/console/groups/axe-group?topic=axe-topic",
    "/console/producer-groups",
    "/console/producer-groups:new",
    "/console/producer-groups/axe-shop",
    "/console/endpoints",
    "/console/endpoints:new",
    "/console/dead-letters",
    "/console/operations",
    "/console/audits",
    "/console/keys",
    "/console/keys:new",
    "/console/namespaces",
    "/console/limits",
    "/console/limits/every-key",
    "/console/trail",
    "/console/me",
    "/console/topics/no-such-topic",
)
DARK = (
    *(
        "/console",
        "/console/events",
        "/console/events:new",
        "/console/topics/axe-topic",
    ),
    *("/console/transactions", "/console/trail", "/console/topics/no-such-topic"),
)


def test_every_page_can_be_used_by_all(browser: Browser, site: ConsoleSite) -> None:
    """In light, and the colours in dark; in each width."""
    event_id = schedule(site, "axe-topic", key="k", tag="t", properties={"a": "b"})
    site.post("/v1/groups/axe-group:pop", {"topic": "axe-topic"})
    site.call("PUT", "/v1/producer-groups/axe-shop", {"description": "The shop"})
    made = site.post(
        "/v1/schedules", {"topic": "axe-topic", "data": 1, "interval": "PT1H"}
    )
    begun = site.post(
        "/v1/transactions",
        {"producer_group": "axe-shop", "messages": [{"topic": "axe-topic", "data": 1}]},
    )
    more = (
        f"/console/events/{event_id}",
        f"/console/schedules/{made['id']}",
        f"/console/schedules/{made['id']}:change",
        f"/console/transactions/{begun['id']}",
        "/console/endpoints/axe-hook",
    )
    hook = {"url": "https://crm.example/", "topics": ["axe-topic"]}
    site.call("PUT", "/v1/endpoints/axe-hook", hook)
    site.call("PUT", "/v1/limits/subjects/every-key", {"requests_per_s": 0.5})
    rate = {"requests_per_s": 5_000, "bytes_per_s": 1_000_000_000}
    site.call("PUT", "/v1/limits/subjects/every-namespace", rate)
    with visiting(browser, site) as (page, _):
        for path in (*PAGES, *more):
            page.emulate_media(color_scheme="light")
            page.set_viewport_size({"width": 1280, "height": 900})
            go(page, path)
            page.evaluate(axe_source())
            assert page.evaluate(AXE) == [], path
            if path in DARK or path in more:
                page.emulate_media(color_scheme="dark")
                assert page.evaluate(AXE_COLOURS) == [], f"{path} in dark"
            for width in (360, 1600):
                page.set_viewport_size({"width": width, "height": 740})
                assert page.evaluate(WIDTH) <= width, path
