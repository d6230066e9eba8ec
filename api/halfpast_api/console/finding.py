"""The field on top of every page: from an id, a name or a key to its page."""

from typing import Final
from urllib.parse import urlencode

import msgspec

from halfpast_api.console.page_names import path_of
from halfpast_api.console.topics.reading import Topic
from halfpast_api.console.visit import Redirect, Visit
from halfpast_api.event_id import id_text, parse_id
from halfpast_api.problems import Refusal, as_refusal

_KINDS: Final = ("events", "transactions", "schedules", "operations")


class _Anything(msgspec.Struct):
    """Any object: nothing of it is needed."""


async def find(visit: Visit) -> Redirect:
    """GET /console/find"""
    text = (visit.query("q").text("q") or "").strip()
    if not text:
        return Redirect("/console/events")
    try:
        shown = id_text(parse_id(text))
    except Refusal:
        return await _by_name(visit, text)
    for kind in _KINDS:
        if await _is_there(visit, kind, shown):
            return Redirect(path_of(kind, shown))
    return Redirect(path_of("events", shown))  # which tells that there is none


async def _by_name(visit: Visit, text: str) -> Redirect:
    try:
        await visit.get(Topic, "topics", text)
    except Exception as error:
        if as_refusal(error) is None:
            raise
        return Redirect(f"/console/events?{urlencode({'key': text})}")
    return Redirect(path_of("topics", text))


async def _is_there(visit: Visit, kind: str, shown: str) -> bool:
    try:
        await visit.get(_Anything, kind, shown)
    except Exception as error:
        if as_refusal(error) is None:
            raise
        return False
    return True
