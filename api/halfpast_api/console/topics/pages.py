"""Pages of topics: all of them, one with its settings and what waits, a new one."""

from typing import Final

from halfpast_api.console.due import RESOLUTIONS, STEP_MS, Due, columns
from halfpast_api.console.pager import LIMIT, TOKEN, pager_of
from halfpast_api.console.rendering import data_block
from halfpast_api.console.topics.reading import Topic, TopicPage
from halfpast_api.console.visit import View, Visit
from halfpast_api.problems import Refusal

PATH: Final = "/console/topics"
_LIVE_MS: Final = 2_000


async def show_topics(visit: Visit) -> View:
    """GET /console/topics"""
    query = visit.query(TOKEN)
    page = await visit.get(
        TopicPage, "topics", limit=LIMIT, page_token=query.text(TOKEN)
    )
    pager = pager_of(PATH, query, page.next_page_token)
    return View("topics/list.html", {"topics": page.topics, "pager": pager})


async def show_topic(visit: Visit) -> View:
    """GET /console/topics/{topic}"""
    name = visit.parameter
    query = visit.query("resolution")
    resolution = query.choice("resolution", "1m", sorted(RESOLUTIONS))
    topic = await visit.get(Topic, "topics", name)
    due: Due | None = None
    try:
        due = await visit.get(Due, "topics", name, "due", resolution=resolution)
    except (Refusal, ConnectionError, TimeoutError):
        if visit.problem is None and topic.release is not None:
            raise
    times, counts = columns(due, STEP_MS[resolution]) if due else ([], [])
    step_s = STEP_MS[resolution] / 1000
    values = {
        "topic": topic,
        "due": due,
        "resolution": resolution,
        "resolutions": RESOLUTIONS,
        "settings": visit.typed(_field_values(topic)),
        "figures": data_block({"times": times, "due": counts, "step": step_s}),
    }
    return View("topics/one.html", values, live_ms=_LIVE_MS)


async def show_new_topic(visit: Visit) -> View:
    """GET /console/topics:new"""
    defaults = Topic("", 4, 3_660 * 86_400_000, 4 * 1024 * 1024)
    name = "" if visit.form else visit.query("name").text("name") or ""
    known = visit.typed({**_field_values(defaults), "name": name})
    return View("topics/new.html", {"settings": known})


def _field_values(topic: Topic) -> dict[str, object]:
    return {
        "queues": topic.queues,
        "max_delay_days": f"{topic.max_delay_ms / 86_400_000:g}",
        "max_body_kib": f"{topic.max_body_bytes / 1024:g}",
        "flush": topic.flush,
        "description": topic.description,
        "paused": topic.paused,
        "accepting": topic.accepting,
        "release_rate_per_s": topic.release_rate_per_s,
        "max_pending": topic.max_pending,
        "version": topic.version,
    }
