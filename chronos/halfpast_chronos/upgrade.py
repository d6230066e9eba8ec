"""An index of an earlier layout becomes one of this layout, at the start."""

from halfpast_core_store.ports import Index
from halfpast_core_store.record import HEADER

from . import keys

OLD_TIMER_SIZE = 25  # of a key without the topic: T, due_ms u64, event id
SLICE_COUNT = 500


def upgrade(index: Index) -> None:
    """Put the topic into the keys of timers that were stored without it.

    May be interrupted and begun anew; does nothing to an index of this layout.
    """
    if index.get(keys.FORMAT) == keys.FORMAT_NOW:
        return
    start = b"T"
    while found := index.scan(start, b"U", SLICE_COUNT):
        batch = index.batch()
        for key, record in found:
            if len(key) == OLD_TIMER_SIZE:
                topic_id = HEADER.unpack_from(record)[4]
                batch.put(keys.timer_prefix(topic_id) + key[1:], record)
                batch.delete(key)
        index.write(batch)
        start = found[-1][0] + b"\0"
    batch = index.batch()
    batch.put(keys.FORMAT, keys.FORMAT_NOW)
    index.write(batch)
