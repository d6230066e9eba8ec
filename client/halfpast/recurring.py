"""The client's fifth part: recurring schedules."""

from collections.abc import AsyncIterator
from typing import Unpack
from uuid import uuid4

import msgspec

from halfpast.recurring_body import (
    NextBody,
    ScheduleBody,
    SchedulePageBody,
    json_schedule,
)
from halfpast.recurring_model import (
    Occurrence,
    Schedule,
    ScheduleOptions,
    ScheduleState,
)
from halfpast.server_calls import ServerCalls, escaped, if_match
from halfpast.transport import Answer, Repeat

PATH = "/v1/schedules"


class Recurring(ServerCalls):
    """Make schedules, look at them, change, pause and delete them."""

    async def create_schedule(
        self,
        topic: str,
        data: object,
        *,
        paused: bool = False,
        idempotency_key: str | None = None,
        **options: Unpack[ScheduleOptions],
    ) -> Schedule:
        """Deliver `data` to `topic` again and again.

        Say when by one of `cron`, `interval` and `exponential`; see ScheduleOptions
        for the rest. Repeating a call with the same `idempotency_key` gives the
        schedule that the first one made.
        """
        answer = await self._send(
            "POST",
            PATH,
            repeat=Repeat.SAME_ANSWER,
            body=json_schedule(options, data, topic=topic, paused=paused),
            headers={"Idempotency-Key": idempotency_key or uuid4().hex},
        )
        return answer.read(ScheduleBody).schedule()

    async def get_schedule(self, schedule_id: str) -> Schedule:
        """Everything the server knows of a schedule. Raises NotFound."""
        answer = await self._read(_path(schedule_id))
        return answer.read(ScheduleBody).schedule()

    async def schedules(
        self,
        *,
        topic: str | None = None,
        state: ScheduleState | None = None,
        page_size: int = 100,
    ) -> AsyncIterator[Schedule]:
        """Schedules in the order in which they were made, without their data."""
        query = {"limit": str(page_size)}
        if topic is not None:
            query["topic"] = topic
        if state is not None:
            query["state"] = state.value
        while True:
            page = (await self._read(PATH, query)).read(SchedulePageBody)
            for body in page.schedules:
                yield body.schedule()
            if not page.next_page_token:
                return
            query["page_token"] = page.next_page_token

    async def change_schedule(
        self,
        schedule_id: str,
        *,
        data: object = msgspec.UNSET,
        version: int | None = None,
        **changes: Unpack[ScheduleOptions],
    ) -> Schedule:
        """Change what is given, and leave the rest; None takes something away.

        NotFound, Conflict (it has ended) or StaleVersion.
        """
        answer = await self._send(
            "PATCH",
            _path(schedule_id),
            repeat=Repeat.MAY_CONFLICT,
            body=json_schedule(changes, data),
            headers=if_match(version),
        )
        return answer.read(ScheduleBody).schedule()

    async def pause_schedule(
        self, schedule_id: str, *, version: int | None = None
    ) -> Schedule:
        """Let it rest. Pausing a paused one changes nothing."""
        answer = await self._verb(schedule_id, "pause", version)
        return answer.read(ScheduleBody).schedule()

    async def resume_schedule(
        self, schedule_id: str, *, version: int | None = None
    ) -> Schedule:
        """Let it go on with what comes after now."""
        answer = await self._verb(schedule_id, "resume", version)
        return answer.read(ScheduleBody).schedule()

    async def delete_schedule(
        self, schedule_id: str, *, version: int | None = None
    ) -> Schedule:
        """End it for good. Deleting it twice is deleting it once."""
        answer = await self._send(
            "DELETE",
            _path(schedule_id),
            repeat=_repeat(version),
            headers=if_match(version),
        )
        return answer.read(ScheduleBody).schedule()

    async def next_occurrences(
        self, schedule_id: str, *, count: int = 10
    ) -> list[Occurrence]:
        """When it occurs next; of a paused one, if it were resumed now."""
        answer = await self._read(_path(schedule_id) + "/next", {"count": str(count)})
        return [body.value() for body in answer.read(NextBody).occurrences]

    async def _verb(self, schedule_id: str, verb: str, version: int | None) -> Answer:
        return await self._send(
            "POST",
            f"{_path(schedule_id)}:{verb}",
            repeat=_repeat(version),
            headers=if_match(version),
        )


def _path(schedule_id: str) -> str:
    return f"{PATH}/{escaped(schedule_id)}"


def _repeat(version: int | None) -> Repeat:
    """The first attempt may have made another version of it."""
    return Repeat.SAME_ANSWER if version is None else Repeat.MAY_CONFLICT
