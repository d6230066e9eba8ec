"""Operations of both kinds: on scheduled events, and on dead letters."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, Protocol, TypeVar

from sqlalchemy import Connection

from halfpast_api.answer import Answer
from halfpast_api.call import Call
from halfpast_api.delay.bulk import BulkHandlers, operation_states
from halfpast_api.delay.bulk_bodies import OperationPageView
from halfpast_api.event_id import id_text, parse_id
from halfpast_api.metadata.errors import MetadataError
from halfpast_api.problems import Refusal
from halfpast_api.push import operation_store
from halfpast_api.push.dead_view import view_operation
from halfpast_api.push.operation import Operation, State

NEWEST_MAX: Final = 50
"""Operations on dead letters, all on the first page: they are few."""
R = TypeVar("R")


class Rows(Protocol):
    """What is needed of a `MetadataStore`."""

    async def read(self, work: Callable[[Connection], R]) -> R: ...

    async def write(self, work: Callable[[Connection], R]) -> R: ...


class OperationHandlers:
    """Handlers for operations, of one namespace. Without the metadata database those of
    the Delay Server can still be had."""

    def __init__(
        self,
        namespace: str,
        bulk: BulkHandlers,
        rows: Rows,
        now_ms: Callable[[], int],
    ) -> None:
        self._namespace = namespace
        self._bulk = bulk
        self._rows = rows
        self._now_ms = now_ms

    async def get(self, call: Call) -> Answer:
        """GET /v1/operations/{id}"""
        found = await self._find(call)
        if found is None:
            return await self._bulk.get(call)
        return call.answer(200, view_operation(found))

    async def list(self, call: Call) -> Answer:
        """GET /v1/operations"""
        page = await self._bulk.page(call)
        query = call.query("state", "limit", "page_token")
        if query.text("page_token") is None:
            state = query.choice("state", "", operation_states())
            limit = min(query.integer("limit", 100, 1), NEWEST_MAX)
            views = [view_operation(it) for it in await self._newest(state, limit)]
            both = [*views, *page.operations]
            both.sort(key=lambda view: view.created_at, reverse=True)
            page = OperationPageView(both, page.next_page_token)
        return call.answer(200, page)

    async def cancel(self, call: Call) -> Answer:
        """POST /v1/operations/{id}:cancel"""
        found = await self._find(call)
        if found is None:
            return await self._bulk.cancel(call)
        stopped = replace(
            found, state=State.CANCELLED.value, finished_at_ms=self._now_ms()
        )
        if not await self._rows.write(
            lambda connection: operation_store.stop(connection, stopped)
        ):
            raise Refusal(
                "operation_ended",
                f"the operation {found.id} has ended; what it has changed stays so",
            )
        after = await self._find(call)
        return call.answer(200, view_operation(after or stopped))

    async def _find(self, call: Call) -> Operation | None:
        try:
            operation_id = id_text(parse_id(call.parameters[0]))
        except Refusal:
            return None  # it is refused in the words for operations
        try:
            found = await self._rows.read(
                lambda connection: operation_store.get(connection, operation_id)
            )
        except MetadataError:
            return None
        if found is None or found.namespace != self._namespace:
            return None
        return found

    async def _newest(self, state: str, limit: int) -> Sequence[Operation]:
        try:
            return await self._rows.read(
                lambda connection: operation_store.newest(
                    connection, self._namespace, state, limit
                )
            )
        except MetadataError:
            return []
