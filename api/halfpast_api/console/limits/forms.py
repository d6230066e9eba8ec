"""Forms about limits."""

from typing import Final

from halfpast_api.console.form import Form
from halfpast_api.console.limits.pages import PATH
from halfpast_api.console.moment import span_ms_of
from halfpast_api.console.page_names import path_of
from halfpast_api.console.said import Said
from halfpast_api.console.visit import Redirect, Visit
from halfpast_api.problems import Refusal

_RATES: Final = ("requests_per_s", "bytes_per_s")
_COUNTS: Final = ("request_burst", "byte_burst", "max_pending")


async def create_limits(visit: Visit, form: Form) -> Redirect:
    """POST /console/limits"""
    subject = form.text("subject")
    if not subject:
        raise Refusal("missing_field", "say for whom, such as key:k3x9q2mv")
    await visit.create("limits", "subjects", subject, body=_limits(form))
    return Redirect(PATH, Said(f"{subject} is limited, within a second."))


async def change_limits(visit: Visit, form: Form) -> Redirect:
    """POST /console/limits/{subject}"""
    subject, version = visit.parameter, form.text("version")
    await visit.send(
        "PUT", "limits", "subjects", subject, body=_limits(form), version=version
    )
    return Redirect(path_of("limits", subject), Said("Changed, within a second."))


async def clear_limits(visit: Visit, form: Form) -> Redirect:
    """POST /console/limits/{subject}:clear"""
    subject, version = visit.parameter, form.text("version")
    await visit.send("DELETE", "limits", "subjects", subject, version=version)
    return Redirect(PATH, Said(f"{subject} has no limits of its own any more.", "warn"))


def _limits(form: Form) -> dict[str, object]:
    """What is left empty is as for all of the kind."""
    found: dict[str, object] = {}
    for name in _RATES:
        if text := form.text(name).replace(",", ""):
            found[name] = _rate(name, text)
    for name in _COUNTS:
        if (count := form.number(name)) is not None:
            found[name] = count
    if span := form.text("max_delay"):
        found["max_delay_ms"] = span_ms_of(span)
    return found


def _rate(name: str, text: str) -> float:
    try:
        value = float(text)
        if 0 <= value < 1e15:
            return value
    except ValueError:
        pass
    raise Refusal(
        "invalid_request",
        f"{name.replace('_', ' ')} must be a number, and is {text[:40]!r}",
    )
