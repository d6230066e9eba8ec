"""Requests that wait: given up when their client leaves or the server stops."""

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar

from halfpast_api.connection import Connection

R = TypeVar("R")


class LongPolls:
    """The waiting requests of one server."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Task[Any]] = set()
        self.stopping = False

    def __len__(self) -> int:
        return len(self._waiting)

    async def wait(self, connection: Connection, work: Awaitable[R]) -> R | None:
        """What `work` gives; None if the server is stopping before that.

        Cancelled, and `work` with it, when the client hangs up.
        """
        task = asyncio.current_task()
        assert task is not None
        connection.poll = task
        self._waiting.add(task)
        try:
            return await work
        except asyncio.CancelledError:
            if self.stopping and connection.connected:
                task.uncancel()
                return None
            raise
        finally:
            connection.poll = None
            self._waiting.discard(task)

    def stop(self) -> None:
        """End all of them, with an empty answer."""
        self.stopping = True
        for task in self._waiting:
            task.cancel()
