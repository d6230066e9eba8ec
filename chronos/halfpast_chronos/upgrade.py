"""An index of an earlier layout becomes one of this layout, at the start.

    1   keys of timers without their topic
    2   an entry in family E for every event
    3   none for those to which nothing has happened, which are in family I instead

What layout 2 has is read as it is: an entry in family E always counts.
"""

from halfpast_core_store.errors import NewerFormat
from halfpast_core_store.ports import Index
from halfpast_core_store.record import HEADER

from . import keys

OLD_TIMER_SIZE = 25  # of a key without the topic: T, due_ms u64, event id
SLICE_COUNT = 500


def upgrade(index: Index) -> None:
    """Put the topic into the keys of timers that were stored without it.

    May be interrupted and begun anew; does nothing to an index of this layout.
    Raises NewerFormat, with nothing changed, for one of a later layout.
    """
    layout = index.get(keys.FORMAT) or keys.FORMAT_FIRST
    if layout > keys.FORMAT_NOW:
        raise NewerFormat("chronos", layout[0], keys.FORMAT_NOW[0])
    if layout == keys.FORMAT_NOW:
        return
    start = b"T" if layout == keys.FORMAT_FIRST else b"U"
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
