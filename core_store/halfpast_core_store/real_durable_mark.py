"""Who publishes the durable mark (`folder.py` reads it)."""

import asyncio
import os
from pathlib import Path

import structlog

from .durable_mark import NAME, PUBLISH_MS, DurableMark, encode_mark
from .ports import Clock
from .store import Store
from .sync_thread import SyncThread

HEARTBEAT_S = 1.0

log = structlog.get_logger("halfpast.broker")


class MarkPublisher:
    """Writes the mark at most every PUBLISH_MS, and every second when nothing
    happens. A mark that cannot be written is no harm to the store: it is told, and
    tried again with the next one.
    """

    def __init__(
        self, folder: Path, store: Store, clock: Clock, sync: SyncThread
    ) -> None:
        self._store = store
        self._clock = clock
        self._sync = sync
        self._loop = asyncio.get_running_loop()
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        self._fd = os.open(folder / NAME, flags, 0o644)
        self._timer: asyncio.TimerHandle | None = None
        self._published_s = 0.0
        self._is_writing = False
        self._failure = ""
        self.note(HEARTBEAT_S)

    def note(self, within_s: float = PUBLISH_MS / 1000) -> None:
        """The mark has changed: publish it, in this time at the latest."""
        when_s = self._loop.time() + within_s
        if self._timer is not None:
            if self._timer.when() <= when_s:
                return
            self._timer.cancel()
        when_s = max(self._loop.time(), min(when_s, self._published_s + within_s))
        self._timer = self._loop.call_at(when_s, self._publish)

    def _publish(self) -> None:
        self._timer = None
        self._published_s = self._loop.time()
        if not self._is_writing:
            self._is_writing = True
            data = self._encoded()
            # A write to a cached page may have to wait for the disk, too.
            self._sync.run(lambda: self._write(data), self._written)
        self.note(HEARTBEAT_S)

    def _encoded(self) -> bytes:
        return encode_mark(current_mark(self._store, self._clock), self._store.salt)

    def _write(self, data: bytes) -> None:
        os.pwrite(self._fd, data, 0)

    def _written(self, error: Exception | None) -> None:
        self._is_writing = False
        failure = "" if error is None else str(error)
        if failure and failure != self._failure:
            log.warning("the durable mark could not be written", error=failure)
        self._failure = failure

    def close(self, *, is_sound: bool) -> None:
        """Publish for the last time, if the store `is_sound`, after its last write."""
        if self._timer is not None:
            self._timer.cancel()
        if is_sound:
            self._write(self._encoded())
        os.close(self._fd)


def current_mark(store: Store, clock: Clock) -> DurableMark:
    """The mark as it is now. Its time is now only while nothing is on its way to the
    log, for what is may have been stored already."""
    as_of_ms = store.log.durable_ms
    if not store.busy and not store.lanes:
        as_of_ms = max(as_of_ms, clock.now_ns() // 1_000_000)
    return DurableMark(store.log.durable_end, as_of_ms)
