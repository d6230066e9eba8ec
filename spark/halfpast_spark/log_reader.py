"""Reading a part of the log into batches of the event table."""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from halfpast_core_store.folder import MANIFEST

from .arrow_schema import gap_batch
from .errors import NoStore
from .event_rows import EventRows
from .event_schema import COLUMN_NAMES
from .log_file import DELETED, Chunk, Gap, LogFile
from .names import Names
from .row_filter import RowFilter

log = logging.getLogger("halfpast.spark")


@dataclass(frozen=True, slots=True)
class LogPart:
    """What one task reads: the frames that begin from `start` up to before `end`.

    `base` is where the segment of the file `path` begins; `missing` tells why there is
    no such file. `stored_ms` is when a frame near `start` was stored, 0 if unknown.
    """

    path: str
    base: int
    start: int
    end: int
    stored_ms: int
    salt: int
    missing: str = ""


def read_part(
    part: LogPart,
    names: Names,
    *,
    columns: Sequence[str] = COLUMN_NAMES,
    wanted: RowFilter | None = None,
    batch_rows: int = 8_192,
) -> Iterator[Any]:
    """Batches of the rows that a part of the log tells, gaps among them."""
    wanted = wanted or RowFilter()
    rows = EventRows(names, columns, wanted, batch_rows)
    for piece, stored_ms in timed(part):
        if isinstance(piece, Chunk):
            yield from rows.batches(piece)
            continue
        log.warning("nothing from %d to %d: %s", piece.start, piece.end, piece.reason)
        if wanted.wants_gaps:
            yield gap_batch(piece, stored_ms, columns)


def timed(part: LogPart) -> Iterator[tuple[Chunk | Gap, int]]:
    """The pieces of a part, and for a gap when the frame before it was stored; the one
    behind it, if that is the first."""
    stored_ms = 0
    first: Gap | None = None
    for piece in pieces(part):
        if isinstance(piece, Gap):
            if stored_ms:
                yield piece, stored_ms
            else:
                first = piece
            continue
        if first is not None:
            yield first, piece.frames[0].stored_ms
            first = None
        stored_ms = piece.frames[-1].stored_ms
        yield piece, stored_ms
    if first is not None:
        yield first, part.stored_ms


def need_folder(part: LogPart) -> None:
    """A worker that does not see the data folder at all must not take that for a log
    that is gone. Raises NoStore."""
    folder = Path(part.path).parent.parent
    if not (folder / MANIFEST).is_file():
        raise NoStore(str(folder))


def pieces(part: LogPart) -> Iterator[Chunk | Gap]:
    """The frames of a part, and what is missing of it."""
    if part.missing:
        yield Gap(part.start, part.end, part.missing)
        return
    try:
        file = LogFile(part.path, part.base, part.salt)
    except FileNotFoundError:
        need_folder(part)
        yield Gap(part.start, part.end, DELETED)
        return
    with file:
        yield from file.chunks(part.start, part.end)
