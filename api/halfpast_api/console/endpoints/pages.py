"""Pages of endpoints: all of them, one with its attempts, a new one."""

from collections.abc import Sequence
from typing import Final

from halfpast_api.console.endpoints.reading import (
    AttemptPage,
    Endpoint,
    EndpointPage,
    TestResult,
)
from halfpast_api.console.moment import span_text
from halfpast_api.console.pager import LIMIT, TOKEN, pager_of
from halfpast_api.console.visit import View, Visit

PATH: Final = "/console/endpoints"
MODES: Final = (
    ("webhook", "Standard Webhooks"),
    ("cloudevents-binary", "CloudEvents, binary"),
    ("cloudevents-structured", "CloudEvents, structured"),
)
ORDERINGS: Final = (
    ("parallel", "parallel: as fast as things go"),
    ("per_key", "per key: one of a key after another"),
)
STARTS: Final = (
    ("latest", "messages from now on"),
    ("earliest", "everything that is still kept"),
)
STATES: Final = ("", "delivered", "failed", "retrying", "dead")
_LIVE_MS: Final = 2_000


async def show_endpoints(visit: Visit) -> View:
    """GET /console/endpoints"""
    query = visit.query(TOKEN)
    page = await visit.get(
        EndpointPage, "endpoints", limit=LIMIT, page_token=query.text(TOKEN)
    )
    pager = pager_of(PATH, query, page.next_page_token)
    return View("endpoints/list.html", {"endpoints": page.endpoints, "pager": pager})


async def show_endpoint(visit: Visit) -> View:
    """GET /console/endpoints/{name}"""
    return await endpoint_view(visit)


async def show_new_endpoint(visit: Visit) -> View:
    """GET /console/endpoints:new"""
    empty = Endpoint(name="", url="")
    values = {**_choices(), "typed": visit.typed(_field_values(empty))}
    return View("endpoints/new.html", values)


async def endpoint_view(
    visit: Visit, *, secrets: Sequence[str] = (), tested: TestResult | None = None
) -> View:
    """`secrets`: those to be shown, this once. `tested`: what came of a test."""
    name = visit.parameter
    path = f"{PATH}/{name}"
    query = visit.query("state", TOKEN) if visit.form is None else visit.query()
    state = query.choice("state", "", STATES)
    endpoint = await visit.get(Endpoint, "endpoints", name)
    page = await visit.get(
        AttemptPage,
        "endpoints",
        name,
        "attempts",
        state=state,
        limit=LIMIT,
        page_token=query.text(TOKEN),
    )
    values = {
        **_choices(),
        "endpoint": endpoint,
        "attempts": page.attempts,
        "pager": pager_of(path, query, page.next_page_token),
        "state": state,
        "states": STATES,
        "secrets": secrets,
        "tested": tested,
        "typed": visit.typed(_field_values(endpoint)),
    }
    return View("endpoints/one.html", values, live_ms=0 if tested else _LIVE_MS)


def _choices() -> dict[str, object]:
    return {"modes": MODES, "orderings": ORDERINGS, "starts": STARTS}


def _field_values(endpoint: Endpoint) -> dict[str, object]:
    wanted = endpoint.filter
    properties = wanted.properties.items() if wanted else ()
    return {
        "name": endpoint.name,
        "url": endpoint.url,
        "topics": "\n".join(endpoint.topics),
        "tags": " ".join(wanted.tags) if wanted else "",
        "properties": "\n".join(f"{it}: {', '.join(some)}" for it, some in properties),
        "mode": endpoint.mode,
        "ordering": endpoint.ordering,
        "rate_per_s": f"{endpoint.rate_per_s:g}",
        "concurrency": endpoint.concurrency,
        "timeout": span_text(endpoint.timeout_ms),
        "max_attempts": endpoint.retry.max_attempts,
        "initial": span_text(endpoint.retry.initial_ms),
        "longest": span_text(endpoint.retry.max_ms),
        "start": endpoint.start,
        "description": endpoint.description,
        "version": endpoint.version,
    }
