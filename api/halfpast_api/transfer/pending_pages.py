"""What waits to be delivered, page by page, with its data."""

from collections.abc import AsyncIterator, Mapping
from typing import Final

import msgspec

from halfpast.request_body import MSGPACK
from halfpast.transport import Call, Repeat
from halfpast_api.open_calls import OpenCalls

_PATH: Final = "/v1/events"
_PAGE_COUNT: Final = 1_000


class PendingEvent(msgspec.Struct):
    """One of them. `json` tells whether `data` is JSON text, or just bytes."""

    id: str
    topic: str
    deliver_at: str
    data: bytes
    json: bool
    key: str | None = None
    tag: str | None = None
    properties: dict[str, str] = msgspec.field(default_factory=dict[str, str])


class _Page(msgspec.Struct):
    events: list[PendingEvent]
    next_page_token: str | None = None


class PendingPages(OpenCalls):
    """Calls of one server; used inside `async with`. Raises a HalfpastError."""

    async def knock(self) -> None:
        """Whether somebody is there. Raises ServerUnreachable soon if not."""
        await self._read("/healthz")

    async def pages(
        self, filters: Mapping[str, str]
    ) -> AsyncIterator[list[PendingEvent]]:
        """By due time; pages may be empty. Each page begins behind the last event of
        the one before, so nothing that stays where it is comes twice or not at all.
        """
        query = {**filters, "state": "scheduled", "data": "true"}
        query["limit"] = str(_PAGE_COUNT)
        while True:
            call = Call(
                method="GET",
                path=_PATH,
                repeat=Repeat.READS,
                query=query,
                content_type=MSGPACK,  # which has bytes as they are
            )
            page = (await self._http.send(call)).read(_Page)
            yield page.events
            if not page.next_page_token:
                return
            query["page_token"] = page.next_page_token
