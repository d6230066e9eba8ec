"""What access writes down now and then, and what it forgets."""

import asyncio
from contextlib import suppress
from typing import Final

import structlog

from halfpast_api.access.key_ring import KeyRing
from halfpast_api.access.key_store import KeyStore
from halfpast_api.access.sessions import Sessions
from halfpast_api.access.trail import Trail
from halfpast_api.metadata.errors import MetadataError

TICK_S: Final = 5.0
_USED_MS: Final = 600_000  # how exact "last used" is
_TRIM_TICKS: Final = 720  # once an hour


class Upkeep:
    """A task between `start` and `stop`. A database that is away is tried again."""

    def __init__(
        self, ring: KeyRing, keys: KeyStore, sessions: Sessions, trail: Trail
    ) -> None:
        self._ring = ring
        self._keys = keys
        self._sessions = sessions
        self._trail = trail
        self._written: dict[str, int] = {}
        self._log = structlog.get_logger("halfpast.access")
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="access-upkeep")

    async def stop(self) -> None:
        """Write down what is not written yet, if that is possible."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None
        with suppress(MetadataError):
            await self.write(at_end=True)

    async def write(self, *, at_end: bool = False) -> None:
        """The trail's waiting entries, and when keys were used. May raise
        MetadataUnavailable."""
        await self._trail.catch_up()
        news = {
            key_id: at_ms
            for key_id, at_ms in self._ring.used.items()
            if at_ms - self._written.get(key_id, 0) >= (1 if at_end else _USED_MS)
        }
        if news:
            await self._keys.note_used(news)
            self._written.update(news)

    async def forget(self) -> None:
        """Sessions that are over, and the trail's oldest entries."""
        await self._sessions.purge()
        await self._trail.trim()

    async def _run(self) -> None:
        ticks = 0
        while True:
            await asyncio.sleep(TICK_S)
            try:
                await self.write()
                if ticks % _TRIM_TICKS == 0:
                    await self.forget()
                ticks += 1
            except MetadataError:
                continue  # the cache says so already, once
            except Exception as error:  # it must go on
                self._log.error("access_upkeep_failed", exc_info=error)
