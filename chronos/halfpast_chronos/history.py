"""Events that are finished: kept for a while, and not more than so many.

How many there are is counted as `due_counts.py` counts timers: saved with the index,
under the same mark, and counted again in the background where there is no mark.
"""

from halfpast_core_store.ports import Index, IndexBatch

from . import keys
from .config import ChronosConfig
from .event_state import decode_event
from .event_states import EventStates

SLICE_COUNT = 500
END = b"G"


class History:
    """The finished events, in the order in which they are forgotten."""

    def __init__(
        self,
        index: Index,
        states: EventStates,
        config: ChronosConfig,
        *,
        is_exact: bool,
    ) -> None:
        """`is_exact`: whether the count that was saved is true of the index."""
        self._index = index
        self._states = states
        self._config = config
        self._forgotten = b"F"  # looking from here on skips what was deleted
        saved = index.get(keys.FINISHED) if is_exact else None
        self.count = 0 if saved is None else int(keys.U64.unpack(saved)[0])
        """How many there are."""
        is_exact = saved is not None or not index.scan_keys(b"F", END, 1)
        self._cursor = END if is_exact else b"F"
        self._counted = 0

        self.is_touched = False
        """Whether what was saved is true no longer."""

    @property
    def is_exact(self) -> bool:
        """Whether all have been counted."""
        return self._cursor == END

    def add(self, batch: IndexBatch, finished_ms: int, event_id: bytes) -> None:
        """An event is finished."""
        key = keys.finished(finished_ms, event_id)
        batch.put(key, b"")
        self._change(key, 1)

    def remove(self, batch: IndexBatch, finished_ms: int, event_id: bytes) -> None:
        """It is not finished after all."""
        key = keys.finished(finished_ms, event_id)
        batch.delete(key)
        self._change(key, -1)

    def forget(self, batch: IndexBatch, now_ms: int, limit: int) -> int:
        """Delete up to `limit` of the oldest, if they are too old or too many.

        Gives how many.
        """
        until = keys.finished(max(0, now_ms - self._config.history_ms), b"")
        beyond = self.count - self._config.history_count_max if self.is_exact else 0
        found = self._index.scan_keys(self._forgotten, END, limit)
        doomed = [key for n, key in enumerate(found) if key < until or n < beyond]
        if not doomed:
            return 0
        states = self._index.get_many([keys.event(key[9:]) for key in doomed])
        owned: list[tuple[bytes, bytes]] = []
        for key, data in zip(doomed, states, strict=True):
            event = None if data is None else decode_event(data)
            if event is not None and event.upsert:
                owned.append((keys.own_key(event.topic_id, event.key), key[9:]))
            batch.delete(key)
            self._change(key, -1)
        self._states.forget(batch, [key[9:] for key in doomed])
        names = self._index.get_many([own for own, _ in owned])
        for (own, event_id), named in zip(owned, names, strict=True):
            if named == event_id:
                batch.delete(own)
        self._forgotten = doomed[-1]
        return len(doomed)

    def step(self) -> bool:
        """Count again a slice of what needs it; False if nothing does."""
        if self.is_exact:
            return False
        found = self._index.scan_keys(self._cursor, END, SLICE_COUNT)
        self._counted += len(found)
        if len(found) == SLICE_COUNT:
            self._cursor = found[-1] + b"\0"
        else:
            self._cursor, self.count = END, self._counted
        return True

    def save(self, batch: IndexBatch) -> None:
        """Enter the count."""
        self.is_touched = False
        batch.put(keys.FINISHED, keys.U64.pack(self.count))

    def _change(self, key: bytes, change: int) -> None:
        self.is_touched = True
        self.count = max(0, self.count + change)
        if not self.is_exact and key < self._cursor:
            self._counted += change
