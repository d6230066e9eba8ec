"""Dead letters: what was given up, by whom, with the reason."""

from typing import Final

from halfpast_api.console.dead_letters.reading import Count, Counts, DeadLetterPage
from halfpast_api.console.pager import LIMIT, TOKEN, pager_of
from halfpast_api.console.visit import View, Visit
from halfpast_api.problems import Refusal

PATH: Final = "/console/dead-letters"
SOURCES: Final = ("delay", "group", "endpoint")
_COUNTS: Final = 200


async def show_dead_letters(visit: Visit) -> View:
    """GET /console/dead-letters"""
    query = visit.query("source", "group", "endpoint", "topic", TOKEN)
    source = query.choice("source", "delay", SOURCES)
    whose = query.text(source) if source != "delay" else None
    topic = query.text("topic")
    if source != "delay" and whose is None:
        raise Refusal("invalid_parameter", f"say of which {source}")
    page = await visit.get(
        DeadLetterPage,
        "dead-letters",
        source=source,
        group=whose if source == "group" else None,
        endpoint=whose if source == "endpoint" else None,
        topic=topic,
        limit=LIMIT,
        page_token=query.text(TOKEN),
    )
    values = {
        "letters": page.dead_letters,
        "pager": pager_of(PATH, query, page.next_page_token),
        "source": source,
        "whose": whose or "",
        "topic": topic or "",
        "counts": await _counts(visit),
    }
    return View("dead_letters/list.html", values)


async def _counts(visit: Visit) -> list[Count]:
    """Which consumer groups and endpoints have any."""
    found = await visit.get(Counts, "dead-letters", "counts", limit=_COUNTS)
    return [it for it in found.counts if it.source != "delay" and it.dead_letters]
