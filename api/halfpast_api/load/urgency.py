"""Which requests give way when there are too many, by what they do."""

from enum import IntEnum
from typing import Final

from halfpast_api.access.verbs import SAFE_METHODS, Verb


class Urgency(IntEnum):
    """The lower, the sooner a request is refused.

    `ENTRY` brings work in: events, transactions. `ORDINARY` looks, takes messages,
    changes one thing. `SETTLING` ends something (an ack, a commit, a cancel), so that
    refusing it makes more work. `TENDING` is administration and pages for people, who
    must get through just then. `FREE` is about health and limits, and has none.
    """

    ENTRY = 0
    ORDINARY = 1
    SETTLING = 2
    TENDING = 3
    FREE = 4


_ENDS: Final = (
    *(":ack", ":nack", ":extend", ":commit", ":rollback", ":answer", ":end"),
    *(":cancel", ":resume", ":force"),
)
_TENDING: Final = frozenset({Verb.ADMIN, Verb.MANAGE})
_FREE: Final = frozenset({"/v1/limits", "/v1/whoami", "/metrics"})


def urgency_of(method: str, template: str, verb: Verb, *, is_page: bool) -> Urgency:
    """That of a route."""
    if verb is Verb.OPEN or template in _FREE:
        return Urgency.FREE
    if is_page or verb in _TENDING:
        return Urgency.TENDING
    if method not in SAFE_METHODS and (template.endswith(_ENDS) or method == "DELETE"):
        return Urgency.SETTLING
    if verb is Verb.PUBLISH and method not in SAFE_METHODS:
        return Urgency.ENTRY
    return Urgency.ORDINARY
