"""Pages of consumer groups: all of them, one with its settings and its lag."""

from typing import Final

from halfpast_api.console.events.pages import offered_topics
from halfpast_api.console.groups.reading import Group, GroupPage, Lag
from halfpast_api.console.moment import span_text
from halfpast_api.console.pager import LIMIT, TOKEN, pager_of
from halfpast_api.console.visit import View, Visit
from halfpast_api.problems import Refusal

PATH: Final = "/console/groups"
_LIVE_MS: Final = 2_000


async def show_groups(visit: Visit) -> View:
    """GET /console/groups"""
    query = visit.query(TOKEN)
    page = await visit.get(
        GroupPage, "groups", limit=LIMIT, page_token=query.text(TOKEN)
    )
    pager = pager_of(PATH, query, page.next_page_token)
    return View("groups/list.html", {"groups": page.groups, "pager": pager})


async def show_group(visit: Visit) -> View:
    """GET /console/groups/{group}"""
    name = visit.parameter
    topic = (
        visit.form.text("topic") if visit.form else visit.query("topic").text("topic")
    )
    group = await visit.get(Group, "groups", name)
    lag, refused = None, ""
    if topic:
        try:
            lag = await visit.get(Lag, "groups", name, "lag", topic=topic)
        except Refusal as refusal:
            refused = refusal.detail
        except Exception as error:
            if getattr(error, "code", "") not in ("unknown_topic", "unknown_group"):
                raise
            refused = str(error)
    values = {
        "group": group,
        "topic": topic or "",
        "topics": await offered_topics(visit),
        "lag": lag,
        "refused": refused,
        "settings": visit.typed(_field_values(group)),
    }
    return View("groups/one.html", values, live_ms=_LIVE_MS if lag else 0)


def _field_values(group: Group) -> dict[str, object]:
    return {
        "max_attempts": group.max_attempts,
        "backoff_initial": span_text(group.backoff_initial_ms),
        "backoff_max": span_text(group.backoff_max_ms),
        "invisible": span_text(group.invisible_ms),
        "ordered": group.ordered,
        "version": group.version,
    }
