"""All ids that a stream remembers, by the quarter of a minute in which they were made.

Ids are UUIDv7, so those of such a span stand together in their order, new ones come at
the end, and what is forgotten goes as a whole span. Everything here follows from the
log: it is kept in files (`live_saves.py`) only so that less has to be read again.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from .frame_records import Mask, Numbers
from .live_events import Table, id_bytes, id_values, made_ms
from .live_names import LiveNames
from .live_timers import TIMER
from .live_transactions import HEAD, MESSAGE

PIECE_MS = 15_000
KINDS = {"timers": TIMER, "heads": HEAD, "messages": MESSAGE}

Joined = Callable[[Table, Table], Table]


@dataclass(slots=True)
class Piece:
    """The ids of one span. `position`: it knows all events up to there, perhaps
    more than the others; `changed_at`: up to where its file tells everything, None if
    that is up to where the memory is."""

    tables: dict[str, Table]
    position: int
    changed_at: int | None

    @property
    def size_bytes(self) -> int:
        return sum(table.nbytes for table in self.tables.values())


@dataclass(slots=True)
class LiveMemory:
    """`position`: all events up to there are in it; -1 if none is."""

    position: int = -1
    pieces: dict[int, Piece] = field(default_factory=lambda: {})
    names: LiveNames = field(default_factory=LiveNames)

    @property
    def size_bytes(self) -> int:
        return sum(piece.size_bytes for piece in self.pieces.values())

    def positions(self, made: Numbers) -> Numbers:
        """For ids made then, up to where the events about them are known."""
        spans, places = np.unique(made // PIECE_MS, return_inverse=True)
        known: list[int] = []
        for span in spans.tolist():
            piece = self.pieces.get(span)
            own = self.position if piece is None else piece.position
            known.append(max(self.position, own))
        found: Numbers = np.array(known, np.int64)[places.reshape(-1)]
        return found

    def take(self, kind: str, rows: Table, join: Joined) -> tuple[Table, Table]:
        """Enter new rows, in the order of their ids. Gives those of them that were
        known, as they were; and all as they are now."""
        before: list[Table] = []
        now = rows.copy()
        for span, some in _spans(rows["id"]):
            piece = self._piece(span)
            table = piece.tables[kind]
            at, is_there = _places(table, rows["id"][some])
            old = table[at[is_there]]
            before.append(old)
            piece_rows = now[some]
            if len(old):
                piece_rows[is_there] = join(old, piece_rows[is_there])
                table[at[is_there]] = piece_rows[is_there]
            if not is_there.all():
                new = ~is_there
                piece.tables[kind] = np.insert(table, at[new], piece_rows[new])
        return _together(before, KINDS[kind]), now

    def heads(self, ids: Table) -> tuple[Table, Numbers]:
        """The transactions of these ids that are known, and their places in `ids`."""
        found: list[Table] = []
        places: list[Numbers] = []
        for span, some in _spans(ids):
            if (piece := self.pieces.get(span)) is None:
                continue
            table = piece.tables["heads"]
            at, is_there = _places(table, ids[some])
            found.append(table[at[is_there]])
            places.append(np.flatnonzero(is_there) + some.start)
        return _together(found, HEAD), _together(places, np.dtype(np.int64))

    def messages(self, ids: Table) -> tuple[Table, Numbers]:
        """The messages of these transactions, and the places of those in `ids`."""
        found: list[Table] = []
        owners: list[Numbers] = []
        for span, some in _spans(ids):
            if (piece := self.pieces.get(span)) is None:
                continue
            table = piece.tables["messages"]
            firsts, lasts = _ends(ids[some])
            start: Numbers = np.searchsorted(table["id"], firsts, side="left")
            end: Numbers = np.searchsorted(table["id"], lasts, side="right")
            counts: Numbers = end - start
            ends: Numbers = np.cumsum(counts)
            shift: Numbers = start - ends + counts
            total = int(counts.sum())
            at: Numbers = np.arange(total) + np.repeat(shift, counts)
            found.append(table[at])
            owner: Numbers = np.arange(len(counts)) + int(some.start)
            owners.append(np.repeat(owner, counts))
        return _together(found, MESSAGE), _together(owners, np.dtype(np.int64))

    def forget(self, made_before_ms: int) -> None:
        """What was made earlier than that, as far as whole spans were."""
        gone = [it for it in self.pieces if (it + 1) * PIECE_MS <= made_before_ms]
        for span in gone:
            del self.pieces[span]

    def _piece(self, span: int) -> Piece:
        """To be changed."""
        piece = self.pieces.get(span)
        if piece is None:
            tables = {name: np.empty(0, dtype) for name, dtype in KINDS.items()}
            piece = self.pieces[span] = Piece(tables, -1, self.position)
        elif piece.changed_at is None:
            piece.changed_at = max(self.position, piece.position)
        return piece


def _spans(ids: Table) -> Iterator[tuple[int, slice]]:
    """Ids in their order, those of each span."""
    spans = made_ms(ids) // PIECE_MS
    cuts = np.flatnonzero(spans[1:] != spans[:-1]) + 1
    edges = [0, *cuts.tolist(), len(ids)]
    for start, end in pairwise(edges):
        if start < end:
            yield int(spans[start]), slice(start, end)


def _places(table: Table, ids: Table) -> tuple[Numbers, Mask]:
    """Where ids are in a table, or would be; and whether they are."""
    at = np.searchsorted(table["id"], ids)
    if not len(table):
        return at, np.zeros(len(ids), np.bool_)
    inside = np.minimum(at, len(table) - 1)
    return at, table["id"][inside] == ids


def _ends(ids: Table) -> tuple[Table, Table]:
    """The lowest and the highest id with topic that messages of transactions have."""
    octets = id_bytes(ids)
    count = len(octets)
    lowest = np.zeros((count, MESSAGE["id"].itemsize), np.uint8)
    lowest[:, :16] = octets
    highest = np.full_like(lowest, 0xFF)
    highest[:, :14] = octets[:, :14]
    return id_values(lowest), id_values(highest)


def _together(some: list[Table], dtype: "np.dtype[np.generic]") -> Table:
    return np.concatenate(some) if some else np.empty(0, dtype)
