"""Listing: every wanted event once, over pages of any size."""

import pytest
from tests.unit.chronos_line import START_MS, TOPIC, Line, event_id, number_of

from halfpast_chronos import listing
from halfpast_chronos.decisions import decide_cancel
from halfpast_chronos.delay_server import Cancel, Event, EventState, ListEvents
from halfpast_chronos.listing import list_events
from halfpast_chronos.operation_errors import InvalidPageToken
from halfpast_chronos.topic_controls import TopicControl


def pages(line: Line, request: ListEvents) -> list[list[Event]]:
    """All pages to the last."""
    found: list[list[Event]] = []
    while True:
        page = list_events(line.core, request)
        found.append(page.events)
        if not page.next_token:
            return found
        request.after = page.next_token


def numbers(line: Line, **fields: object) -> list[int]:
    """Numbers of all events that a request finds."""
    request = ListEvents(**fields)  # type: ignore[arg-type]
    found = [event for page in pages(line, request) for event in page]
    return [number_of(event.event_id) for event in found]


@pytest.fixture
def line() -> Line:
    """30 timers of three topics, four keys and two tags, 10 ms apart."""
    line = Line()
    for n in range(30):
        line.schedule(
            n,
            START_MS + 10 * n,
            topic_id=TOPIC + n % 3,
            key=b"key-%d" % (n % 4),
            tag=b"even" if n % 2 == 0 else b"odd",
        )
    return line


@pytest.mark.parametrize("limit", [1, 7, 10, 30, 100])
def test_pages_of_any_size_tell_the_same(line: Line, limit: int) -> None:
    assert numbers(line, limit=limit) == list(range(30))
    assert all(len(page) <= limit for page in pages(line, ListEvents(limit=limit)))


def test_filters(line: Line) -> None:
    assert numbers(line, topic_id=TOPIC + 1) == list(range(1, 30, 3))
    assert sorted(numbers(line, key=b"key-2")) == list(range(2, 30, 4))
    assert len(numbers(line, key=b"key-2", limit=1)) == 7
    assert numbers(line, tag=b"odd") == list(range(1, 30, 2))
    assert numbers(line, topic_id=TOPIC, key=b"key-0") == [0, 12, 24]
    assert numbers(line, topic_id=TOPIC, key=b"key-0", tag=b"odd") == []
    assert numbers(line, topic_id=TOPIC + 9) == []
    assert numbers(line, key=b"key") == []


def test_due_range_takes_its_first_and_leaves_its_last_moment(line: Line) -> None:
    times = {"due_after_ms": START_MS + 50, "due_before_ms": START_MS + 80}
    assert numbers(line, **times) == [5, 6, 7]
    assert numbers(line, **times, topic_id=TOPIC, key=b"key-2") == [6]


def test_keys_that_continue_each_other_are_kept_apart() -> None:
    line = Line()
    for number, key in enumerate([b"a", b"a\0", b"a\0" + bytes(16), b"ab", b""]):
        line.schedule(number, START_MS, key=key)
    assert numbers(line, topic_id=TOPIC, key=b"a") == [0]
    assert numbers(line, topic_id=TOPIC, key=b"a\0") == [1]
    assert numbers(line, topic_id=TOPIC, key=b"a\0" + bytes(16)) == [2]


def test_states(line: Line) -> None:
    line.clock.advance(40)
    line.fire_all()
    for number in (20, 21):
        line.see_through(decide_cancel(line.core, Cancel(event_id(number))))
    assert sorted(numbers(line, state=EventState.DELIVERED)) == [0, 1, 2, 3, 4]
    assert sorted(numbers(line, state=EventState.CANCELLED)) == [20, 21]
    assert numbers(line, state=EventState.DEAD) == []
    pending = [n for n in range(5, 30) if n not in (20, 21)]
    assert numbers(line) == pending
    assert numbers(line, state=EventState.DELIVERED, topic_id=TOPIC) == [0, 3]
    assert numbers(line, state=EventState.CANCELLED, key=b"key-1") == [21]


def test_finished_events_come_by_the_time_they_finished(line: Line) -> None:
    for _ in range(30):
        line.fire_all()
        line.clock.advance(10)
    assert numbers(line, state=EventState.DELIVERED, limit=4) == list(range(30))
    times = {"due_after_ms": START_MS + 50, "due_before_ms": START_MS + 80}
    assert numbers(line, state=EventState.DELIVERED, **times) == [5, 6, 7]


def test_pending_events_bring_their_record_and_finished_ones_do_not(
    line: Line,
) -> None:
    line.fire_all()
    pending = list_events(line.core, ListEvents(limit=1)).events[0]
    assert pending.record is not None
    done = list_events(line.core, ListEvents(state=EventState.DELIVERED)).events[0]
    assert done.record is None
    assert done.finished_ms == START_MS


def test_a_page_looks_at_a_bounded_number_of_rows(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "SCAN_MAX", 10)
    monkeypatch.setattr(listing, "STEP_COUNT", 5)
    request = ListEvents(tag=b"even", limit=100)
    sizes = [len(page) for page in pages(line, request)]
    assert len(sizes) == 4
    assert sum(sizes) == 15
    empty = list_events(line.core, ListEvents(tag=b"none"))
    assert empty.events == []
    assert empty.next_token


def test_a_page_is_bounded_by_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    # 100 bodies of 4 MiB would exceed what one reply may hold.
    monkeypatch.setattr(listing, "PAGE_SIZE", 2000)
    line = Line()
    for number in range(10):
        line.schedule(number, START_MS + number, body=bytes(900))
    sizes = [len(page) for page in pages(line, ListEvents())]
    assert max(sizes) == 3
    assert numbers(line) == list(range(10))


def test_steps_are_small(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "STEP_COUNT", 25)
    made = listing.Listing(line.core, ListEvents())
    assert made.step()  # reads the first of each topic
    assert made.step()
    assert len(made.page().events) == listing.STEP_COUNT
    assert not made.step()
    assert len(made.page().events) == 30
    assert made.page().next_token == b""


def test_what_changes_between_pages_disturbs_no_other_event(line: Line) -> None:
    first = list_events(line.core, ListEvents(limit=10))
    line.see_through(decide_cancel(line.core, Cancel(event_id(9))))
    line.see_through(decide_cancel(line.core, Cancel(event_id(10))))
    line.schedule(99, START_MS + 1)
    rest = numbers(line, after=first.next_token)
    assert rest == list(range(11, 30))


def test_nothing_to_list() -> None:
    assert numbers(Line()) == []
    assert numbers(Line(), state=EventState.CANCELLED) == []


@pytest.mark.parametrize(
    "other",
    [
        ListEvents(),
        ListEvents(key=b"key-1"),
        ListEvents(state=EventState.DELIVERED),
        ListEvents(state=EventState.DEAD),
    ],
)
def test_a_token_goes_on_with_its_own_list_only(line: Line, other: ListEvents) -> None:
    line.clock.advance(100)
    line.fire_all()
    tokens = {
        list_events(line.core, ListEvents(limit=1)).next_token,
        list_events(line.core, ListEvents(limit=1, key=b"key-1")).next_token,
        list_events(
            line.core, ListEvents(limit=1, state=EventState.DELIVERED)
        ).next_token,
        b"p",
        b"x" * 25,
    }
    refused = 0
    for token in tokens:
        other.after = token
        try:
            list_events(line.core, other)
        except InvalidPageToken:
            refused += 1
    assert refused >= 4


def test_a_page_looks_at_a_bounded_number_of_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(listing, "SCAN_SIZE_MAX", 10_000)
    monkeypatch.setattr(listing, "STEP_COUNT", 4)
    line = Line()
    for number in range(40):
        line.schedule(number, START_MS + number, body=bytes(1000))
    request = ListEvents(tag=b"none")
    assert len(pages(line, request)) == 4


@pytest.mark.parametrize("topics", [1, 3, 40])
def test_topics_are_merged_by_due_time(topics: int) -> None:
    line = Line()
    for n in range(120):
        due_ms = START_MS + (n * 37 % 120)
        line.schedule(n, due_ms, topic_id=TOPIC + n % topics)
    found = numbers(line, limit=7)
    assert [line.event(n).due_ms for n in found] == sorted(
        line.event(n).due_ms for n in range(120)
    )
    assert sorted(found) == list(range(120))


def test_dead_events_bring_their_record(line: Line) -> None:
    line.core.control(TOPIC, TopicControl(closed="topic_closed"))
    while not numbers(line, state=EventState.DEAD):
        line.clock.advance(400_000)
        line.fire_all()
    dead = numbers(line, state=EventState.DEAD, limit=3)
    assert sorted(dead) == list(range(0, 30, 3))
    request = ListEvents(state=EventState.DEAD, key=b"key-0")
    found = list_events(line.core, request).events
    assert {number_of(event.event_id) for event in found} == {0, 12, 24}
    assert all(event.record for event in found)
    assert numbers(line, state=EventState.DEAD, topic_id=TOPIC + 1) == []
