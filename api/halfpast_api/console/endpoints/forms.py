"""Forms about endpoints."""

from typing import Final

import msgspec

from halfpast_api.console.endpoints.pages import PATH, endpoint_view
from halfpast_api.console.endpoints.reading import Endpoint, NewSecret, TestResult
from halfpast_api.console.events.content import json_data
from halfpast_api.console.form import Form
from halfpast_api.console.moment import span_ms_of
from halfpast_api.console.page_names import path_of
from halfpast_api.console.said import Said
from halfpast_api.console.visit import Redirect, View, Visit
from halfpast_api.problems import Refusal

_NUMBER_MAX: Final = 20
_SAID: Final = {
    "pause": Said("Paused: its messages wait until you resume it.", "warn"),
    "resume": Said("Resumed: what waited is delivered now."),
    "enable": Said("Enabled again: what waited is delivered now."),
}


async def create_endpoint(visit: Visit, form: Form) -> Redirect | View:
    """POST /console/endpoints

    Its secret is shown once, in the answer.
    """
    name = form.text("name")
    if not name:
        raise Refusal("missing_field", "give the endpoint a name")
    body = {**_settings(form), "start": form.text("start") or "latest"}
    answer = await visit.create("endpoints", name, body=body)
    made = msgspec.json.decode(answer.content, type=Endpoint)
    if isinstance(made.secrets, list):
        return View("endpoints/made.html", {"name": name, "secrets": made.secrets})
    return Redirect(path_of("endpoints", name), Said("The endpoint is there."))


async def change_endpoint(visit: Visit, form: Form) -> Redirect:
    """POST /console/endpoints/{name}"""
    name, version = visit.parameter, form.text("version")
    body = _settings(form)
    await visit.send("PATCH", "endpoints", name, body=body, version=version)
    return Redirect(path_of("endpoints", name), Said("Changed."))


async def pause_endpoint(visit: Visit, form: Form) -> Redirect:
    """POST /console/endpoints/{name}:pause"""
    reason = form.text("reason")
    return await _do(visit, "pause", {"reason": reason} if reason else None)


async def resume_endpoint(visit: Visit, form: Form) -> Redirect:
    """POST /console/endpoints/{name}:resume"""
    return await _do(visit, "resume")


async def enable_endpoint(visit: Visit, form: Form) -> Redirect:
    """POST /console/endpoints/{name}:enable"""
    return await _do(visit, "enable")


async def rotate_endpoint_secret(visit: Visit, form: Form) -> View | Redirect:
    """POST /console/endpoints/{name}:rotate-secret"""
    name = visit.parameter
    is_end = form.ticked("finish")
    answer = await visit.send(
        "POST",
        "endpoints",
        name,
        verb="rotate-secret",
        body={"finish": True} if is_end else None,
    )
    made = msgspec.json.decode(answer.content, type=NewSecret)
    if made.secret is None:
        said = Said("Only the new secret signs from now on.")
        return Redirect(path_of("endpoints", name), said)
    return await endpoint_view(visit, secrets=[made.secret])


async def test_endpoint(visit: Visit, form: Form) -> View:
    """POST /console/endpoints/{name}:test"""
    body: dict[str, object] = {}
    if topic := form.text("topic"):
        body["topic"] = topic
    if form.text("data"):
        body["data"] = json_data(form.get("data", ""))
    answer = await visit.send(
        "POST", "endpoints", visit.parameter, verb="test", body=body or None
    )
    result = msgspec.json.decode(answer.content, type=TestResult)
    return await endpoint_view(visit, tested=result)


async def delete_endpoint(visit: Visit, form: Form) -> Redirect:
    """POST /console/endpoints/{name}:delete"""
    name, version = visit.parameter, form.text("version")
    await visit.send("DELETE", "endpoints", name, version=version)
    return Redirect(PATH, Said(f"The endpoint {name} is gone.", "warn"))


async def _do(visit: Visit, verb: str, body: object = None) -> Redirect:
    name = visit.parameter
    await visit.send("POST", "endpoints", name, verb=verb, body=body)
    return Redirect(path_of("endpoints", name), _SAID[verb])


def _settings(form: Form) -> dict[str, object]:
    """Raises Refusal."""
    found: dict[str, object] = {
        "url": form.text("url"),
        "topics": form.text("topics").replace(",", " ").split(),
        "filter": _filter(form),
        "description": form.text("description"),
    }
    for name in ("mode", "ordering"):
        if value := form.text(name):
            found[name] = value
    if text := form.text("rate_per_s"):
        found["rate_per_s"] = _rate(text)
    if (number := form.number("concurrency")) is not None:
        found["concurrency"] = number
    if text := form.text("timeout"):
        found["timeout_ms"] = span_ms_of(text)
    retry: dict[str, int] = {}
    if (number := form.number("max_attempts")) is not None:
        retry["max_attempts"] = number
    for name, field in (("initial", "initial_ms"), ("longest", "max_ms")):
        if text := form.text(name):
            retry[field] = span_ms_of(text)
    if retry:
        found["retry"] = retry
    return found


def _filter(form: Form) -> dict[str, object] | None:
    tags = form.text("tags").replace(",", " ").split()
    properties: dict[str, list[str]] = {}
    for line in form.get("properties", "").split("\n"):
        name, colon, values = line.partition(":")
        if not line.strip():
            continue
        if not colon or not name.strip():
            raise Refusal(
                "invalid_request",
                f"{line[:40]!r} names no property; write region: eu, us, one a line",
            )
        properties[name.strip()] = [it.strip() for it in values.split(",")]
    found: dict[str, object] = {}
    if tags:
        found["tags"] = tags
    if properties:
        found["properties"] = properties
    return found or None


def _rate(text: str) -> float:
    try:
        return float(text[:_NUMBER_MAX])
    except ValueError:
        raise Refusal(
            "invalid_request", f"the rate must be a number, and is {text[:40]!r}"
        ) from None
