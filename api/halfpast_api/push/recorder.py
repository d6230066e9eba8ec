"""Keeps attempts, beside the deliveries and never in their way.

What is noted waits in memory for a moment and is written together. While the database
is away, or slow, the oldest are dropped and counted: attempts are for people to look
at; what is delivered and what is not, the broker knows.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from itertools import count

import structlog
from sqlalchemy import Connection

from halfpast_api.metadata.errors import MetadataError
from halfpast_api.metadata.store import MetadataStore
from halfpast_api.push import attempt_store
from halfpast_api.push.attempt import Attempt

BATCH_MAX = 500
WAITING_MAX = 10_000
FLUSH_S = 0.25
NUMBER_BITS = 20

log = structlog.get_logger("halfpast.push")


class Recorder:
    """Belongs to one event loop. `kept_max`: attempts of each kind per endpoint."""

    def __init__(
        self, metadata: MetadataStore, kept_max: int, now_ms: Callable[[], int]
    ) -> None:
        self._metadata = metadata
        self._kept_max = kept_max
        self._now_ms = now_ms
        self._counter = count(1)
        self._waiting: deque[Attempt] = deque(maxlen=WAITING_MAX)
        self._untrimmed: dict[str, int] = {}
        self._is_away = False
        self._task: asyncio.Task[None] | None = None
        self.dropped = 0

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="push-attempts")

    async def stop(self) -> None:
        """Write what is left, if the database is there."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        await self.flush()

    def number(self) -> int:
        """A number for an attempt that is made now."""
        low = next(self._counter) & (1 << NUMBER_BITS) - 1
        return self._now_ms() << NUMBER_BITS | low

    def note(self, attempt: Attempt) -> None:
        """Keep it, soon."""
        self.dropped += len(self._waiting) == WAITING_MAX
        self._waiting.append(attempt)

    async def forget_others(self, endpoints: set[str]) -> None:
        """Forget the attempts of endpoints that are no more."""
        with suppress(MetadataError):
            await self._metadata.write(
                lambda connection: attempt_store.forget_others(connection, endpoints)
            )

    async def flush(self) -> None:
        """Write all that waits."""
        while self._waiting:
            size = min(BATCH_MAX, len(self._waiting))
            batch = [self._waiting.popleft() for _ in range(size)]
            if not await self._write(batch):
                return

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(FLUSH_S)
            await self.flush()

    async def _write(self, batch: list[Attempt]) -> bool:
        for it in batch:
            self._untrimmed[it.endpoint] = self._untrimmed.get(it.endpoint, 0) + 1
        full = [
            endpoint
            for endpoint, number in self._untrimmed.items()
            if number > self._kept_max // 10
        ]

        def write(connection: Connection) -> None:
            attempt_store.add(connection, batch)
            for endpoint in full:
                attempt_store.trim(connection, endpoint, self._kept_max)

        try:
            await self._metadata.write(write)
        except MetadataError as error:
            self.dropped += len(batch)
            if not self._is_away:  # once an outage
                log.warning("attempts cannot be kept", reason=str(error))
            self._is_away = True
            return False
        self._is_away = False
        for endpoint in full:
            del self._untrimmed[endpoint]
        return True
