"""The client's seventh part: the clock of a server that was started for tests."""

from datetime import UTC, datetime, timedelta

import msgspec

from halfpast.request_body import json_body, rfc3339
from halfpast.server_calls import ServerCalls
from halfpast.transport import Repeat

PATIENCE = timedelta(seconds=60)
"""What a step of the clock may take: it waits for calls to endpoints, among others."""


class ClockBody(msgspec.Struct):
    """What both calls answer, as far as it matters here."""

    now_ms: int
    reached: bool = True


class ClockCalls(ServerCalls):
    """Look at the virtual clock, and move it forward. On a server that goes by the
    machine's clock both raise Conflict."""

    async def clock(self) -> datetime:
        """What the server's virtual clock shows."""
        return _moment(await self._clock_ms())

    async def advance_clock(
        self, by: timedelta | None = None, *, to: datetime | None = None
    ) -> datetime:
        """Move it by a span or to a moment; gives what it shows then.

        When this returns, everything that became due on the way has been fired, stored
        and made visible, in due order and each at its own time.
        """
        if (by is None) == (to is None):
            raise ValueError("give either how far the clock is to go, or to=")
        if by is not None:
            if by < timedelta(0):
                raise ValueError(f"clocks go forward, and {by} is negative")
            # To a moment, and not by a span: so trying again moves it only once.
            by_ms = -(-by // timedelta(milliseconds=1))
            to = _moment(await self._clock_ms() + by_ms)
        assert to is not None
        while True:
            answer = await self._send(
                "POST",
                "/v1/clock:advance",
                repeat=Repeat.MAY_CONFLICT,
                body=json_body(to=rfc3339(to)),
                wait=PATIENCE,
            )
            found = answer.read(ClockBody)
            if found.reached:
                return _moment(found.now_ms)

    async def _clock_ms(self) -> int:
        return (await self._read("/v1/clock")).read(ClockBody).now_ms


def _moment(ms: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)
