"""The pages under /console/audits: the dashboard, and one event with its time line."""

import time
from collections.abc import Callable

from sqlalchemy import Connection

from halfpast_api.console.audits.dashboard import Dashboard, read_dashboard
from halfpast_api.console.audits.figures import ALL
from halfpast_api.console.audits.links import page_link
from halfpast_api.console.audits.live_event import LiveEvents
from halfpast_api.console.audits.offenders import read_offences
from halfpast_api.console.audits.scope import PARAMETERS, Wish, read_wish
from halfpast_api.console.audits.tiles import tiles_of
from halfpast_api.console.audits.view import figures_block, page_values
from halfpast_api.console.visit import View, Visit
from halfpast_api.event_id import id_text, parse_id
from halfpast_api.metadata.store import MetadataStore
from halfpast_api.problems import Refusal


class AuditPages:
    """Pages with templates of their own. They show all namespaces, and so are only for
    those who see the whole server.

    `metadata` should be a connection of its own: a month of windows takes a while.
    """

    def __init__(
        self,
        metadata: MetadataStore,
        live: LiveEvents,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._metadata = metadata
        self._live = live
        self._now_ms = now_ms

    async def dashboard(self, visit: Visit) -> View:
        """GET /console/audits"""
        _check(visit)
        wish = read_wish(visit.query(*PARAMETERS))
        now_ms = self._now_ms()

        def read(connection: Connection) -> Dashboard:
            return read_dashboard(connection, wish, now_ms)

        board = await self._metadata.read(read)
        values = {
            **page_values(board),
            "tiles": tiles_of(board),
            "figures": figures_block(board, page_link(wish, from_="", to="", range="")),
        }
        return View("audits.html", values)

    async def event(self, visit: Visit) -> View:
        """GET /console/audits/events/{id}"""
        _check(visit)
        event_id = parse_id(visit.parameter)
        text = id_text(event_id)
        offences = await self._metadata.read(lambda it: read_offences(it, text))
        live = await self._live.find(event_id)
        if not offences and live is None:
            raise Refusal(
                "unknown_event",
                "neither the audits nor the services know this id; check it",
            )
        values = {
            "event_id": text,
            "offences": offences,
            "live": live,
            "no_wish": Wish(topic=ALL),
        }
        return View("event.html", values)


def _check(visit: Visit) -> None:
    if not visit.viewer.sees_server:
        raise Refusal(
            "forbidden",
            "audits are about all namespaces and all topics; this needs the scope "
            "'read' in the default namespace",
        )
