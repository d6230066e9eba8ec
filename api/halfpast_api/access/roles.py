"""Roles: names for what people usually may do."""

from collections.abc import Iterable
from typing import Final

from halfpast_api.access.scope import Scope, Scopes
from halfpast_api.access.verbs import Verb

READ_ONLY: Final = "read-only"
OPERATOR: Final = "operator"
ADMIN: Final = "admin"


def _scopes(*verbs: Verb) -> Scopes:
    return Scopes(map(Scope, verbs))


ROLES: Final[dict[str, Scopes]] = {
    READ_ONLY: _scopes(Verb.READ),
    OPERATOR: _scopes(
        Verb.READ, Verb.PUBLISH, Verb.SCHEDULE, Verb.CONSUME, Verb.MANAGE
    ),
    ADMIN: _scopes(*(verb for verb in Verb if verb is not Verb.OPEN)),
}
"""From the weakest to the strongest."""


def strongest(roles: Iterable[str]) -> str:
    """The one of them that may do most; empty without any."""
    order = list(ROLES)
    return max(roles, key=order.index, default="")
