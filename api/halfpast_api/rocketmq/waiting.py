"""Calls that wait for messages, and work that outlives the call that began it."""

import asyncio
from collections.abc import Awaitable, Coroutine
from typing import Any, TypeVar

R = TypeVar("R")


class Waiting:
    """Those of one process."""

    def __init__(self) -> None:
        self._polls: set[asyncio.Task[Any]] = set()
        self._works: set[asyncio.Task[None]] = set()
        self._stopping = False

    def __len__(self) -> int:
        return len(self._polls)

    async def wait(self, work: Awaitable[R]) -> R | None:
        """What `work` gives; None if the server stops before that."""
        task = asyncio.ensure_future(work)
        if self._stopping:
            task.cancel()
        self._polls.add(task)
        try:
            return await task
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if self._stopping and current is not None and not current.cancelling():
                return None
            task.cancel()
            raise
        finally:
            self._polls.discard(task)

    def later(self, work: Coroutine[Any, Any, None]) -> None:
        """Have this done, whatever becomes of the call."""
        task = asyncio.get_running_loop().create_task(work)
        self._works.add(task)
        task.add_done_callback(self._works.discard)

    def stop(self) -> None:
        """End all polls, with nothing."""
        self._stopping = True
        for task in self._polls:
            task.cancel()

    async def close(self) -> None:
        """Let what was begun end."""
        await asyncio.gather(*self._works, return_exceptions=True)
