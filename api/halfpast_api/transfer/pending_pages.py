"""What waits to be delivered, page by page, with its data."""

from collections.abc import AsyncIterator, Mapping
from types import TracebackType
from typing import Final, Self

import msgspec

from halfpast import RetryPolicy
from halfpast.request_body import MSGPACK
from halfpast.server_calls import ServerCalls
from halfpast.transport import Call, Repeat, Transport

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


class PendingPages(ServerCalls):
    """Calls of one server; used inside `async with`. Raises a HalfpastError."""

    def __init__(self, base_url: str, policy: RetryPolicy) -> None:
        super().__init__(Transport(base_url, policy))

    async def __aenter__(self) -> Self:
        await self._http.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._http.close()

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
