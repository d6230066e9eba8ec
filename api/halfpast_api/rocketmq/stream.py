"""What waits to be told to one client over its telemetry stream."""

import asyncio
from typing import Final

from halfpast_api.rocketmq.protocol import TelemetryCommand

_WAITING_MAX: Final = 256


class Stream:
    """The server's side of one stream. A client that does not read loses what is too
    much; what that was about is asked again later."""

    def __init__(self) -> None:
        self._waiting: asyncio.Queue[TelemetryCommand | None] = asyncio.Queue()
        self._ended = False

    @property
    def is_open(self) -> bool:
        return not self._ended

    def offer(self, command: TelemetryCommand) -> bool:
        """Tell the client this, by and by; False if that is not to be."""
        if self._ended or self._waiting.qsize() >= _WAITING_MAX:
            return False
        self._waiting.put_nowait(command)
        return True

    def end(self) -> None:
        """Nothing is told any more but what waits."""
        if not self._ended:
            self._ended = True
            self._waiting.put_nowait(None)

    async def next(self) -> TelemetryCommand | None:
        """What to tell next; None if that was all."""
        return await self._waiting.get()
