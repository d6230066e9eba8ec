"""The client's second part: looking at events and changing those that wait."""

from collections.abc import AsyncIterator
from datetime import datetime, timedelta

from halfpast.answer_body import EventBody, EventPageBody
from halfpast.errors import Conflict, NotFound
from halfpast.model import Event, EventState, Outcome
from halfpast.request_body import json_body, rfc3339, timing
from halfpast.server_calls import ServerCalls, escaped, if_match
from halfpast.transport import Repeat


class ScheduledEvents(ServerCalls):
    """Get, list, cancel, reschedule, deliver now."""

    async def cancel(self, event_id: str, *, version: int | None = None) -> Outcome:
        """Stop an event from being delivered, and tell truthfully whether it will.

        Cancelling twice is CANCELLED twice.
        """
        try:
            await self._send(
                "DELETE",
                f"/v1/events/{escaped(event_id)}",
                repeat=Repeat.SAME_ANSWER,
                headers=if_match(version),
            )
        except (Conflict, NotFound) as refused:
            try:
                return Outcome(refused.problem.outcome)
            except ValueError:
                raise refused from None
        return Outcome.CANCELLED

    async def reschedule(
        self,
        event_id: str,
        *,
        deliver_at: datetime | None = None,
        delay: timedelta | None = None,
        version: int | None = None,
    ) -> Event:
        """Move a waiting event to another time, if it is still at `version`.

        NotFound, Conflict (delivered or cancelled already) or StaleVersion.
        """
        moment = timing(deliver_at, delay)
        if not moment:
            raise ValueError("reschedule needs deliver_at or delay")
        answer = await self._send(
            "PATCH",
            f"/v1/events/{escaped(event_id)}",
            repeat=Repeat.MAY_CONFLICT,
            body=json_body(**moment),
            headers=if_match(version),
        )
        return answer.read(EventBody).event()

    async def deliver_now(self, event_id: str, *, version: int | None = None) -> Event:
        """Make a waiting event due now. The errors are those of `reschedule`.

        It may still be SCHEDULED when this returns, for a moment.
        """
        answer = await self._send(
            "POST",
            f"/v1/events/{escaped(event_id)}:deliver-now",
            repeat=Repeat.MAY_CONFLICT,
            headers=if_match(version),
        )
        return answer.read(EventBody).event()

    async def get(self, event_id: str) -> Event:
        """Everything the server knows of an event. Raises NotFound."""
        answer = await self._read(f"/v1/events/{escaped(event_id)}")
        return answer.read(EventBody).event()

    async def events(
        self,
        *,
        topic: str | None = None,
        key: str | None = None,
        tag: str | None = None,
        state: EventState | None = None,
        due_after: datetime | None = None,
        due_before: datetime | None = None,
        page_size: int = 100,
        data: bool = False,
    ) -> AsyncIterator[Event]:
        """Scheduled events (or those in another `state`) by due time; with a key by
        topic and id. They come without their data unless `data` asks for it.

        Fetches page after page as you go on, so what changes meanwhile may or
        may not be seen.
        """
        query = {
            "topic": topic,
            "key": key,
            "tag": tag,
            "state": None if state is None else state.value,
            "due_after": None if due_after is None else rfc3339(due_after),
            "due_before": None if due_before is None else rfc3339(due_before),
            "limit": str(page_size),
            "data": "true" if data else None,
        }
        given = {name: value for name, value in query.items() if value is not None}
        while True:
            page = (await self._read("/v1/events", given)).read(EventPageBody)
            for body in page.events:
                yield body.event()
            if not page.next_page_token:
                return
            given["page_token"] = page.next_page_token
