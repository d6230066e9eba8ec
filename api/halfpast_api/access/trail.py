"""The trail: who has done what, when, and on which object.

An act is on record before it is answered. Where the database is away just then (the
act itself may not have needed it), the entry waits in memory and is written as soon as
that is possible; the log has it at once.
"""

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import msgspec
import structlog
import uuid_utils

from halfpast_api.access import trail_rows
from halfpast_api.access.access import Access
from halfpast_api.access.config import TrailConfig
from halfpast_api.access.json_value import is_object
from halfpast_api.access.key_ring import system_now_ms
from halfpast_api.access.redaction import redact
from halfpast_api.access.trail_rows import TrailEntry, TrailFilter
from halfpast_api.metadata.errors import MetadataUnavailable
from halfpast_api.metadata.store import MetadataStore

SUMMARY_SIZE_MAX: Final = 4096
_WAITING_MAX: Final = 10_000
_BATCH: Final = 500
_encode: Final = msgspec.json.Encoder(order="sorted").encode


class Trail:
    """Writes and reads the trail of one database."""

    def __init__(
        self,
        store: MetadataStore,
        config: TrailConfig | None = None,
        now_ms: Callable[[], int] = system_now_ms,
    ) -> None:
        self._store = store
        self._config = config or TrailConfig()
        self._now_ms = now_ms
        self._waiting: deque[TrailEntry] = deque()
        self._log = structlog.get_logger("halfpast.trail")
        self.lost = 0
        """Entries that found no room while the database was away."""

    @property
    def waiting(self) -> int:
        """Entries that are not written yet."""
        return len(self._waiting)

    async def record(
        self,
        access: Access,
        action: str,
        subject: str,
        *,
        request_id: str = "",
        status: int = 200,
        before: Any = None,
        after: Any = None,
    ) -> None:
        """Somebody has done something. Never fails for the database's sake."""
        entry_id = uuid_utils.uuid7()
        entry = TrailEntry(
            id=str(entry_id),
            at_ms=entry_id.timestamp,
            namespace=access.namespace,
            actor=access.actor,
            action=action,
            object=subject,
            request_id=request_id,
            status=status,
            before=summary(before),
            after=summary(after),
        )
        try:
            await self._store.write(partial(trail_rows.add, entries=[entry]))
        except MetadataUnavailable as error:
            self._wait(entry, str(error))

    async def catch_up(self) -> None:
        """Write what waits. Raises MetadataUnavailable."""
        while self._waiting:
            some = [self._waiting[n] for n in range(min(_BATCH, len(self._waiting)))]
            await self._store.write(partial(trail_rows.add, entries=some))
            for _ in some:
                self._waiting.popleft()

    async def page(
        self, wanted: TrailFilter, limit: int, behind: str
    ) -> list[TrailEntry]:
        """The newest first. Raises MetadataUnavailable."""
        return await self._store.read(
            lambda connection: trail_rows.page(connection, wanted, limit, behind)
        )

    async def trim(self) -> int:
        """Forget what is too old, or too much. How many entries that was."""
        oldest_ms = self._now_ms() - self._config.kept_ms
        count_max = self._config.count_max
        return await self._store.write(
            lambda connection: trail_rows.trim(connection, oldest_ms, count_max)
        )

    def _wait(self, entry: TrailEntry, reason: str) -> None:
        self._log.warning(
            "trail_waits",
            reason=reason,
            actor=entry.actor,
            action=entry.action,
            object=entry.object,
            namespace=entry.namespace,
            request_id=entry.request_id,
        )
        if len(self._waiting) >= _WAITING_MAX:
            self._waiting.popleft()
            self.lost += 1
        self._waiting.append(entry)


def summary(value: Any) -> str:
    """What of an object goes into the trail: no secrets, no payload, 4 KiB."""
    if value is None:
        return ""
    shown = redact(value)
    text = _encode(shown)
    if len(text) > SUMMARY_SIZE_MAX and is_object(shown):
        size_max = SUMMARY_SIZE_MAX // (len(shown) + 1)
        kept = {name: it for name, it in shown.items() if _fits(it, size_max)}
        text = _encode({**kept, "left_out": sorted(set(shown) - set(kept))[:50]})
    if len(text) > SUMMARY_SIZE_MAX:
        text = _encode({"left_out": "it is too large"})
    return text.decode()


def _fits(value: Any, size_max: int) -> bool:
    return len(_encode(value)) <= size_max
