"""The caller's own key: create, replace, and what versions protect."""

import pytest
from tests.unit.chronos_line import (
    START_MS,
    TOPIC,
    Line,
    busy_with,
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
    EventState,
    Happening,
    Replace,
    Reschedule,
)
from halfpast_chronos.errors import (
    AlreadyCancelled,
    AlreadyDelivered,
    StaleVersion,
    UnknownEvent,
)

KEY = b"cart-17"
ONE = event_id(1)


def put(line: Line, number: int, due_ms: int, **options: object) -> Command:
    """Create or replace KEY's timer and see it through."""
    record = own_record(number, due_ms, KEY, body=b"content %d" % number)
    request = Replace(record, **options)  # type: ignore[arg-type]
    return line.see_through(decide_replace(line.core, request))


def test_the_first_put_creates() -> None:
    line = Line()
    made = put(line, 1, START_MS + 10)
    assert made.created
    assert made.event_id == ONE
    assert line.core.own_event(TOPIC, KEY) == ONE
    assert line.event(1).upsert
    assert not line.core.claims


def test_the_next_put_replaces_content_and_time_and_keeps_the_id() -> None:
    line = Line()
    put(line, 1, START_MS + 10)
    made = put(line, 2, START_MS + 30)
    assert not made.created
    assert made.event_id == ONE
    assert line.core.event(event_id(2)) is None
    assert line.event(1).version == 2
    line.clock.advance(29)
    assert line.fire_all() == []
    line.clock.advance(1)
    assert line.fire_all() == [1]
    assert line.arrivals[0].body == b"content 2"
    assert [what for _, what in line.event(1).timeline] == [
        Happening.SCHEDULED,
        Happening.REPLACED,
        Happening.DELIVERED,
    ]


def test_a_replaced_timer_can_be_replaced_again() -> None:
    line = Line()
    put(line, 1, START_MS + 10)
    put(line, 2, START_MS + 30)
    put(line, 3, START_MS + 20)
    assert line.event(1).version == 3
    line.clock.advance(20)
    assert line.fire_all() == [1]
    line.clock.advance(20)
    assert line.fire_all() == []
    assert line.arrivals[0].body == b"content 3"


@pytest.mark.parametrize("ending", ["delivered", "cancelled"])
def test_after_its_end_a_put_creates_a_new_event(ending: str) -> None:
    line = Line()
    put(line, 1, START_MS)
    if ending == "delivered":
        line.fire_all()
    else:
        line.see_through(decide_cancel(line.core, Cancel(ONE)))
    before = line.event(1)
    made = put(line, 2, START_MS + 5)
    assert made.created
    assert line.core.own_event(TOPIC, KEY) == event_id(2)
    assert line.event(1) == before
    line.clock.advance(5)
    assert line.fire_all() == [2]


def test_the_version_is_checked() -> None:
    line = Line()
    record = own_record(9, START_MS, KEY)
    with pytest.raises(UnknownEvent):
        decide_replace(line.core, Replace(record, version=1))
    put(line, 1, START_MS)
    with pytest.raises(StaleVersion) as stale:
        decide_replace(line.core, Replace(record, version=2))
    assert stale.value.version == 1
    put(line, 2, START_MS, version=1)
    line.fire_all()
    with pytest.raises(AlreadyDelivered):
        decide_replace(line.core, Replace(record, version=2))
    put(line, 3, START_MS + 5)
    line.see_through(decide_cancel(line.core, Cancel(event_id(3))))
    with pytest.raises(AlreadyCancelled):
        decide_replace(line.core, Replace(record, version=2))
    assert not line.core.claims


def test_create_only_refuses_a_pending_one() -> None:
    line = Line()
    put(line, 1, START_MS, create_only=True)
    with pytest.raises(StaleVersion):
        put(line, 2, START_MS, create_only=True)
    line.fire_all()
    assert put(line, 3, START_MS + 5, create_only=True).created


def test_two_creations_of_a_key_wait_for_each_other() -> None:
    line = Line()
    first = decide_replace(line.core, Replace(own_record(1, START_MS, KEY)))
    second = Replace(own_record(2, START_MS + 9, KEY))
    assert busy_with(decide_replace(line.core, second)) == keys.own_key(TOPIC, KEY)
    line.see_through(first)
    made = line.see_through(decide_replace(line.core, second))
    assert made.event_id == ONE
    line.clock.advance(9)
    assert line.fire_all() == [1]


def test_a_put_waits_for_a_firing_and_then_creates() -> None:
    line = Line()
    put(line, 1, START_MS)
    line.load()
    firing = line.core.fire()
    request = Replace(own_record(2, START_MS + 5, KEY))
    assert busy_with(decide_replace(line.core, request)) == ONE
    line.send(firing)
    assert line.see_through(decide_replace(line.core, request)).created
    line.clock.advance(5)
    assert line.fire_all() == [2]


def test_a_put_on_its_way_holds_off_everybody_else() -> None:
    line = Line()
    put(line, 1, START_MS)
    line.load()
    command = decide_replace(line.core, Replace(own_record(2, START_MS + 5, KEY)))
    assert line.core.fire() is None
    assert busy_with(decide_cancel(line.core, Cancel(ONE))) == ONE
    request = Reschedule(ONE, START_MS)
    assert busy_with(decide_reschedule(line.core, request)) == ONE
    line.see_through(command)
    assert line.fire_all() == []
    assert line.event(1).state == EventState.SCHEDULED


def test_the_same_key_of_another_topic_is_another_event() -> None:
    line = Line()
    put(line, 1, START_MS)
    other = own_record(2, START_MS, KEY, topic_id=TOPIC + 1)
    line.see_through(decide_replace(line.core, Replace(other)))
    assert sorted(line.fire_all()) == [1, 2]


def test_a_plain_event_with_the_same_key_is_left_alone() -> None:
    line = Line()
    line.schedule(7, START_MS + 5, key=KEY)
    put(line, 1, START_MS + 5)
    put(line, 2, START_MS + 9)
    line.clock.advance(9)
    assert line.fire_all() == [7, 1]


def test_a_record_that_would_never_release_its_key_is_our_bug() -> None:
    line = Line()
    for record in [schedule_record(1, START_MS, key=KEY), own_record(1, 0, b"")]:
        with pytest.raises(AssertionError):
            decide_replace(line.core, Replace(record))
    assert not line.core.claims
