"""Pages of limits: one's own with what is used of them, and who has any."""

from typing import Final

from halfpast_api.console.limits.reading import Limits, LimitsPage, Own
from halfpast_api.console.moment import span_text
from halfpast_api.console.pager import LIMIT, TOKEN, pager_of
from halfpast_api.console.visit import View, Visit

PATH: Final = "/console/limits"
EVERY: Final = ("every-key", "every-user", "every-namespace", "default-namespace")
_LIVE_MS: Final = 2_000


async def show_limits(visit: Visit) -> View:
    """GET /console/limits

    With `subject` the form is about that one.
    """
    query = visit.query("subject", TOKEN)
    values: dict[str, object] = {
        "own": await visit.get(Own, "limits"),
        "known": visit.typed({"subject": query.text("subject")}),
        "offered": EVERY,
        "limits": [],
        "pager": pager_of(PATH, query, None),
    }
    if visit.viewer.can("admin"):
        page = await visit.get(
            LimitsPage,
            *("limits", "subjects"),
            limit=LIMIT,
            page_token=query.text(TOKEN),
        )
        values["limits"] = page.limits
        values["pager"] = pager_of(PATH, query, page.next_page_token)
    return View("limits/list.html", values, live_ms=_LIVE_MS)


async def show_limits_of(visit: Visit) -> View:
    """GET /console/limits/{subject}"""
    found = await visit.get(Limits, "limits", "subjects", visit.parameter)
    values = {"limits": found, "known": visit.typed(_fields(found))}
    return View("limits/one.html", values)


def _fields(limits: Limits) -> dict[str, object]:
    delay_ms = limits.max_delay_ms
    delay = span_text(delay_ms) if delay_ms else delay_ms
    return {
        "requests_per_s": _plain(limits.requests_per_s),
        "request_burst": limits.request_burst,
        "bytes_per_s": _plain(limits.bytes_per_s),
        "byte_burst": limits.byte_burst,
        "max_pending": limits.max_pending,
        "max_delay": delay,
        "version": limits.version,
    }


def _plain(rate: float | None) -> str:
    return "" if rate is None else f"{rate:.15g}"
