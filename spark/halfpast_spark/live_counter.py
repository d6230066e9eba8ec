"""What a stream does with each batch: its memory, the database, the saved memory."""

import logging
import threading
import time
from collections.abc import Iterable

from .checkpoint import Checkpoint, Origin
from .job_errors import StreamConflict
from .live_books import LiveBooks
from .live_events import LiveEvents
from .live_memory import LiveMemory
from .live_replay import catch_up
from .live_results import LiveResults
from .live_saves import LiveSaves
from .log_folder import LogFolder
from .stream_config import StreamConfig

log = logging.getLogger("halfpast.spark")


class LiveCounter:
    """Takes batches one after the other. What it remembers is saved only as far as the
    database has it."""

    def __init__(self, config: StreamConfig, folder: LogFolder) -> None:
        self._config = config
        self._folder = folder
        self._lock = threading.Lock()
        self._saves = LiveSaves(Checkpoint(config.checkpoint).remembered)
        self._saved_s = time.monotonic()
        self._is_sound = False
        self._gaps: list[str] = []
        self._books = self._new_books(LiveMemory())

    @property
    def memory(self) -> LiveMemory:
        return self._books.memory

    def prepare(self, checkpoint: Checkpoint, *, horizon_ms: int) -> Origin:
        """Remember what the stream did when it ended; tells where it began.

        Raises StreamConflict for a log that is not the one that was counted.
        """
        config, folder = self._config, self._folder
        horizon = folder.horizon()
        origin = checkpoint.origin(Origin(folder.store_id, horizon.start))
        if origin.store_id != folder.store_id:
            why = "its counts are of another store's log; --restart counts this one"
            raise StreamConflict(config.name, why)
        end = checkpoint.end
        if end is not None and end > horizon.end:
            why = (
                f"it has counted up to position {end}, and the log ends at "
                f"{horizon.end}: an older state of it has been put back; --restart "
                "counts what is there"
            )
            raise StreamConflict(config.name, why)
        memory = self._saves.load()
        if memory is not None:
            self._books = self._new_books(memory)
        if end is not None:
            self._gaps = catch_up(
                self._books,
                folder,
                start=origin.position,
                end=end,
                horizon_ms=horizon_ms,
                memory_ms=config.memory_ms,
            )
        self._is_sound = True
        return origin

    def take(
        self, batch_id: int, some: Iterable[LiveEvents], live: LiveResults
    ) -> None:
        """One batch; one that the database has is remembered only.

        Raises StreamConflict, ResultsUnavailable; then nothing more can be taken.
        """
        with self._lock:
            self._is_sound = False
            known = live.seen()
            changes = self._books.take(some)
            if batch_id > known.batch_id:
                changes.gaps = [*self._gaps, *changes.gaps]
                live.take(batch_id, changes)
                self._gaps = []
            self._is_sound = True
            if time.monotonic() >= self._saved_s + self._config.save_every_ms / 1000:
                self._save()

    def close(self) -> None:
        """Save all, so that the next start has nothing to read again."""
        with self._lock:
            if self._is_sound:
                self._save(everything=True)
            self._is_sound = False

    def _save(self, *, everything: bool = False) -> None:
        try:
            if everything:
                self._saves.save(self.memory, self.memory.size_bytes + 1)
            else:
                self._saves.save(self.memory)
        except OSError as error:  # the log tells it all again
            log.warning("what the stream remembers cannot be saved: %s", error)
        self._saved_s = time.monotonic()

    def _new_books(self, memory: LiveMemory) -> LiveBooks:
        config = self._config
        return LiveBooks(
            memory,
            window_ms=config.window_ms,
            memory_ms=config.memory_ms,
            rules=config.rules,
        )
