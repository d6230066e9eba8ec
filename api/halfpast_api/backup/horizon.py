"""How far the log may be copied: to where it is durable, and no further.

Copying beyond that could catch a frame half written and the next one whole, which is
what damage looks like.
"""

import time
from pathlib import Path

from halfpast_api.backup.errors import NoHorizon
from halfpast_core_store.durable_mark import NAME
from halfpast_core_store.folder import lock_holder, read_mark
from halfpast_core_store.frame import FLAG_END
from halfpast_core_store.real_disk import RealFile
from halfpast_core_store.segment import SUFFIX, Segment, intact_frame

_POLL_S = 0.02
_WAIT_S = 30.0
_MARKS = 2  # the first one may have been made before we began, and written after


def find_horizon(
    folder: Path, salt: int, *, at_least: int, wait_s: float = _WAIT_S
) -> int:
    """A position such that all that has been acknowledged by now lies before it.

    It is `at_least` as far as asked for. Raises NoHorizon if a broker holds the
    folder and does not tell in time.
    """
    begun_s = time.monotonic()
    written: set[int] = set()
    before = _written_ns(folder)
    while lock_holder(folder, "broker"):
        written.add(_written_ns(folder))
        mark = read_mark(folder, salt)
        is_new = len(written - {before}) >= _MARKS
        if is_new and mark is not None and mark.position >= at_least:
            return mark.position
        if time.monotonic() - begun_s > wait_s:
            raise NoHorizon(str(folder))
        time.sleep(_POLL_S)
    mark = read_mark(folder, salt)
    marked = 0 if mark is None else mark.position
    return intact_end(folder / "log", salt, max(marked, at_least))


def intact_end(log: Path, salt: int, position: int) -> int:
    """Where the frames end that follow each other from a position on."""
    end = position
    for path in sorted(log.glob(f"*{SUFFIX}")):
        base = int(path.stem)
        if base > end or not path.stat().st_size:
            break
        segment = Segment(base, RealFile(path, writable=False))
        try:
            if segment.end > end:
                end = _walk(segment, salt, max(end, base))
        finally:
            segment.file.close()
    return end


def _walk(segment: Segment, salt: int, position: int) -> int:
    while position < segment.end:
        found = intact_frame(segment, position, salt)
        if found is None:
            return position
        header, _ = found
        position += header.length
        if header.flags & FLAG_END:
            return segment.end
    return position


def _written_ns(folder: Path) -> int:
    try:
        return (folder / NAME).stat().st_mtime_ns
    except FileNotFoundError:
        return 0
