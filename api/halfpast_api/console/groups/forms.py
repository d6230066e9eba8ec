"""Forms about consumer groups: settings, and where to go on reading."""

from urllib.parse import urlencode

from halfpast_api.console.form import Form
from halfpast_api.console.groups.reading import Lag
from halfpast_api.console.moment import span_ms_of
from halfpast_api.console.page_names import path_of
from halfpast_api.console.said import Said
from halfpast_api.console.visit import Redirect, Visit
from halfpast_api.console.wording import number
from halfpast_api.problems import Refusal

_SPANS = {
    "backoff_initial": "backoff_initial_ms",
    "backoff_max": "backoff_max_ms",
    "invisible": "invisible_ms",
}


async def change_group(visit: Visit, form: Form) -> Redirect:
    """POST /console/groups/{group}"""
    body: dict[str, object] = {"ordered": form.ticked("ordered")}
    if (attempts := form.number("max_attempts")) is not None:
        body["max_attempts"] = attempts
    for name, field in _SPANS.items():
        if text := form.text(name):
            body[field] = span_ms_of(text)
    name = visit.parameter
    await visit.send("PUT", "groups", name, body=body, version=form.text("version"))
    return Redirect(path_of("groups", name), Said("Changed."))


async def reset_offsets(visit: Visit, form: Form) -> Redirect:
    """POST /console/groups/{group}:offsets"""
    name, topic = visit.parameter, form.text("topic")
    if not topic:
        raise Refusal("missing_field", "say of which topic")
    if not form.ticked("sure"):
        raise Refusal(
            "invalid_request",
            "tick that you mean it: consumers get messages again, or never get some",
        )
    lag = await visit.get(Lag, "groups", name, "lag", topic=topic)
    to = form.text("to")
    offsets: dict[str, int] = {}
    for queue in lag.queues:
        if to == "begin":
            offset: int | None = queue.min_offset
        elif to == "end":
            offset = queue.max_offset
        else:
            offset = form.number(f"queue_{queue.queue}")
        if offset is not None and offset != queue.offset:
            offsets[str(queue.queue)] = offset
    if not offsets:
        raise Refusal("invalid_request", "it stands there already; nothing was changed")
    body = {"topic": topic, "offsets": offsets}
    await visit.send("PUT", "groups", name, "offsets", body=body)
    text = f"Moved in {number(len(offsets))} of {number(len(lag.queues))} queues."
    back = f"{path_of('groups', name)}?{urlencode({'topic': topic})}"
    return Redirect(back, Said(text, "warn"))
