"""Pages of events: a search, one event with its time line, a new one."""

from typing import Final

import uuid_utils

from halfpast_api.answer import Answer
from halfpast_api.console.events.content import FORMS
from halfpast_api.console.events.payload import content_of, payload_of
from halfpast_api.console.events.reading import Event, EventPage
from halfpast_api.console.events.search import FIELDS, STATES, Search, read_search
from halfpast_api.console.moment import local_field
from halfpast_api.console.pager import LIMIT, TOKEN, Pager, pager_of
from halfpast_api.console.rendering import PAGE_HEADERS
from halfpast_api.console.time_line import time_line
from halfpast_api.console.topics.reading import TopicPage
from halfpast_api.console.visit import Known, View, Visit
from halfpast_api.console.wording import duration
from halfpast_api.problems import Refusal, as_refusal, problem_of
from halfpast_api.query import Query

PATH: Final = "/console/events"
_LIVE_MS: Final = 1_000
_OPEN_STATES: Final = ("scheduled", "prepared")
_TOPICS_OFFERED: Final = 200


async def show_events(visit: Visit) -> View:
    """GET /console/events"""
    query = visit.query(*FIELDS, TOKEN)
    search, problem = Search(state="scheduled"), visit.problem
    page, pager = EventPage([]), Pager(PATH, "", True)
    try:
        search = read_search(query)
        page = await visit.get(
            EventPage,
            "events",
            **search.wanted,
            state=search.state,
            limit=LIMIT,
            page_token=query.text(TOKEN),
        )
        pager = pager_of(PATH, query, page.next_page_token)
    except Exception as error:
        refusal = as_refusal(error)
        if refusal is None:
            raise
        problem = problem or problem_of(refusal)
    values = {
        "events": page.events,
        "pager": pager,
        "search": search,
        "zone": visit.zone,
        "states": STATES,
        "typed": Known(None, _typed(visit, query, search)),
        "topics": await offered_topics(visit),
        "problem": problem,
    }
    return View("events/list.html", values, problem.status if problem else 200)


def _typed(visit: Visit, query: Query, search: Search) -> dict[str, object]:
    """What the fields of the search hold; times in the reader's zone."""
    times = {
        name: local_field(getattr(search, name), visit.zone)
        for name in ("due_after", "due_before")
    }
    return {**query.values, **times}


async def show_event(visit: Visit) -> View:
    """GET /console/events/{id}"""
    event = await visit.get(Event, "events", visit.parameter)
    late = event.lateness_ms
    more = {} if late is None else {"delivered": f"{duration(late)} after it was due"}
    if event.reason:
        more |= {"failed": event.reason, "dead": event.reason}
    values = {
        "event": event,
        "payload": payload_of(event, visit.viewer.may_view_payload),
        "timeline": time_line(event.timeline, more),
        "typed": visit.typed(verb="reschedule"),
    }
    live_ms = _LIVE_MS if event.state in _OPEN_STATES else 0
    return View("events/one.html", values, live_ms=live_ms)


async def show_new_event(visit: Visit) -> View:
    """GET /console/events:new"""
    defaults: dict[str, object] = {
        "topic": "" if visit.form else visit.query("topic").text("topic"),
        "form": "json",
        "when": "delay",
        "delay": "30m",
        "data": '{"hello": "world"}',
        "once": str(uuid_utils.uuid7()),
    }
    values = {
        "typed": visit.typed(defaults),
        "topics": await offered_topics(visit),
        "forms": FORMS,
    }
    return View("events/new.html", values)


async def download_payload(visit: Visit) -> Answer:
    """GET /console/events/{id}/payload

    As a file, and never as a page: what it holds is somebody else's.
    """
    event = await visit.get(Event, "events", visit.parameter)
    content = content_of(event)
    if content is None or not visit.viewer.may_view_payload:
        raise Refusal("unknown_event", "there is no payload of this event to be seen")
    data, is_json = content
    name = f"{event.id}.{'json' if is_json else 'bin'}"
    headers = (
        *PAGE_HEADERS,
        ("Content-Disposition", f'attachment; filename="{name}"'),
    )
    return Answer(200, data, headers, "application/octet-stream")


async def offered_topics(visit: Visit) -> list[str]:
    """Names to choose from. None where they cannot be had: any may be typed as well."""
    try:
        page = await visit.get(TopicPage, "topics", limit=_TOPICS_OFFERED)
    except Exception as error:
        if as_refusal(error) is None:
            raise
        return []
    return [it.name for it in page.topics]
