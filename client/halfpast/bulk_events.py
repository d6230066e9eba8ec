"""The client's sixth part: many events at once, and what is coming."""

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Unpack
from uuid import uuid4

from halfpast.operation_body import (
    DueBody,
    OperationBody,
    OperationPageBody,
    json_wish,
)
from halfpast.operation_model import (
    DueHistogram,
    EventFilter,
    Operation,
    OperationState,
    Resolution,
)
from halfpast.request_body import milliseconds, rfc3339
from halfpast.server_calls import ServerCalls, escaped
from halfpast.transport import Repeat

PATH = "/v1/operations"
POLL_FIRST_S = 0.05
POLL_MAX_S = 1.0


class BulkEvents(ServerCalls):
    """Cancel or reschedule by filter, follow the operation, count what is due."""

    async def cancel_events(
        self,
        *,
        every: bool = False,
        dry_run: bool = False,
        idempotency_key: str | None = None,
        **wanted: Unpack[EventFilter],
    ) -> Operation:
        """Begin to cancel all scheduled events of a filter; see `wait_for_operation`.

        Events that are accepted later are not meant. With `every` and no filter, all
        there are. `dry_run` counts them and changes nothing. Repeating a call with the
        same `idempotency_key` gives the operation that the first one began.
        """
        body = json_wish(wanted, every, dry_run)
        return await self._begin("/v1/events:cancel", body, idempotency_key)

    async def reschedule_events(
        self,
        *,
        shift: timedelta | None = None,
        deliver_at: datetime | None = None,
        every: bool = False,
        dry_run: bool = False,
        idempotency_key: str | None = None,
        **wanted: Unpack[EventFilter],
    ) -> Operation:
        """Begin to move all scheduled events of a filter; the rest is as with
        `cancel_events`.

        By `shift`, which may be negative, or to `deliver_at`. What would be due in the
        past is due at once.
        """
        if (shift is None) == (deliver_at is None):
            raise ValueError("give shift or deliver_at")
        moment = None if deliver_at is None else rfc3339(deliver_at)
        shift_ms = None if shift is None else milliseconds(shift)
        body = json_wish(wanted, every, dry_run, shift_ms=shift_ms, deliver_at=moment)
        return await self._begin("/v1/events:reschedule", body, idempotency_key)

    async def operation(self, operation_id: str) -> Operation:
        """How far an operation has come. Raises NotFound."""
        answer = await self._read(f"{PATH}/{escaped(operation_id)}")
        return answer.read(OperationBody).operation()

    async def wait_for_operation(self, operation_id: str) -> Operation:
        """The operation when it has ended, however long that takes. Raises NotFound."""
        pause_s = POLL_FIRST_S
        while True:
            found = await self.operation(operation_id)
            if found.state is not OperationState.RUNNING:
                return found
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, POLL_MAX_S)

    async def stop_operation(self, operation_id: str) -> Operation:
        """Stop an operation; what it has changed stays so. Stopping twice is harmless.

        Raises NotFound, and Conflict if it has ended.
        """
        answer = await self._send(
            "POST",
            f"{PATH}/{escaped(operation_id)}:cancel",
            repeat=Repeat.SAME_ANSWER,
            body=b"{}",
        )
        return answer.read(OperationBody).operation()

    async def operations(
        self, *, state: OperationState | None = None, page_size: int = 100
    ) -> AsyncIterator[Operation]:
        """Operations, the newest first."""
        given = {"limit": str(page_size)}
        if state is not None:
            given["state"] = state.value
        while True:
            page = (await self._read(PATH, given)).read(OperationPageBody)
            for body in page.operations:
                yield body.operation()
            if not page.next_page_token:
                return
            given["page_token"] = page.next_page_token

    async def due(
        self,
        topic: str | None = None,
        *,
        resolution: Resolution = Resolution.MINUTE,
        start: datetime | None = None,
        end: datetime | None = None,
    ) -> DueHistogram:
        """How many events are due when: of one topic, or of all.

        From now on if `start` is None, for a while that goes with the resolution.
        """
        given = {"resolution": resolution.value}
        if start is not None:
            given["from"] = rfc3339(start)
        if end is not None:
            given["to"] = rfc3339(end)
        path = "/v1/due" if topic is None else f"/v1/topics/{escaped(topic)}/due"
        return (await self._read(path, given)).read(DueBody).histogram()

    async def _begin(
        self, path: str, body: bytes, idempotency_key: str | None
    ) -> Operation:
        answer = await self._send(
            "POST",
            path,
            repeat=Repeat.SAME_ANSWER,
            body=body,
            headers={"Idempotency-Key": idempotency_key or uuid4().hex},
        )
        return answer.read(OperationBody).operation()
