"""Forms about topics: make one, change its settings, stop and go on releasing."""

from halfpast_api.console.form import Form
from halfpast_api.console.page_names import path_of
from halfpast_api.console.said import Said
from halfpast_api.console.visit import Redirect, Visit
from halfpast_api.problems import Refusal

_DAY_MS = 86_400_000
_KIB = 1024
_DIGITS_MAX = 15


async def create_topic(visit: Visit, form: Form) -> Redirect:
    """POST /console/topics"""
    name = form.text("name")
    body = {"name": name, **_settings(form)}
    await visit.send("POST", "topics", body=body)
    return Redirect(path_of("topics", name), Said(f"The topic {name} is there."))


async def change_topic(visit: Visit, form: Form) -> Redirect:
    """POST /console/topics/{topic}"""
    name = visit.parameter
    body = _settings(form)
    await visit.send("PATCH", "topics", name, body=body, version=form.text("version"))
    return Redirect(
        path_of("topics", name), Said("Changed. The new settings apply from now on.")
    )


async def pause_topic(visit: Visit, form: Form) -> Redirect:
    """POST /console/topics/{topic}:pause"""
    said = "Paused: what is scheduled waits, also what becomes due, until you resume."
    return await _release(visit, {"paused": True}, Said(said, "warn"))


async def resume_topic(visit: Visit, form: Form) -> Redirect:
    """POST /console/topics/{topic}:resume"""
    said = "Resumed: what is due is released now."
    return await _release(visit, {"paused": False}, Said(said))


async def _release(visit: Visit, body: dict[str, object], said: Said) -> Redirect:
    name = visit.parameter
    await visit.send("PATCH", "topics", name, body=body)
    return Redirect(path_of("topics", name), said)


def _settings(form: Form) -> dict[str, object]:
    """Raises Refusal."""
    found: dict[str, object] = {
        "queues": form.number("queues"),
        "max_delay_ms": _scaled(form, "max_delay_days", _DAY_MS),
        "max_body_bytes": _scaled(form, "max_body_kib", _KIB),
        "flush": form.given("flush"),
        "description": form.text("description"),
        "accepting": form.ticked("accepting"),
        "release_rate_per_s": form.number("release_rate_per_s"),
        "max_pending": form.number("max_pending"),
    }
    return {name: value for name, value in found.items() if value is not None}


def _scaled(form: Form, name: str, unit: int) -> int | None:
    text = form.text(name)
    if not text:
        return None
    whole, _, fraction = text.partition(".")
    digits = whole + fraction
    if not (digits.isascii() and digits.isdigit() and len(digits) <= _DIGITS_MAX):
        shown = name.replace("_", " ")
        raise Refusal("invalid_request", f"{shown} must be a number, not {text[:40]!r}")
    return round(float(text) * unit)
