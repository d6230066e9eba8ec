"""What a pull finds in its queue, and how far it has looked."""

from typing import NamedTuple

from .broker import Pull
from .message_filter import MessageFilter
from .queues import QueuedRecord, Queues

SCAN_MAX = 2_000  # messages that one look may pass over
SCAN_COUNT = 100


class Looked(NamedTuple):
    """Messages that are wanted, and where to go on; `is_cut` if at once."""

    found: list[QueuedRecord]
    next_offset: int
    is_cut: bool = False


def look(
    queues: Queues,
    topic_id: int,
    request: Pull,
    offset: int,
    matches: MessageFilter | None,
) -> Looked:
    """Read from `offset` on. Raises OffsetOutOfRange, CorruptLog."""
    if matches is None:
        all_of_them = queues.read(
            topic_id, request.queue, offset, request.count, request.size_max
        )
        end = all_of_them[-1].offset + 1 if all_of_them else offset
        return Looked(all_of_them, end)
    found: list[QueuedRecord] = []
    size, scan = request.size_max, SCAN_MAX
    while len(found) < request.count:
        if size <= 0 or scan <= 0:
            return Looked(found, offset, is_cut=True)
        some = queues.read(topic_id, request.queue, offset, SCAN_COUNT, size)
        if not some:
            break
        for queued in some:
            if len(found) == request.count:
                break
            offset = queued.offset + 1
            size -= len(queued.record)
            if matches(queued.record):
                found.append(queued)
            else:
                scan -= 1
    return Looked(found, offset)
