"""Forms about recurring schedules."""

import msgspec

from halfpast_api.console.events.content import content_fields
from halfpast_api.console.form import Form
from halfpast_api.console.moment import instant_of, span_ms_of
from halfpast_api.console.page_names import path_of
from halfpast_api.console.said import Said
from halfpast_api.console.schedules.reading import Schedule
from halfpast_api.console.visit import Redirect, Visit
from halfpast_api.problems import Refusal

_NUMBER_MAX = 20


async def create_schedule(visit: Visit, form: Form) -> Redirect:
    """POST /console/schedules"""
    body = {
        "topic": form.text("topic"),
        "paused": form.ticked("paused"),
        **content_fields(form),
        **{name: it for name, it in _plan(form).items() if it is not None},
    }
    if not body["topic"]:
        raise Refusal("missing_field", "say to which topic")
    answer = await visit.send("POST", "schedules", body=body, once=form.text("once"))
    made = msgspec.json.decode(answer.content, type=Schedule)
    return Redirect(path_of("schedules", made.id), Said("The schedule is there."))


async def change_schedule(visit: Visit, form: Form) -> Redirect:
    """POST /console/schedules/{id}:change

    What is left empty is taken away; the message stays unless it is ticked.
    """
    body: dict[str, object] = dict(_plan(form))
    if form.ticked("with_message"):
        body |= {"key": None, "tag": None, "properties": {}, **content_fields(form)}
    schedule_id = visit.parameter
    version = form.text("version")
    await visit.send("PATCH", "schedules", schedule_id, body=body, version=version)
    return Redirect(path_of("schedules", schedule_id), Said("Changed."))


async def pause_schedule(visit: Visit, form: Form) -> Redirect:
    """POST /console/schedules/{id}:pause"""
    said = Said("Paused: nothing occurs until you resume it.", "warn")
    return await _do(visit, "pause", said)


async def resume_schedule(visit: Visit, form: Form) -> Redirect:
    """POST /console/schedules/{id}:resume"""
    return await _do(visit, "resume", Said("Resumed."))


async def delete_schedule(visit: Visit, form: Form) -> Redirect:
    """POST /console/schedules/{id}:delete"""
    schedule_id = visit.parameter
    await visit.send("DELETE", "schedules", schedule_id, version=form.text("version"))
    return Redirect(path_of("schedules", schedule_id), Said("Ended for good."))


async def _do(visit: Visit, verb: str, said: Said) -> Redirect:
    schedule_id = visit.parameter
    await visit.send("POST", "schedules", schedule_id, verb=verb)
    return Redirect(path_of("schedules", schedule_id), said)


def _plan(form: Form) -> dict[str, object]:
    """When it occurs; None for what is left empty. Raises Refusal."""
    zone = form.text("time_zone") or "UTC"
    jitter, grace = form.text("jitter"), form.text("grace")
    start, until = form.text("start_at"), form.text("until")
    found: dict[str, object] = {
        **_rule(form, zone),
        "start_at": instant_of(start, zone) if start else None,
        "until": instant_of(until, zone) if until else None,
        "times": form.number("times"),
        "jitter_ms": span_ms_of(jitter) if jitter else None,
        "description": form.text("description"),
    }
    if form.text("catch_up"):
        found["catch_up"] = form.text("catch_up")
    if grace:
        found["grace_ms"] = span_ms_of(grace)
    return found


def _rule(form: Form, zone: str) -> dict[str, object]:
    rule = form.text("rule")
    if rule == "cron":
        return {"cron": form.text("cron"), "time_zone": zone}
    if rule == "interval":
        return {"interval_ms": span_ms_of(form.text("interval"))}
    factor = form.text("factor") or "2"
    try:
        number = float(factor[:_NUMBER_MAX])
    except ValueError:
        raise Refusal(
            "invalid_schedule", f"the factor must be a number, not {factor[:40]!r}"
        ) from None
    grows: dict[str, object] = {
        "first_ms": span_ms_of(form.text("first")),
        "factor": number,
    }
    if form.text("longest"):
        grows["longest_ms"] = span_ms_of(form.text("longest"))
    return {"exponential": grows}
