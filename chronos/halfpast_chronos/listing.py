"""Listing events page by page, a bounded amount of work and bytes a page."""

from collections.abc import Callable

from halfpast_core_store.record import decode_record

from . import keys
from .core import DelayCore
from .delay_server import Event, EventPage, EventState, ListEvents
from .pending_rows import PendingRows, Row

STEP_COUNT = 25
SCAN_MAX = 5_000
PAGE_SIZE = 4 * 1024 * 1024


class Listing:
    """A page in the making. Pending events come by due time (or, with a topic and a
    key, in order of their ids), finished ones by the time they finished.

    Made in steps, between which others may work: a row may bring a body of 4 MiB,
    and most rows may be of no interest.
    """

    def __init__(self, core: DelayCore, request: ListEvents) -> None:
        self._core = core
        self._request = request
        self._read, start, self._end = scan_plan(request)
        self._start = max(start, request.after)
        self._pending: PendingRows | None = None
        if self._read is pending_event:
            prefixes = core.horizon.prefixes()
            if request.topic_id:
                prefixes = [keys.timer_prefix(request.topic_id)]
            self._pending = PendingRows(
                core.index, prefixes, self._start, request.due_before_ms
            )
        self._scanned = 0
        self._size = 0
        self._events: list[Event] = []
        self._token = b""

    def step(self) -> bool:
        """Look at some more rows; False when the page is complete."""
        if self._pending is not None and not self._pending.ready:
            self._pending.prime()
            if not self._pending.ready:
                return True
        rows = self._rows()
        for row in rows:
            self._start = self._behind(row[0])
            self._take(row)
            if self._full:
                break
        self._scanned += len(rows)
        more = self._full or len(rows) == STEP_COUNT
        self._token = self._start if more else b""
        return more and not self._full and self._scanned < SCAN_MAX

    def _rows(self) -> list[Row]:
        if self._pending is not None:
            return self._pending.take(STEP_COUNT)
        return self._core.index.scan(self._start, self._end, STEP_COUNT)

    def _behind(self, key: bytes) -> bytes:
        """Where a page goes on that ends with this row."""
        if self._pending is not None:
            return key[keys.TIMER_PREFIX_SIZE :] + b"\0"
        return key + b"\0"

    def page(self) -> EventPage:
        """What has been found, and where to go on if that is not all."""
        return EventPage(self._events, self._token)

    def _take(self, row: Row) -> None:
        event = self._read(self._core, row)
        if event is not None and wanted(event, self._request):
            self._events.append(event)
            self._size += len(event.record or b"")

    @property
    def _full(self) -> bool:
        return len(self._events) >= self._request.limit or self._size >= PAGE_SIZE


def list_events(core: DelayCore, request: ListEvents) -> EventPage:
    """A whole page in one go."""
    listing = Listing(core, request)
    while listing.step():
        pass
    return listing.page()


def scan_plan(
    request: ListEvents,
) -> tuple[Callable[[DelayCore, Row], Event | None], bytes, bytes]:
    """How to read a row, and the first key and the end of the rows to look at."""
    if request.state != EventState.SCHEDULED:
        start = keys.finished(request.due_after_ms, b"")
        return finished_event, start, keys.finished(request.due_before_ms, b"")
    if request.key is not None and request.topic_id:
        return keyed_event, *keys.by_key_range(request.topic_id, request.key)
    return pending_event, keys.BIG_U64.pack(request.due_after_ms) + bytes(16), b""


def pending_event(core: DelayCore, row: Row) -> Event | None:
    event_id = row[0][keys.TIMER_ID_AT :]
    event = core.event(event_id)
    return None if event is None else event.public(event_id, row[1])


def keyed_event(core: DelayCore, row: Row) -> Event | None:
    event_id = row[0][-16:]
    event = core.event(event_id)
    if event is None or not event.pending:
        return None
    return event.public(event_id, core.record_of(event_id, event))


def finished_event(core: DelayCore, row: Row) -> Event | None:
    event_id = row[0][9:]
    event = core.event(event_id)
    return None if event is None else event.public(event_id, None)


def wanted(event: Event, request: ListEvents) -> bool:
    """Whether the filter keeps this event."""
    if event.state != request.state:
        return False
    if request.topic_id and event.topic_id != request.topic_id:
        return False
    if request.key is not None and event.key != request.key:
        return False
    in_time = request.due_after_ms <= event.due_ms < request.due_before_ms
    if event.state == EventState.SCHEDULED and not in_time:
        return False
    if request.tag is None:
        return True
    return event.record is not None and decode_record(event.record).tag == request.tag
