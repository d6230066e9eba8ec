"""The routes about limits."""

from collections.abc import Iterable
from typing import Final

from halfpast_api.access.verbs import Reach, Verb
from halfpast_api.config import BodyLimits
from halfpast_api.limits.limit_handlers import LimitHandlers
from halfpast_api.limits.own_limits import OwnLimitsHandlers
from halfpast_api.router import Route

SUBJECTS: Final = "/v1/limits/subjects"


def limit_routes(
    handlers: LimitHandlers, own: OwnLimitsHandlers, limits: BodyLimits
) -> Iterable[Route]:
    """Limits are given, and looked at."""
    one, admin = SUBJECTS + "/{subject}", Verb.ADMIN
    yield Route("GET", "/v1/limits", own.get, reach=Reach.CALLER)
    yield Route("GET", SUBJECTS, handlers.list, verb=admin)
    yield Route("GET", one, handlers.get, verb=admin)
    yield Route("PUT", one, handlers.put, limits.admin_max, verb=admin)
    yield Route("DELETE", one, handlers.delete, verb=admin)
