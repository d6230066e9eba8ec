"""The console as a whole.

`Site` is what all namespaces of a process share; `routes` gives the pages of one.
"""

from collections.abc import Callable, Iterable
from typing import Final

from halfpast_api.access.session_handlers import safe_path
from halfpast_api.access.space import Space
from halfpast_api.access.verbs import Verb
from halfpast_api.answer import Answer
from halfpast_api.config import BodyLimits
from halfpast_api.console import assets, finding
from halfpast_api.console.audits import links
from halfpast_api.console.audits.live_event import LiveEvents
from halfpast_api.console.audits.pages import AuditPages
from halfpast_api.console.audits.view import audit_pages
from halfpast_api.console.frame import Frame
from halfpast_api.console.live_stream import LiveStreams
from halfpast_api.console.login.pages import LOGIN, ME, Entrance, LoginPages
from halfpast_api.console.navigation import HOME
from halfpast_api.console.overview.pages import OverviewPages
from halfpast_api.console.overview.pulse import Pulse
from halfpast_api.console.page_names import console_pages
from halfpast_api.console.page_routes import page_routes
from halfpast_api.console.shelf import Shelf
from halfpast_api.health import HealthHandlers
from halfpast_api.long_poll import LongPolls
from halfpast_api.metadata.store import MetadataStore
from halfpast_api.problems import Refusal, problem_of
from halfpast_api.router import Route
from halfpast_chronos.delay_server import DelayServer


class Site:
    """Templates, files and samples, whichever namespace is looked at. `is_shared`:
    whether there are others than the default one. `now_ns` is the wall clock's, or that
    of a virtual one."""

    def __init__(
        self,
        *,
        files: assets.Assets,
        polls: LongPolls,
        results: MetadataStore,
        health: HealthHandlers,
        delay: DelayServer,
        is_stale: Callable[[], bool],
        is_shared: Callable[[], bool],
        now_ns: Callable[[], int],
        is_virtual: bool,
    ) -> None:
        self._is_virtual: Final = is_virtual
        self._now_ms: Callable[[], int] = lambda: now_ns() // 1_000_000
        self._is_shared: Final = is_shared
        self._files: Final = files
        self._results: Final = results
        self._streams: Final = LiveStreams(polls)
        self._pages: Final = console_pages(files)
        self._audit_pages: Final = audit_pages(files)
        self._pulse: Final = Pulse(health, delay, is_stale, now_ms=self._now_ms)

    def start(self) -> None:
        """Begin to take samples."""
        self._pulse.start()

    async def stop(self) -> None:
        await self._pulse.stop()

    def refusal_page(self, refusal: Refusal, request_id: str) -> Answer:
        """What people see who were not let in with a form, or who met a defect."""
        problem = problem_of(refusal, request_id)
        return self._pages.answer(
            problem.status, "refused.html", {"problem": problem}, refusal.headers
        )

    def routes(
        self, space: Space, limits: BodyLimits, entrance: Entrance
    ) -> Iterable[Route]:
        """The pages and forms of one namespace."""
        frame = Frame(
            self._pages,
            self._streams,
            self._pulse.signs,
            self._is_shared,
            lambda: self._now_ms() if self._is_virtual else None,
        )
        shelf = Shelf(frame, limits)
        files = f"{assets.PATH}/{{name}}"
        yield Route("GET", files, self._files.get, verb=Verb.OPEN)
        login = LoginPages(entrance, safe_path)
        yield shelf.open_page(LOGIN, login.login)
        yield shelf.page(ME, login.me)
        yield shelf.page(HOME, OverviewPages(self._pulse, self._now_ms).show)
        yield shelf.page(f"{HOME}/find", finding.find)
        yield from page_routes(shelf)
        live = LiveEvents(
            space.broker, space.delay, space.transactions, space.directory
        )
        audits = AuditPages(self._results, live)
        own = self._audit_pages
        yield shelf.page(links.PATH, audits.dashboard, own)
        yield shelf.page(f"{links.PATH}/events/{{id}}", audits.event, own)
