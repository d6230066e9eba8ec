"""The routes of the virtual clock."""

from collections.abc import Iterable

from halfpast_api.access.verbs import Reach, Verb
from halfpast_api.clock.clock_handlers import ClockHandlers
from halfpast_api.config import BodyLimits
from halfpast_api.router import Route


def clock_routes(handlers: ClockHandlers, limits: BodyLimits) -> Iterable[Route]:
    """They answer also where the clock is the machine's, and say so."""
    yield Route("GET", "/v1/clock", handlers.show, reach=Reach.SUITE)
    yield Route(
        "POST",
        "/v1/clock:advance",
        handlers.advance,
        limits.admin_max,
        verb=Verb.MANAGE,
        reach=Reach.SUITE,
    )
