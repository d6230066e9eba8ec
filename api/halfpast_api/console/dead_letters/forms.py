"""Deciding about dead letters: try them again, or give them up for good."""

from typing import Final

import msgspec

from halfpast_api.console.dead_letters.pages import SOURCES
from halfpast_api.console.form import Form
from halfpast_api.console.operations.reading import Operation
from halfpast_api.console.page_names import path_of
from halfpast_api.console.visit import Redirect, Visit
from halfpast_api.problems import Refusal

_ACTIONS: Final = ("redrive", "discard")


async def settle_dead_letters(visit: Visit, form: Form) -> Redirect:
    """POST /console/dead-letters:settle

    Those that are ticked, or all of the list. It becomes an operation.
    """
    action, source = form.text("action"), form.text("source")
    scope, _, action = action.rpartition("-")
    if action not in _ACTIONS or source not in SOURCES:
        raise Refusal("invalid_request", "choose what is to be done")
    body: dict[str, object] = {"source": source}
    if source != "delay":
        body[source] = form.text("whose")
    ids = list(dict.fromkeys(form.all("id")))
    if scope == "all":
        if not form.ticked("sure"):
            raise Refusal("invalid_request", "tick that you mean all of them")
        topic = form.given("topic")
        body |= {"all": True} if topic is None else {"topic": topic}
    elif ids:
        body["ids"] = ids
    else:
        raise Refusal("invalid_request", "tick at least one")
    answer = await visit.send("POST", "dead-letters", verb=action, body=body)
    begun = msgspec.json.decode(answer.content, type=Operation)
    return Redirect(path_of("operations", begun.id))
