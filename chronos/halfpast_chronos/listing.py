"""Listing events page by page, a bounded amount of work and bytes a page."""

from collections.abc import Sequence

from halfpast_core_store.ports import Index

from . import keys
from .core import DelayCore
from .delay_server import Event, EventPage, EventState, ListEvents
from .listing_rows import Dead, Finished, Keyed, ListedRow, ListedRows, Pending
from .operation import EventFilter
from .operation_errors import InvalidPageToken
from .record_filter import RecordFilter

STEP_COUNT = 50
SCAN_MAX = 5_000
SCAN_SIZE_MAX = 16 * 1024 * 1024
PAGE_SIZE = 4 * 1024 * 1024
PENDING, KEYED, DEAD, FINISHED = b"p", b"k", b"d", b"f"
"""What a token begins with: the place whose rows it goes on with."""


class Listing:
    """A page in the making. Pending events come by due time (with a key: by topic, and
    in order of their ids), finished ones by the time they finished.

    Made in steps, between which others may work: a row may bring a body of 4 MiB,
    and most rows may be of no interest. Raises InvalidPageToken.
    """

    def __init__(self, core: DelayCore, request: ListEvents) -> None:
        self._core = core
        self._request = request
        self._filter = RecordFilter(request.key, request.tag)
        self._topic_ids = frozenset(request.topic_ids)
        self._place, self._rows = rows_for(core, request)
        self._scanned = 0
        self._scanned_size = 0
        self._size = 0
        self._events: list[Event] = []
        self._behind = request.after
        self._is_over = False

    def step(self) -> bool:
        """Look at some more rows; False when the page is complete."""
        rows = self._rows.take(STEP_COUNT)
        wanted = {row.event_id for row in rows if self._may_want(row)}
        events = self._known(wanted, rows)
        for row in rows:
            self._behind = self._place + row.behind
            event = events.get(row.event_id)
            if event is not None and self._wants(event):
                self._events.append(event)
                self._size += len(event.record or b"")
                if self._is_full:
                    return False
        self._scanned += len(rows)
        self._scanned_size += sum(len(row.record or b"") for row in rows)
        self._is_over = self._rows.is_over
        tired = self._scanned >= SCAN_MAX or self._scanned_size >= SCAN_SIZE_MAX
        return not (self._is_over or tired)

    def page(self) -> EventPage:
        """What has been found, and where to go on if that is not all."""
        return EventPage(self._events, b"" if self._is_over else self._behind)

    def _may_want(self, row: ListedRow) -> bool:
        """Told without looking at where the event stands, which costs far more."""
        return row.record is None or self._filter.wants(row.record)

    def _known(
        self, wanted: set[bytes], rows: Sequence[ListedRow]
    ) -> dict[bytes, Event]:
        some = [row for row in rows if row.event_id in wanted]
        states = self._core.states.of_records(
            [row.event_id for row in some], [row.record for row in some]
        )
        return {
            row.event_id: state.public(row.event_id, row.record)
            for row, state in zip(some, states, strict=True)
            if state is not None
        }

    def _wants(self, event: Event) -> bool:
        request = self._request
        if event.state != request.state:
            return False
        if request.topic_id and event.topic_id != request.topic_id:
            return False
        if self._topic_ids and event.topic_id not in self._topic_ids:
            return False
        if request.key is not None and event.key != request.key:
            return False
        return request.tag is None or event.record is not None

    @property
    def _is_full(self) -> bool:
        return len(self._events) >= self._request.limit or self._size >= PAGE_SIZE


def list_events(core: DelayCore, request: ListEvents) -> EventPage:
    """A whole page in one go."""
    listing = Listing(core, request)
    while listing.step():
        pass
    return listing.page()


def rows_for(core: DelayCore, request: ListEvents) -> tuple[bytes, ListedRows]:
    """The place to look at, and its rows behind the token. Raises InvalidPageToken."""
    index: Index = core.index
    wanted = EventFilter(
        request.topic_id,
        request.key,
        request.tag,
        request.due_after_ms,
        request.due_before_ms,
        tuple(sorted(request.topic_ids)),
    )
    place, after = place_of(request), request.after[1:]
    if request.after and (request.after[:1] != place or not after):
        raise InvalidPageToken
    if place == DEAD:
        return place, Dead(index, request.topic_id, after)
    if place == FINISHED:
        return place, Finished(index, wanted, after)
    if place == KEYED:
        return place, Keyed(index, wanted, after)
    prefixes = core.horizon.prefixes()
    if request.topic_id:
        prefixes = [keys.timer_prefix(request.topic_id)]
    elif request.topic_ids:
        prefixes = [keys.timer_prefix(topic_id) for topic_id in wanted.topic_ids]
    return place, Pending(index, prefixes, wanted, after)


def place_of(request: ListEvents) -> bytes:
    if request.state == EventState.DEAD:
        return DEAD
    if request.state != EventState.SCHEDULED:
        return FINISHED
    return KEYED if request.key else PENDING
