"""How transactions ended: counters since the start of the process."""

from collections.abc import Iterator

from .words import COMMITTED, ROLLED_BACK, SOURCE_WORDS


class OutcomeCounts:
    """Counts by outcome and by who gave it."""

    def __init__(self) -> None:
        self._counts: dict[tuple[bool, int], int] = {}

    def add(self, committed: bool, source: int) -> None:
        at = (committed, source)
        self._counts[at] = self._counts.get(at, 0) + 1

    def metrics(self) -> Iterator[tuple[str, float]]:
        """Every combination, so that a series is there before its first event."""
        for committed, outcome in ((True, COMMITTED), (False, ROLLED_BACK)):
            for source, by in SOURCE_WORDS.items():
                name = f'transactions_ended_total{{outcome="{outcome}",source="{by}"}}'
                yield name, float(self._counts.get((committed, source), 0))
