"""Adding to the live counts, once for each batch of a stream.

What a batch changes and the number of the batch are one transaction (`live_guard.py`),
so that a batch that is run again changes nothing.
"""

from . import live_counts, live_figures
from .live_deltas import Changes
from .live_guard import NOTHING_SEEN, LiveStream, Seen, forget, note_seen, read_seen
from .results_database import ResultsDatabase


class LiveResults:
    """The live counts of one stream in the database."""

    def __init__(self, database: ResultsDatabase, stream: LiveStream) -> None:
        self._database = database
        self._stream = stream

    def forget(self) -> None:
        """Nothing has been counted. Raises ResultsUnavailable."""
        with self._database.transaction() as connection:
            forget(connection, self._stream)

    def seen(self) -> Seen:
        """How far the stream has come. Raises StreamConflict, ResultsUnavailable."""
        with self._database.transaction() as connection:
            return read_seen(connection, self._stream)

    def take(self, batch_id: int, changes: Changes) -> bool:
        """Add what a batch changes; False if it has been added before.

        Raises StreamConflict, ResultsUnavailable; then nothing was added (or, if the
        connection broke at the very end, all of it: the next try will tell).
        """
        stream = self._stream
        with self._database.transaction() as connection:
            known = read_seen(connection, stream)
            if batch_id <= known.batch_id:
                return False
            seen = Seen(
                batch_id,
                max(known.position, changes.position),
                max(known.horizon_ms, changes.horizon_ms),
                known.events + changes.events,
                tuple(dict.fromkeys((*known.gaps, *changes.gaps))),
            )
            live_counts.add_counts(connection, stream, changes, seen.horizon_ms)
            live_figures.derive_quantiles(connection, stream, changes)
            live_figures.settle(
                connection,
                stream,
                known_ms=known.horizon_ms,
                horizon_ms=seen.horizon_ms,
                changes=changes,
            )
            note_seen(connection, stream, seen)
        return True

    def move_horizon(self, horizon_ms: int) -> Seen:
        """Nothing has come until then: what was due before has been lost."""
        stream = self._stream
        with self._database.transaction() as connection:
            known = read_seen(connection, stream)
            if known == NOTHING_SEEN or horizon_ms <= known.horizon_ms:
                return known
            live_figures.settle(
                connection, stream, known_ms=known.horizon_ms, horizon_ms=horizon_ms
            )
            seen = known._replace(horizon_ms=horizon_ms)
            note_seen(connection, stream, seen)
            return seen
