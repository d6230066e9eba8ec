"""Pages of operations: all of them, one with how far it is, a new one to be tried."""

from typing import Final

from halfpast_api.console.events.pages import offered_topics
from halfpast_api.console.moment import span_text
from halfpast_api.console.operations.reading import Operation, OperationPage
from halfpast_api.console.pager import LIMIT, TOKEN, pager_of
from halfpast_api.console.visit import View, Visit

PATH: Final = "/console/operations"
FILTER: Final = ("topic", "key", "tag", "due_after", "due_before")
_LIVE_MS: Final = 400
_STATES: Final = ("", "running", "done", "cancelled", "failed")


async def show_operations(visit: Visit) -> View:
    """GET /console/operations"""
    query = visit.query("state", TOKEN)
    state = query.choice("state", "", _STATES)
    page = await visit.get(
        OperationPage,
        "operations",
        state=state,
        limit=LIMIT,
        page_token=query.text(TOKEN),
    )
    pager = pager_of(PATH, query, page.next_page_token)
    values = {"operations": page.operations, "pager": pager, "state": state}
    return View("operations/list.html", values)


async def show_operation(visit: Visit) -> View:
    """GET /console/operations/{id}"""
    operation = await visit.get(Operation, "operations", visit.parameter)
    is_running = operation.state == "running"
    again = {name: it for name, it in operation.wanted.items() if name in FILTER}
    if operation.shift_ms is not None:
        again["shift"] = signed_span(operation.shift_ms)
    if operation.deliver_at is not None:
        again["deliver_at"] = operation.deliver_at
    values = {"operation": operation, "again": again, "shift": again.get("shift", "")}
    return View("operations/one.html", values, live_ms=_LIVE_MS if is_running else 0)


async def show_bulk(visit: Visit) -> View:
    """GET /console/events:bulk"""
    known: dict[str, object] = {"action": "cancel", "shift": "1h", "to": "shift"}
    if visit.form is None:
        known |= visit.query(*FILTER, "zone").values
    values = {
        "typed": visit.typed(known, verb="bulk"),
        "topics": await offered_topics(visit),
    }
    return View("operations/new.html", values)


def signed_span(ms: int) -> str:
    """`-1h30m`"""
    return f"-{span_text(-ms)}" if ms < 0 else span_text(ms)
