"""Cancel, reschedule and deliver-now: who decides, and what is answered."""

import pytest
from tests.unit.chronos_line import START_MS, Line, busy_with, event_id

from halfpast_chronos import keys
from halfpast_chronos.core import Firing
from halfpast_chronos.decisions import (
    Command,
    decide_cancel,
    decide_reschedule,
    event_text,
)
from halfpast_chronos.delay_server import (
    Cancel,
    Cancelled,
    EventState,
    Happening,
    Reschedule,
)
from halfpast_chronos.errors import (
    AlreadyCancelled,
    AlreadyDelivered,
    StaleVersion,
    UnknownEvent,
)
from halfpast_core_store.record import decode_record

ONE = event_id(1)


def cancelled(line: Line, number: int = 1, version: int | None = None) -> Cancelled:
    """What a cancel answers at once."""
    decision = decide_cancel(line.core, Cancel(event_id(number), version))
    assert isinstance(decision, Cancelled), decision
    return decision


def start_firing(line: Line) -> Firing:
    line.load()
    firing = line.core.fire()
    assert firing is not None
    return firing


def move(line: Line, due_ms: int, version: int | None = None) -> None:
    request = Reschedule(ONE, due_ms, version)
    line.see_through(decide_reschedule(line.core, request))


# --- cancel ---------------------------------------------------------------------


def test_a_cancelled_timer_never_fires() -> None:
    line = Line()
    line.schedule(1, START_MS + 5)
    line.see_through(decide_cancel(line.core, Cancel(ONE)))
    line.clock.advance(10)
    assert line.fire_all() == []
    event = line.event(1)
    assert event.state == EventState.CANCELLED
    assert event.version == 2
    assert line.core.cancelled_count == 1
    assert not line.index.scan(b"T", b"U", 10)
    assert not line.core.claims


def test_a_repeated_cancel_is_cancelled_again() -> None:
    line = Line()
    line.schedule(1, START_MS + 5)
    line.see_through(decide_cancel(line.core, Cancel(ONE)))
    answer = cancelled(line)
    assert answer.outcome == "cancelled"
    assert answer.event is not None
    assert answer.event.state == EventState.CANCELLED


def test_cancel_after_delivery_is_too_late() -> None:
    line = Line()
    line.schedule(1, START_MS)
    line.fire_all()
    assert cancelled(line).outcome == "too_late"


def test_cancel_of_an_unknown_event_is_not_found() -> None:
    assert cancelled(Line()) == Cancelled("not_found")


def test_cancel_of_another_version_is_stale() -> None:
    line = Line()
    line.schedule(1, START_MS + 5)
    with pytest.raises(StaleVersion) as caught:
        decide_cancel(line.core, Cancel(ONE, 7))
    assert caught.value.version == 1
    assert not line.core.claims
    line.see_through(decide_cancel(line.core, Cancel(ONE, 1)))
    assert line.event(1).state == EventState.CANCELLED


def test_cancel_waits_for_a_firing_on_its_way_and_then_is_too_late() -> None:
    line = Line()
    line.schedule(1, START_MS)
    firing = start_firing(line)
    assert busy_with(decide_cancel(line.core, Cancel(ONE))) == ONE
    line.append(firing.request)
    assert busy_with(decide_cancel(line.core, Cancel(ONE))) == ONE
    assert line.follow() == [ONE]
    assert cancelled(line).outcome == "too_late"


def test_cancel_wins_when_the_firing_is_refused() -> None:
    line = Line()
    line.schedule(1, START_MS)
    firing = start_firing(line)
    assert busy_with(decide_cancel(line.core, Cancel(ONE))) == ONE
    line.core.refused(firing)
    line.see_through(decide_cancel(line.core, Cancel(ONE)))
    assert line.fire_all() == []


def test_a_timer_that_is_being_cancelled_does_not_fire() -> None:
    line = Line()
    line.schedule(1, START_MS)
    line.load()
    command = decide_cancel(line.core, Cancel(ONE))
    assert line.core.fire() is None
    line.see_through(command)
    assert line.fire_all() == []


def test_a_timer_that_falls_due_while_it_is_cancelled_leaves_no_record() -> None:
    line = Line()
    line.load()
    line.schedule(1, START_MS + 5)
    line.follow()
    assert line.core.horizon.records_size > 0
    decision = decide_cancel(line.core, Cancel(ONE))
    assert isinstance(decision, Command)
    line.clock.advance(10)
    assert line.core.fire() is None  # it has left the wheel, and is claimed
    line.see_through(decision)
    assert line.core.horizon.records_size == 0


def test_a_refused_cancel_lets_the_timer_fire() -> None:
    line = Line()
    line.schedule(1, START_MS)
    line.load()
    command = decide_cancel(line.core, Cancel(ONE))
    assert isinstance(command, Command)
    assert line.core.fire() is None  # it has left the wheel now
    line.core.release(command.claims)
    line.core.return_to_wheel(command.event_id)
    assert line.fire_all() == [1]


def test_giving_up_a_claim_on_what_is_no_event_does_nothing() -> None:
    line = Line()
    line.core.return_to_wheel(ONE)
    line.core.return_to_wheel(b"U" + bytes(15))
    assert len(line.core.horizon) == 0


# --- reschedule -----------------------------------------------------------------


def test_a_later_time_is_kept() -> None:
    line = Line()
    line.schedule(1, START_MS + 5)
    line.load()
    move(line, START_MS + 50)
    assert len(line.core.horizon) == 1
    line.clock.advance(49)
    assert line.fire_all() == []
    line.clock.advance(1)
    assert line.fire_all() == [1]
    assert line.arrivals[0].due_ms == START_MS + 50


def test_an_earlier_time_is_kept() -> None:
    line = Line()
    line.schedule(1, START_MS + 50)
    line.load()
    move(line, START_MS + 5)
    line.clock.advance(5)
    assert line.fire_all() == [1]
    line.clock.advance(100)
    assert line.fire_all() == []


@pytest.mark.parametrize(
    ("before_ms", "after_ms"), [(500, 50_000), (50_000, 500), (50_000, 60_000)]
)
def test_a_timer_moves_across_the_horizon(before_ms: int, after_ms: int) -> None:
    line = Line(lookahead_ms=1_000)
    line.load()
    line.schedule(1, START_MS + before_ms)
    line.load()
    move(line, START_MS + after_ms)
    line.clock.advance(after_ms - 1)
    assert line.fire_all() == []
    line.clock.advance(1)
    assert line.fire_all() == [1]
    assert len(line.core.horizon) == 0


def test_versions_count_up_and_stale_ones_are_refused() -> None:
    line = Line()
    line.schedule(1, START_MS + 5_000)
    move(line, START_MS + 6_000)
    move(line, START_MS + 7_000, version=2)
    with pytest.raises(StaleVersion) as caught:
        decide_reschedule(line.core, Reschedule(ONE, START_MS, 2))
    assert caught.value.version == 3
    assert not line.core.claims
    stored = line.core.record_of(ONE, line.event(1))
    assert stored is not None
    assert decode_record(stored).version == 3
    assert decode_record(stored).due_ms == START_MS + 7_000


def test_deliver_now_fires_at_once_and_is_told_so() -> None:
    line = Line()
    line.schedule(1, START_MS + 5_000)
    line.clock.advance(10)
    request = Reschedule(ONE, 0, deliver_now=True)
    line.see_through(decide_reschedule(line.core, request))
    assert line.fire_all() == [1]
    assert [what for _, what in line.event(1).timeline] == [
        Happening.SCHEDULED,
        Happening.PROMOTED,
        Happening.DELIVERED,
    ]
    assert line.arrivals[0].due_ms == START_MS + 10


def test_what_has_ended_cannot_be_moved() -> None:
    line = Line()
    with pytest.raises(UnknownEvent) as unknown:
        decide_reschedule(line.core, Reschedule(ONE, START_MS))
    assert unknown.value.event == "00000000-0000-0000-0000-000000000001"
    line.schedule(1, START_MS)
    line.fire_all()
    with pytest.raises(AlreadyDelivered) as delivered:
        decide_reschedule(line.core, Reschedule(ONE, START_MS))
    assert delivered.value.delivered_ms == START_MS
    line.schedule(2, START_MS + 9)
    line.see_through(decide_cancel(line.core, Cancel(event_id(2))))
    with pytest.raises(AlreadyCancelled):
        decide_reschedule(line.core, Reschedule(event_id(2), START_MS))
    assert not line.core.claims


def test_one_decision_at_a_time() -> None:
    line = Line()
    line.schedule(1, START_MS + 5_000)
    first = decide_reschedule(line.core, Reschedule(ONE, START_MS + 9_000))
    again = decide_reschedule(line.core, Reschedule(ONE, START_MS + 8_000))
    assert busy_with(again) == ONE
    assert busy_with(decide_cancel(line.core, Cancel(ONE))) == ONE
    line.see_through(first)
    line.see_through(decide_cancel(line.core, Cancel(ONE)))
    assert line.event(1).version == 3


def test_a_timer_due_while_it_is_moved_fires_at_its_new_time_only() -> None:
    line = Line()
    line.schedule(1, START_MS + 5)
    line.load()
    command = decide_reschedule(line.core, Reschedule(ONE, START_MS + 50))
    line.clock.advance(20)
    assert line.core.fire() is None
    line.see_through(command)
    assert line.fire_all() == []
    line.clock.advance(30)
    assert line.fire_all() == [1]


def test_a_listing_by_key_follows_the_timer() -> None:
    line = Line()
    line.schedule(1, START_MS + 5, key=b"order-1")
    move(line, START_MS + 50)
    rows = line.index.scan(b"K", b"L", 10)
    assert [value for _, value in rows] == [keys.U64.pack(START_MS + 50)]
    line.clock.advance(50)
    line.fire_all()
    assert not line.index.scan(b"K", b"L", 10)


def test_an_id_is_written_as_the_api_shows_it() -> None:
    data = bytes(range(0x10, 0x20))
    assert event_text(data) == "10111213-1415-1617-1819-1a1b1c1d1e1f"
