"""Routes of pages and forms.

Who may do what is decided by the calls of the API that a page makes, so every page may
be asked for by whoever has logged in, and tells what it may not show.
"""

from halfpast_api.access.verbs import Reach, Verb
from halfpast_api.config import BodyLimits
from halfpast_api.console.frame import Act, Frame, Handler, Show
from halfpast_api.console.rendering import Pages
from halfpast_api.router import Route


class Shelf:
    """Makes them, for one namespace."""

    def __init__(self, frame: Frame, limits: BodyLimits) -> None:
        self._frame = frame
        self._limits = limits

    def page(self, path: str, show: Show, pages: Pages | None = None) -> Route:
        """`pages`: templates of its own."""
        return _route("GET", path, self._frame.page(show, pages), 0)

    def open_page(self, path: str, show: Show) -> Route:
        """For whoever has not logged in, too."""
        return _route("GET", path, self._frame.page(show), 0, Verb.OPEN)

    def form(self, path: str, act: Act, show: Show, *, is_large: bool = False) -> Route:
        """What the form at `path` does; `show` is its page. `is_large`: it brings what
        an event holds."""
        limits = self._limits
        body_max = 3 * limits.single_max if is_large else limits.admin_max
        return _route("POST", path, self._frame.form(act, show), body_max)


def _route(
    method: str, path: str, handler: Handler, body_max: int, verb: Verb = Verb.READ
) -> Route:
    return Route(
        method,
        path,
        handler,
        body_max,
        verb=verb,
        reach=Reach.CALLER,
        is_page=True,
    )
