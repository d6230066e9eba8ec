"""Listing recurring schedules page by page, a bounded amount of work a page."""

from . import recurring_state as stored
from .core import DelayCore
from .recurring_calls import ListSchedules, Progress, Schedule, SchedulePage

STEP_COUNT = 25
SCAN_MAX = 5_000


class ScheduleListing:
    """A page in the making, in steps between which others may work."""

    def __init__(self, core: DelayCore, request: ListSchedules) -> None:
        self._index = core.index
        self._request = request
        one = request.topic_id
        self._topic_ids = frozenset([one] if one else request.topic_ids)
        self._start = max(stored.state(b""), request.after)
        self._scanned = 0
        self._found: list[Schedule] = []
        self._more = True

    def step(self) -> bool:
        """Look at some more; False when the page is complete."""
        rows = self._index.scan(self._start, b"Rt", STEP_COUNT)
        self._more = len(rows) == STEP_COUNT
        for key, value in rows:
            if len(self._found) >= self._request.limit:
                self._more = True
                return False
            self._start = key + b"\0"
            progress = stored.decode_progress(value)
            if self._wants(progress):
                self._found.append(stored.public(key[2:], progress, None))
        self._scanned += len(rows)
        return self._more and self._scanned < SCAN_MAX

    def _wants(self, progress: Progress) -> bool:
        if self._topic_ids and progress.topic_id not in self._topic_ids:
            return False
        return self._request.state in (0, progress.state)

    def page(self) -> SchedulePage:
        return SchedulePage(self._found, self._start if self._more else b"")
