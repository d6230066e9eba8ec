"""Forms about single events, and about some that were ticked."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from halfpast_api.console.events.content import content_fields, time_fields
from halfpast_api.console.events.reading import Published
from halfpast_api.console.form import Form
from halfpast_api.console.page_names import path_of
from halfpast_api.console.said import Said, Tone
from halfpast_api.console.visit import Redirect, Visit
from halfpast_api.console.wording import plural
from halfpast_api.problems import Refusal, as_refusal

TICKED_MAX: Final = 200
_AT_ONCE: Final = 20
_DONE: Final = {
    "cancel": ("cancelled", "Cancelled: it will not be delivered."),
    "deliver-now": ("delivered now", "It is being delivered now."),
    "redrive": ("redriven", "Redriven: it is tried again now."),
}


async def publish_event(visit: Visit, form: Form) -> Redirect:
    """POST /console/events"""
    topic = form.text("topic")
    if not topic:
        raise Refusal("missing_field", "say to which topic")
    body = {**content_fields(form), **time_fields(form)}
    answer = await visit.send(
        "POST", "topics", topic, "events", body=body, once=form.text("once")
    )
    made = msgspec.json.decode(answer.content, type=Published)
    is_scheduled = made.state == "scheduled"
    said = "Scheduled." if is_scheduled else "Published: consumers can have it now."
    return Redirect(path_of("events", made.id), Said(said))


async def cancel_event(visit: Visit, form: Form) -> Redirect:
    """POST /console/events/{id}:cancel"""
    return await _change(visit, form, "cancel")


async def deliver_event_now(visit: Visit, form: Form) -> Redirect:
    """POST /console/events/{id}:deliver-now"""
    return await _change(visit, form, "deliver-now")


async def redrive_event(visit: Visit, form: Form) -> Redirect:
    """POST /console/events/{id}:redrive"""
    return await _change(visit, form, "redrive")


async def reschedule_event(visit: Visit, form: Form) -> Redirect:
    """POST /console/events/{id}:reschedule"""
    event_id = visit.parameter
    body = time_fields(form)
    await visit.send(
        "PATCH", "events", event_id, body=body, version=form.text("version")
    )
    return Redirect(path_of("events", event_id), Said("Moved to its new time."))


async def change_ticked(visit: Visit, form: Form) -> Redirect:
    """POST /console/events:ticked

    Each by itself; what went wrong with one does not keep the others.
    """
    action = form.text("action")
    if action not in _DONE:
        raise Refusal("invalid_request", "choose what is to be done")
    ids = list(dict.fromkeys(form.all("id")))
    if not ids:
        raise Refusal("invalid_request", "tick at least one")
    if len(ids) > TICKED_MAX:
        raise Refusal("invalid_request", f"tick at most {TICKED_MAX} at a time")
    done, wrong = await _each(ids, lambda it: _do(visit, it, action, ""))
    done_word = _DONE[action][0]
    text, tone = f"{plural(done, 'event')} {done_word}.", "good"
    if wrong:
        text += f" Not so {len(wrong)}: {wrong[0]}."
        tone = "bad" if not done else "warn"
    return Redirect(_back(form), Said(text, _tone(tone)))


async def _change(visit: Visit, form: Form, action: str) -> Redirect:
    event_id = visit.parameter
    await _do(visit, event_id, action, form.text("version"))
    return Redirect(path_of("events", event_id), Said(_DONE[action][1]))


async def _do(visit: Visit, event_id: str, action: str, version: str) -> None:
    if action == "cancel":
        await visit.send("DELETE", "events", event_id, version=version)
    else:
        await visit.send("POST", "events", event_id, verb=action, version=version)


async def _each(
    ids: list[str], do: Callable[[str], Awaitable[None]]
) -> tuple[int, list[str]]:
    """How many went well, and what was wrong with the others."""
    gate = asyncio.Semaphore(_AT_ONCE)

    async def one(event_id: str) -> str:
        try:
            async with gate:
                await do(event_id)
        except Exception as error:
            refusal = as_refusal(error)
            if refusal is None:
                raise
            return refusal.detail
        return ""

    wrong = [it for it in await asyncio.gather(*map(one, ids)) if it]
    return len(ids) - len(wrong), wrong


def _back(form: Form) -> str:
    """The list from which it came: an address of ours, whatever the form says."""
    url = form.text("back")
    is_ours = url.startswith("/console/") and not set(url) & set("\\\r\n\t ")
    return url if is_ours and url.isascii() else "/console/events"


def _tone(word: str) -> Tone:
    return "good" if word == "good" else "warn" if word == "warn" else "bad"
