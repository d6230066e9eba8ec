"""Pages of recurring schedules: all, one with its next times, a new one, changes."""

from typing import Final
from zoneinfo import available_timezones

import uuid_utils

from halfpast_api.console.events.content import FORMS
from halfpast_api.console.events.pages import offered_topics
from halfpast_api.console.events.payload import content_of, payload_of
from halfpast_api.console.moment import local_field, span_text
from halfpast_api.console.pager import LIMIT, TOKEN, pager_of
from halfpast_api.console.schedules.reading import Next, Schedule, SchedulePage
from halfpast_api.console.visit import View, Visit

PATH: Final = "/console/schedules"
RULES: Final = (
    ("cron", "Cron expression"),
    ("interval", "Interval"),
    ("exponential", "Growing pauses"),
)
CATCH_UPS: Final = (
    ("fire_once", "once for all that were missed"),
    ("fire_all", "each that was missed"),
    ("skip", "none of them"),
)
_STATES: Final = ("", "active", "paused", "ended")
_NEXT: Final = 10
_LIVE_MS: Final = 2_000


async def show_schedules(visit: Visit) -> View:
    """GET /console/schedules"""
    query = visit.query("topic", "state", TOKEN)
    state = query.choice("state", "", _STATES)
    page = await visit.get(
        SchedulePage,
        "schedules",
        topic=query.text("topic"),
        state=state,
        limit=LIMIT,
        page_token=query.text(TOKEN),
    )
    values = {
        "schedules": page.schedules,
        "pager": pager_of(PATH, query, page.next_page_token),
        "state": state,
        "states": _STATES,
    }
    return View("schedules/list.html", values)


async def show_schedule(visit: Visit) -> View:
    """GET /console/schedules/{id}"""
    schedule = await visit.get(Schedule, "schedules", visit.parameter)
    coming = await visit.get(Next, "schedules", visit.parameter, "next", count=_NEXT)
    values = {
        "schedule": schedule,
        "coming": coming.occurrences,
        "payload": payload_of(schedule, visit.viewer.may_view_payload),
    }
    live_ms = 0 if schedule.state == "ended" else _LIVE_MS
    return View("schedules/one.html", values, live_ms=live_ms)


async def show_new_schedule(visit: Visit) -> View:
    """GET /console/schedules:new"""
    defaults: dict[str, object] = {
        "topic": "" if visit.form else visit.query("topic").text("topic"),
        "rule": "cron",
        "cron": "30 2 * * *",
        "interval": "1h",
        "first": "1s",
        "factor": "2",
        "longest": "1h",
        "time_zone": "UTC",
        "form": "json",
        "data": "{}",
        "once": str(uuid_utils.uuid7()),
    }
    values = {**await _choices(visit), "typed": visit.typed(defaults)}
    return View("schedules/new.html", {**values, "schedule": None})


async def show_schedule_change(visit: Visit) -> View:
    """GET /console/schedules/{id}:change"""
    schedule = await visit.get(Schedule, "schedules", visit.parameter)
    typed = visit.typed(_field_values(schedule), verb="change")
    values = {**await _choices(visit), "typed": typed, "schedule": schedule}
    return View("schedules/new.html", values)


async def _choices(visit: Visit) -> dict[str, object]:
    return {
        "topics": await offered_topics(visit),
        "zones": sorted(it for it in available_timezones() if "/" in it or it == "UTC"),
        "rules": RULES,
        "catch_ups": CATCH_UPS,
        "forms": FORMS,
    }


def _field_values(schedule: Schedule) -> dict[str, object]:
    grows = schedule.exponential
    content = content_of(schedule)
    shown = payload_of(schedule)
    form, data = "json", ""
    if content is not None and not shown.is_cut:
        form = {"json": "json", "text": "text"}.get(shown.kind, "base64")
        data = shown.text
    properties = "\n".join(f"{name}: {it}" for name, it in schedule.properties.items())
    return {
        "rule": schedule.kind,
        "cron": schedule.cron,
        "interval": span_text(schedule.interval_ms) if schedule.interval_ms else "",
        "first": span_text(grows.first_ms) if grows else "",
        "factor": f"{grows.factor:g}" if grows else "",
        "longest": span_text(grows.longest_ms) if grows else "",
        "time_zone": schedule.time_zone,
        "start_at": local_field(schedule.start_at, schedule.time_zone),
        "until": local_field(schedule.until, schedule.time_zone),
        "times": schedule.times or "",
        "jitter": span_text(schedule.jitter_ms) if schedule.jitter_ms else "",
        "catch_up": schedule.catch_up,
        "grace": span_text(schedule.grace_ms),
        "description": schedule.description,
        "key": schedule.key or "",
        "tag": schedule.tag or "",
        "properties": properties,
        "form": form,
        "data": data,
        "version": schedule.version,
    }
