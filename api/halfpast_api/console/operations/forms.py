"""Forms that change many events at once, first as a trial."""

import msgspec

from halfpast_api.console.form import Form
from halfpast_api.console.moment import instant_of, span_ms_of
from halfpast_api.console.operations.pages import FILTER
from halfpast_api.console.operations.reading import Operation
from halfpast_api.console.page_names import path_of
from halfpast_api.console.said import Said
from halfpast_api.console.visit import Redirect, Visit
from halfpast_api.problems import Refusal

_TIMES = ("due_after", "due_before")


async def begin_bulk(visit: Visit, form: Form) -> Redirect:
    """POST /console/events:bulk

    It only counts, unless it is said that it is meant.
    """
    action = form.text("action")
    if action not in ("cancel", "reschedule"):
        raise Refusal("invalid_request", "choose what is to be done with them")
    is_meant = form.text("how") == "do"
    if is_meant and not form.ticked("sure"):
        raise Refusal(
            "invalid_request",
            "tick that you mean all of them; or try it first, which changes nothing",
        )
    body: dict[str, object] = {**_filter(form), "dry_run": not is_meant}
    if action == "reschedule":
        body |= _new_time(form)
    answer = await visit.send(
        "POST", "events", verb=action, body=body, once=form.text("once")
    )
    begun = msgspec.json.decode(answer.content, type=Operation)
    return Redirect(path_of("operations", begun.id))


async def stop_operation(visit: Visit, form: Form) -> Redirect:
    """POST /console/operations/{id}:cancel"""
    operation_id = visit.parameter
    await visit.send("POST", "operations", operation_id, verb="cancel")
    said = Said("Stopped. What it had changed by then stays so.", "warn")
    return Redirect(path_of("operations", operation_id), said)


def _filter(form: Form) -> dict[str, object]:
    """Raises Refusal."""
    found: dict[str, object] = {}
    for name in FILTER:
        value = form.given(name)
        if value is not None:
            is_time = name in _TIMES
            found[name] = instant_of(value, form.text("zone")) if is_time else value
    if not found:
        if not form.ticked("all"):
            raise Refusal(
                "filter_required",
                "say which events are meant, by at least one field; or tick that every "
                "scheduled event is meant",
            )
        found["all"] = True
    return found


def _new_time(form: Form) -> dict[str, object]:
    """Raises Refusal."""
    if form.text("to") == "at":
        at = form.text("deliver_at")
        if not at:
            raise Refusal("invalid_time", "choose the day and time to move them to")
        return {"deliver_at": instant_of(at, form.text("zone"))}
    text = form.text("shift")
    if not text:
        raise Refusal("invalid_time", "say by how much, such as 1h or -30m")
    sign = -1 if text.startswith("-") else 1
    return {"shift_ms": sign * span_ms_of(text.lstrip("+-").strip())}
