"""Pages of transactions: the in-doubt inbox, lists by state, one with all about it."""

from typing import Final

from halfpast_api.console.pager import LIMIT, TOKEN, pager_of
from halfpast_api.console.time_line import time_line
from halfpast_api.console.transactions.reading import Transaction, TransactionPage
from halfpast_api.console.visit import View, Visit

PATH: Final = "/console/transactions"
STATES: Final = ("in_doubt", "parked", "prepared", "committed", "rolled_back")
_LIVE_MS: Final = 2_000


async def show_transactions(visit: Visit) -> View:
    """GET /console/transactions"""
    query = visit.query("state", "producer_group", TOKEN)
    state = query.choice("state", "in_doubt", STATES)
    group = query.text("producer_group")
    page = await visit.get(
        TransactionPage,
        "transactions",
        state=state,
        producer_group=group,
        limit=LIMIT,
        page_token=query.text(TOKEN),
    )
    values = {
        "transactions": page.transactions,
        "pager": pager_of(PATH, query, page.next_page_token),
        "state": state,
        "states": STATES,
        "group": group or "",
        "is_inbox": state in STATES[:3],
    }
    return View("transactions/list.html", values, live_ms=_LIVE_MS)


async def show_transaction(visit: Visit) -> View:
    """GET /console/transactions/{id}"""
    found = await visit.get(Transaction, "transactions", visit.parameter)
    more = {"checked": found.last_answer} if found.last_answer else {}
    if found.decided_at:
        by = found.by or words_of_source(found.source)
        more[found.state] = ", ".join(it for it in (by, found.reason) if it)
    values = {
        "transaction": found,
        "timeline": time_line(found.timeline, more),
        "typed": visit.typed(verb="force"),
    }
    live_ms = _LIVE_MS if found.is_open else 0
    return View("transactions/one.html", values, live_ms=live_ms)


def words_of_source(source: str) -> str:
    """Who gave an outcome."""
    known = {
        "producer": "by the producer",
        "check": "by a check-back",
        "operator": "by an operator",
    }
    return known.get(source, source)
