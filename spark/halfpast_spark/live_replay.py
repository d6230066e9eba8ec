"""The memory of a stream as it was when the stream ended: from its files, and from the
log where those do not tell it."""

from .live_books import AHEAD_MS, LiveBooks
from .live_source import read_live
from .log_folder import LogFolder
from .log_parts import begin_before, dated, plan_parts
from .names import NameReader

SPLIT_BYTES = 64 * 1024 * 1024


def catch_up(
    books: LiveBooks,
    folder: LogFolder,
    *,
    start: int,
    end: int,
    horizon_ms: int,
    memory_ms: int,
) -> list[str]:
    """Read again what the memory lacks of the log from `start`, where the stream began,
    to `end`, which it counted at `horizon_ms`; gives what of it cannot be read."""
    known = books.memory.position
    if known < 0:
        known = begin_before(folder, horizon_ms - memory_ms - AHEAD_MS) or 0
    start = max(start, known)
    gaps: list[str] = []
    if start < end:
        names = NameReader(folder).read_until(end)
        for part in dated(plan_parts(folder, start, end, SPLIT_BYTES)):
            for some in read_live(part, names):
                gaps += books.take([some]).gaps
    return gaps
