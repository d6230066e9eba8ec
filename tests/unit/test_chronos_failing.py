"""Events that their topic does not take: tried again, dead, redriven."""

from itertools import pairwise

import pytest
from tests.unit.chronos_line import (
    START_MS,
    TOPIC,
    Line,
    event_id,
    own_record,
    schedule_record,
)

from halfpast_chronos import keys
from halfpast_chronos.decisions import (
    Command,
    decide_cancel,
    decide_replace,
    decide_reschedule,
)
from halfpast_chronos.delay_server import (
    Cancel,
    Cancelled,
    EventState,
    Happening,
    Replace,
    Reschedule,
)
from halfpast_chronos.errors import (
    AlreadyCancelled,
    AlreadyDelivered,
    EventDead,
    EventNotDead,
    StaleVersion,
    TooManyPending,
    UnknownEvent,
)
from halfpast_chronos.failing_decisions import decide_redrive
from halfpast_chronos.release_calls import ListDead, Redrive
from halfpast_chronos.release_state import list_dead, release_state, topic_state
from halfpast_chronos.topic_controls import CLOSED, UNKNOWN
from halfpast_core_store.broker import Append
from halfpast_core_store.errors import Overloaded, RequestTooLarge, UnknownTopic
from halfpast_core_store.record import RecordKind, decode_record

OTHER = TOPIC + 1
BACK_OFF_S = [1, 2, 4, 8, 16, 32, 64, 128, 256]


def tried(line: Line, until_ms: int) -> list[int]:
    """When the event 1 was tried, counted from the start of the line."""
    found: list[int] = []
    while line.now_ms < until_ms:
        line.load()
        before = line.event(1).attempts
        line.fire_all()
        event = line.event(1)
        if event.attempts != before:
            found.append(line.now_ms - START_MS)
        if not event.pending:
            break
        line.clock.advance(max(1, event.timer_ms - line.now_ms))
    return found


def dead_line(**fields: object) -> Line:
    """Event 1 is dead, since its topic was closed at first; it is open now."""
    line = Line(attempts_max=2, retry_initial_ms=10)
    line.schedule(1, START_MS, **fields)
    line.control(closed=CLOSED)
    tried(line, START_MS + 1000)
    assert line.event(1).state == EventState.DEAD
    line.control()
    return line


def test_a_closed_topic_is_tried_ten_times_with_growing_pauses() -> None:
    line = Line()
    line.control(closed=CLOSED)
    line.schedule(1, START_MS)
    times = tried(line, START_MS + 3_600_000)
    assert times == [1000 * sum(BACK_OFF_S[:n]) for n in range(10)]
    event = line.event(1)
    assert (event.state, event.attempts, event.retry_ms) == (EventState.DEAD, 10, 0)
    assert event.reason == CLOSED
    assert [what for _, what in event.timeline] == [
        Happening.SCHEDULED,
        *[Happening.FAILED] * 9,
        Happening.DEAD,
    ]
    assert line.arrivals == []
    assert line.core.counters()["failed_attempts_total"] == 10
    assert line.core.counters()["dead_total"] == 1


def test_pauses_grow_no_longer_than_their_maximum() -> None:
    line = Line(attempts_max=1000, retry_max_ms=5_000)
    line.control(closed=CLOSED)
    line.schedule(1, START_MS)
    times = tried(line, START_MS + 60_000)
    assert times[:5] == [0, 1000, 3000, 7000, 12_000]
    assert {b - a for a, b in pairwise(times[3:])} == {5_000}


def test_what_is_taken_at_last_is_delivered_with_its_own_due_time() -> None:
    line = Line()
    line.control(closed=CLOSED)
    line.schedule(1, START_MS + 5, key=b"k", body=b"hello")
    line.clock.advance(5)
    assert line.fire_all() == []
    line.control()
    line.clock.advance(999)
    assert line.fire_all() == []
    line.clock.advance(1)
    assert line.fire_all() == [1]
    (arrival,) = line.arrivals
    assert (arrival.due_ms, arrival.body) == (START_MS + 5, b"hello")
    event = line.event(1)
    assert event.state == EventState.DELIVERED
    assert event.public(event_id(1), None).lateness_ms == 1000
    assert [what for _, what in event.timeline] == [
        Happening.SCHEDULED,
        Happening.FAILED,
        Happening.DELIVERED,
    ]
    assert not line.index.scan(b"D", b"E", 10)
    assert not line.index.scan(b"K", b"L", 10)


def test_a_message_that_is_delivered_late_tells_of_no_attempts() -> None:
    line = Line()
    line.control(closed=CLOSED)
    line.schedule(1, START_MS)
    line.fire_all()
    line.control()
    line.clock.advance(1000)
    line.load()
    firing = line.core.fire()
    assert firing is not None
    (record,) = firing.request.runs[0].records
    assert decode_record(record).attempt == 0


def test_a_body_over_the_present_limit_fails_and_others_do_not() -> None:
    line = Line()
    line.schedule(1, START_MS, body=bytes(100))
    line.schedule(2, START_MS, body=bytes(10), tag=b"t" * 100)
    line.control(body_size_max=99)
    assert line.fire_all() == [2]
    assert line.event(1).reason.startswith("body_too_large: the body takes 100 bytes")
    line.control(body_size_max=100)
    line.clock.advance(1000)
    assert line.fire_all() == [1]


def test_other_topics_are_not_affected() -> None:
    line = Line(fire_count=10)
    line.control(closed=CLOSED)
    for number in range(300):
        line.schedule(number, START_MS, topic_id=TOPIC if number % 2 else OTHER)
    assert sorted(line.fire_all()) == list(range(0, 300, 2))
    assert {line.event(n).attempts for n in range(1, 300, 2)} == {1}
    assert line.core.failing.retrying(TOPIC) == 150
    assert line.core.failing.retrying(OTHER) == 0


def test_a_topic_that_the_broker_does_not_know_is_closed() -> None:
    line = Line()
    line.core.control(TOPIC, UNKNOWN)
    line.schedule(1, START_MS)
    assert line.fire_all() == []
    assert line.event(1).reason.startswith("unknown_topic")


# --- frames that the broker refuses ---------------------------------------------


def send_all(line: Line, bad: set[int]) -> list[int]:
    """Fire everything to a broker that refuses frames with bad events as a whole;
    sizes of the frames that it was sent."""
    sizes: list[int] = []
    while True:
        line.load()
        firing = line.core.fire()
        if firing is None:
            return sizes
        sizes.append(len(firing.keys))
        messages = [run.records for run in firing.request.runs if run.topic_id >= TOPIC]
        numbers = {int.from_bytes(r[16:32], "big") for some in messages for r in some}
        if numbers & bad:
            line.core.refused(firing, UnknownTopic("gone"))
        else:
            line.send(firing)


def test_one_bad_message_does_not_hold_up_those_in_its_frame() -> None:
    line = Line(fire_count=20)
    for number in range(100):
        line.schedule(number, START_MS)
    send_all(line, {13})
    delivered = {int.from_bytes(a.event_id, "big") for a in line.arrivals}
    assert delivered == {*range(100)} - {13}
    event = line.event(13)
    assert event.attempts == 1
    assert event.reason.startswith("unknown_topic: ")


def test_what_failed_before_is_not_sent_with_what_did_not() -> None:
    line = Line(fire_count=20)
    line.schedule(13, START_MS)
    send_all(line, {13})
    line.clock.advance(1000)
    for number in range(100, 110):
        line.schedule(number, line.now_ms)
    assert sorted(send_all(line, {13})) == [1, 1, 10]
    assert line.event(13).attempts == 2
    assert line.core.counters()["fired_total"] == 10


def test_a_message_that_is_too_large_for_the_broker_fails_alone() -> None:
    line = Line()
    line.schedule(1, START_MS, body=bytes(3000))
    for number in range(2, 40):
        line.schedule(number, START_MS, body=bytes(100))
    sizes: list[int] = []
    while True:
        line.load()
        firing = line.core.fire()
        if firing is None:
            break
        size = sum(len(r) for run in firing.request.runs for r in run.records)
        if size > 2000:
            line.core.refused(firing, RequestTooLarge(size, 2000))
        else:
            sizes.append(len(firing.keys))
            line.send(firing)
    assert len(line.arrivals) == 38
    assert line.event(1).reason.startswith("request_too_large")
    assert max(sizes) > 4, "the frames have not become small for ever"


def test_an_overload_is_nobodys_fault() -> None:
    line = Line()
    line.schedule(1, START_MS)
    line.load()
    firing = line.core.fire()
    assert firing is not None
    assert not line.core.refused(firing, Overloaded("system"))
    assert line.fire_all() == [1]
    assert line.event(1).attempts == 0


def test_a_bad_message_that_is_cancelled_meanwhile_is_gone() -> None:
    line = Line()
    line.schedule(1, START_MS)
    line.load()
    firing = line.core.fire()
    assert firing is not None
    assert line.core.refused(firing, UnknownTopic("gone"))
    line.see_through(decide_cancel(line.core, Cancel(event_id(1))))
    assert line.core.fire() is None
    assert line.fire_all() == []


# --- decisions about what fails -------------------------------------------------


def failing_line() -> Line:
    """Event 1 has failed once."""
    line = Line()
    line.control(closed=CLOSED)
    line.schedule(1, START_MS, key=b"k")
    line.fire_all()
    assert line.event(1).attempts == 1
    return line


def test_a_failing_event_can_be_cancelled() -> None:
    line = failing_line()
    line.see_through(decide_cancel(line.core, Cancel(event_id(1))))
    line.control()
    line.clock.advance(600_000)
    assert line.fire_all() == []
    assert line.event(1).state == EventState.CANCELLED
    assert not line.index.scan(b"D", b"E", 10)
    assert not line.index.scan(b"T", b"U", 10)


@pytest.mark.parametrize("now", [True, False])
def test_a_failing_event_that_is_moved_has_all_its_attempts_again(now: bool) -> None:
    line = failing_line()
    request = Reschedule(event_id(1), START_MS + 10, deliver_now=now)
    line.see_through(decide_reschedule(line.core, request))
    event = line.event(1)
    assert (event.attempts, event.retry_ms, event.reason) == (0, 0, "")
    assert not line.index.scan(b"D", b"E", 10)
    line.clock.advance(10)
    line.fire_all()
    assert line.event(1).attempts == 1
    line.control()
    line.clock.advance(1000)
    assert line.fire_all() == [1]


def test_a_failing_event_that_is_replaced_has_all_its_attempts_again() -> None:
    line = Line()
    line.control(closed=CLOSED)
    record = own_record(1, START_MS, b"own")
    line.see_through(decide_replace(line.core, Replace(record)))
    line.fire_all()
    assert line.event(1).attempts == 1
    record = own_record(2, START_MS + 5, b"own", body=b"new")
    line.see_through(decide_replace(line.core, Replace(record)))
    assert line.event(1).attempts == 0
    line.control()
    line.clock.advance(5)
    assert line.fire_all() == [1]
    assert line.arrivals[0].body == b"new"


def test_a_failing_event_shows_why_and_when_it_is_tried_again() -> None:
    line = failing_line()
    event = line.event(1)
    shown = event.public(event_id(1), line.core.record_of(event_id(1), event))
    assert (shown.attempts, shown.reason) == (1, CLOSED)
    assert shown.retry_ms == START_MS + 1000
    assert shown.due_ms == START_MS
    assert shown.record is not None


# --- dead -----------------------------------------------------------------------


def test_a_dead_event_is_kept_with_its_message_and_listed() -> None:
    line = dead_line(key=b"k", body=b"precious")
    event = line.event(1)
    record = line.core.record_of(event_id(1), event)
    assert record is not None
    assert decode_record(record).body == b"precious"
    assert not line.index.scan(b"T", b"U", 10)
    assert not line.index.scan(b"K", b"L", 10)
    (shown,) = list_dead(line.core, ListDead(TOPIC)).events
    assert shown.event_id == event_id(1)
    assert shown.reason == CLOSED
    assert shown.record == record
    assert list_dead(line.core, ListDead(OTHER)).events == []
    assert len(list_dead(line.core, ListDead()).events) == 1


def test_a_dead_event_outlives_the_history() -> None:
    line = dead_line()
    line.clock.advance(line.config.history_ms * 2)
    while line.core.forget(10):
        pass
    assert line.event(1).state == EventState.DEAD


def test_a_redriven_event_is_due_now_with_all_its_attempts() -> None:
    line = dead_line(key=b"k", body=b"precious")
    line.clock.advance(5_000)
    command = line.see_through(decide_redrive(line.core, Redrive(event_id(1), 1)))
    assert isinstance(command, Command)
    event = line.event(1)
    assert (event.state, event.version) == (EventState.SCHEDULED, 2)
    assert event.due_ms == line.now_ms
    assert (event.attempts, event.reason, event.finished_ms) == (0, "", 0)
    assert not line.index.scan(b"D", b"E", 10)
    assert line.fire_all() == [1]
    assert line.arrivals[0].body == b"precious"
    assert line.event(1).timeline[-2:] == [
        (line.now_ms, Happening.REDRIVEN),
        (line.now_ms, Happening.DELIVERED),
    ]


def test_a_redriven_event_may_die_again() -> None:
    line = dead_line()
    line.control(closed=CLOSED)
    line.see_through(decide_redrive(line.core, Redrive(event_id(1))))
    tried(line, line.now_ms + 1000)
    assert line.event(1).state == EventState.DEAD
    assert line.core.failing.dead(TOPIC) == 1


def test_a_dead_event_can_be_given_up() -> None:
    line = dead_line()
    line.see_through(decide_cancel(line.core, Cancel(event_id(1), 1)))
    assert line.event(1).state == EventState.CANCELLED
    assert not line.index.scan(b"D", b"E", 10)
    again = decide_cancel(line.core, Cancel(event_id(1)))
    assert isinstance(again, Cancelled)
    assert again.outcome == "cancelled"
    with pytest.raises(AlreadyCancelled):
        decide_redrive(line.core, Redrive(event_id(1)))


def test_a_dead_event_cannot_be_rescheduled() -> None:
    line = dead_line()
    with pytest.raises(EventDead):
        decide_reschedule(line.core, Reschedule(event_id(1), START_MS))


def test_only_what_is_dead_can_be_redriven() -> None:
    line = Line()
    with pytest.raises(UnknownEvent):
        decide_redrive(line.core, Redrive(event_id(1)))
    line.schedule(1, START_MS)
    with pytest.raises(EventNotDead):
        decide_redrive(line.core, Redrive(event_id(1)))
    line.fire_all()
    with pytest.raises(AlreadyDelivered):
        decide_redrive(line.core, Redrive(event_id(1)))
    with pytest.raises(StaleVersion):
        decide_redrive(dead_line().core, Redrive(event_id(1), 7))


def test_an_own_key_of_a_dead_event_is_free() -> None:
    line = Line(attempts_max=1)
    line.control(closed=CLOSED)
    replace = Replace(own_record(1, START_MS, b"own"))
    line.see_through(decide_replace(line.core, replace))
    line.fire_all()
    assert line.event(1).state == EventState.DEAD
    made = decide_replace(line.core, Replace(own_record(2, START_MS, b"own")))
    assert line.see_through(made).created
    with pytest.raises(EventNotDead):
        decide_redrive(line.core, Redrive(event_id(2)))
    line.see_through(decide_redrive(line.core, Redrive(event_id(1))))
    line.control()
    assert sorted(line.fire_all()) == [1, 2]


def test_pages_of_dead_events() -> None:
    line = Line(attempts_max=1)
    for topic in (TOPIC, OTHER):
        line.control(topic, closed=CLOSED)
    for number in range(20):
        line.schedule(number, START_MS, topic_id=OTHER if number % 4 else TOPIC)
    line.fire_all()
    seen: list[int] = []
    token = b""
    while True:
        page = list_dead(line.core, ListDead(0, 3, token))
        assert len(page.events) <= 3
        seen += [int.from_bytes(it.event_id, "big") for it in page.events]
        token = page.next_token
        if not token:
            break
    assert sorted(seen) == list(range(20))
    assert seen[:5] == [0, 4, 8, 12, 16]
    assert line.core.failing.dead(OTHER) == 15


# --- applied again --------------------------------------------------------------


@pytest.mark.parametrize("kind", ["failed", "dead", "redriven"])
def test_what_is_applied_again_changes_nothing(kind: str) -> None:
    line = failing_line() if kind == "failed" else dead_line()
    if kind == "redriven":
        line.see_through(decide_redrive(line.core, Redrive(event_id(1))))
    contents = line.index.contents()
    for frame in line.frames[1:]:
        line.core.position = frame.position
        line.core.apply([frame], frame.end)
    assert line.index.contents() == contents


@pytest.mark.parametrize("kept", range(12))
def test_a_crash_at_any_point_ends_alike(kept: int) -> None:
    line = dead_line()
    line.see_through(decide_redrive(line.core, Redrive(event_id(1))))
    line.fire_all()
    wanted = line.index.contents()
    line.crash(min(kept, line.index.batches_at_risk))
    line.fire_all()
    assert line.index.contents() == wanted
    assert len(line.arrivals) == 1


def test_failed_attempts_are_claimed_until_they_are_applied() -> None:
    line = Line()
    line.control(closed=CLOSED)
    line.schedule(1, START_MS)
    line.load()
    firing = line.core.fire()
    assert firing is not None
    assert line.core.claims == {event_id(1)}
    assert line.core.fire() is None
    line.send(firing)
    assert not line.core.claims


def test_a_failed_attempt_that_was_not_stored_is_tried_again() -> None:
    line = Line()
    line.control(closed=CLOSED)
    line.schedule(1, START_MS)
    line.load()
    firing = line.core.fire()
    assert firing is not None
    line.core.refused(firing)
    assert line.event(1).attempts == 0
    line.fire_all()
    assert line.event(1).attempts == 1


def test_records_about_unknown_or_later_events_are_passed_over() -> None:
    line = Line()
    line.schedule(1, START_MS)
    line.load()
    line.control(closed=CLOSED)
    firing = line.core.fire()
    assert firing is not None
    line.core.refused(firing)
    line.see_through(
        decide_reschedule(line.core, Reschedule(event_id(1), START_MS + 9))
    )
    contents = line.index.contents()
    line.append(Append(firing.request.runs))  # as if an old one came now
    line.follow()
    after = line.index.contents()
    assert {k: v for k, v in after.items() if k[:1] != b"M"} == {
        k: v for k, v in contents.items() if k[:1] != b"M"
    }


def test_a_quota_stops_new_own_keys_and_no_replacement() -> None:
    line = Line()
    record = own_record(1, START_MS + 50, b"a")
    line.see_through(decide_replace(line.core, Replace(record, pending_max=1)))
    record = own_record(2, START_MS + 60, b"b")
    with pytest.raises(TooManyPending):
        decide_replace(line.core, Replace(record, pending_max=1))
    record = own_record(3, START_MS + 70, b"a")
    line.see_through(decide_replace(line.core, Replace(record, pending_max=1)))
    assert line.event(1).due_ms == START_MS + 70


def test_the_state_of_a_topic_tells_what_waits_and_why() -> None:
    line = Line(attempts_max=2, retry_initial_ms=10)
    line.append_records([schedule_record(n, START_MS + 100 * n) for n in range(10)])
    line.follow()
    line.clock.advance(250)
    *_, state = topic_state(line.core, TOPIC)
    assert state is not None
    assert (state.pending, state.due_now, state.oldest_due_ms) == (10, 3, START_MS)
    assert state.release_state == "open"
    line.control(closed=CLOSED)
    line.fire_all()
    assert release_state(line.core, TOPIC) == "closed"
    *_, state = topic_state(line.core, TOPIC)
    assert state is not None
    assert (state.retrying, state.dead, state.due_now) == (3, 0, 0)
    line.clock.advance(10)
    line.fire_all()
    *_, state = topic_state(line.core, TOPIC)
    assert state is not None
    assert (state.retrying, state.dead, state.pending) == (0, 3, 7)
    *_, unknown = topic_state(line.core, OTHER)
    assert unknown is not None
    assert (unknown.pending, unknown.oldest_due_ms) == (0, 0)


def test_a_dead_letter_record_tells_its_reason_within_bounds() -> None:
    line = Line(attempts_max=1)
    line.schedule(1, START_MS)
    line.load()
    firing = line.core.fire()
    assert firing is not None
    line.core.refused(firing, UnknownTopic("ü" * 500))
    line.fire_all()
    event = line.event(1)
    assert event.state == EventState.DEAD
    assert 100 < len(event.reason.encode()) <= 200
    assert event.encode()
    (record,) = (
        decode_record(data)
        for frame in line.frames
        for data in frame.records
        if data[4] == RecordKind.DEAD
    )
    assert record.due_ms == 0
    assert line.index.scan(*keys.dead_range(TOPIC), 10)
