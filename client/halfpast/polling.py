"""Long polls in the background: how they end, and how they wait out trouble."""

import asyncio
from collections.abc import Coroutine
from datetime import timedelta
from typing import Any, TypeVar

T = TypeVar("T")


async def polled(
    request: Coroutine[Any, Any, T], stopping: asyncio.Event, poll: timedelta
) -> T | None:
    """The result of a long poll that may take `poll`.

    When stopping, a request that is under way ends by itself: dropped, it might
    take what then nobody sees for a while. None if that takes too long.
    """
    polling = asyncio.create_task(request)
    ending = asyncio.create_task(stopping.wait())
    try:
        await asyncio.wait((polling, ending), return_when=asyncio.FIRST_COMPLETED)
        if not polling.done():
            await asyncio.wait((polling,), timeout=poll.total_seconds() + 1.0)
        return polling.result() if polling.done() else None
    finally:
        polling.cancel()
        ending.cancel()


async def pause(pause_s: float, stopping: asyncio.Event) -> None:
    """Wait, but no longer than until `stopping` is set."""
    ending = asyncio.create_task(stopping.wait())
    await asyncio.wait((ending,), timeout=pause_s)
    ending.cancel()


def backoff_s(failures: int) -> float:
    """How long to leave the server alone after so many failures in a row."""
    return min(5.0, 0.1 * 2.0 ** min(failures, 10))
