"""Timers fire once, in order, and never early."""

import pytest
from tests.unit.chronos_line import (
    START_MS,
    TOPIC,
    Line,
    event_id,
    schedule_record,
)

from halfpast_chronos import keys
from halfpast_chronos.core import timer_count
from halfpast_chronos.delay_server import EventState, Happening
from halfpast_core_store.broker import Lane
from halfpast_core_store.errors import RequestTooLarge, TooEarly
from halfpast_core_store.record import RecordKind, decode_record
from halfpast_core_store.topics import SYS_FIRED

TEN_YEARS_MS = 10 * 366 * 24 * 3600 * 1000


def test_a_timer_is_scheduled_fired_and_delivered() -> None:
    line = Line()
    line.schedule(1, START_MS + 50, body=b"hello", queue_id=3)
    assert line.event(1).state == EventState.SCHEDULED
    line.clock.advance(50)
    assert line.fire_all() == [1]
    arrival = line.arrivals[0]
    assert (arrival.topic_id, arrival.queue_id, arrival.body) == (TOPIC, 3, b"hello")
    assert arrival.due_ms == arrival.stored_ms == START_MS + 50
    event = line.event(1)
    assert event.state == EventState.DELIVERED
    assert event.finished_ms == START_MS + 50
    assert event.timeline == [
        (START_MS, Happening.SCHEDULED),
        (START_MS + 50, Happening.DELIVERED),
    ]
    assert line.fire_all() == []


def test_a_timer_is_not_fired_a_nanosecond_early() -> None:
    line = Line()
    line.schedule(1, START_MS + 7)
    line.clock.advance(7)
    line.clock.ns -= 1
    assert line.fire_all() == []
    line.clock.ns += 1
    assert line.fire_all() == [1]


def test_timers_come_in_order_of_their_due_times() -> None:
    line = Line()
    for number, due in [(1, 30), (2, 10), (3, 20), (4, 10), (5, 0)]:
        line.schedule(number, START_MS + due)
    line.clock.advance(40)
    fired = line.fire_all()
    assert fired[0] == 5
    assert sorted(fired[1:3]) == [2, 4]
    assert fired[3:] == [3, 1]


@pytest.mark.parametrize("delay_ms", [0, 1, 1024, 2**20, 2**30, TEN_YEARS_MS])
def test_any_delay_is_kept_to_the_millisecond(delay_ms: int) -> None:
    line = Line()
    line.schedule(1, START_MS + delay_ms)
    if delay_ms:
        line.clock.advance(delay_ms - 1)
        assert line.fire_all() == []
        line.clock.advance(1)
    assert line.fire_all() == [1]
    assert line.event(1).finished_ms == START_MS + delay_ms


def test_a_due_time_in_the_past_fires_at_once() -> None:
    line = Line()
    line.schedule(1, 1)
    assert line.fire_all() == [1]


def test_a_firing_is_one_fenceable_atomic_request() -> None:
    line = Line()
    line.schedule(1, START_MS, topic_id=TOPIC, queue_id=0)
    line.schedule(2, START_MS + 1, topic_id=TOPIC + 1, queue_id=2)
    line.clock.advance(1)
    line.load()
    firing = line.core.fire()
    assert firing is not None
    request = firing.request
    assert request.lane == Lane.SYSTEM
    assert request.due_max_ms == START_MS + 1
    runs = {(run.topic_id, run.queue_id): run.records for run in request.runs}
    assert set(runs) == {(TOPIC, 0), (TOPIC + 1, 2), (SYS_FIRED, 0)}
    record = decode_record(runs[SYS_FIRED, 0][0])
    assert record.kind == RecordKind.FIRED
    timers = [
        keys.FIRED_ENTRY.pack(b"T", START_MS, event_id(1)),
        keys.FIRED_ENTRY.pack(b"T", START_MS + 1, event_id(2)),
    ]
    assert record.body == b"".join(timers)


def test_what_is_firing_is_not_fired_again() -> None:
    line = Line()
    line.schedule(1, START_MS)
    line.load()
    firing = line.core.fire()
    assert line.core.fire() is None
    line.load()
    assert line.core.fire() is None
    line.send(firing)
    assert line.fire_all() == []
    assert not line.core.claims


def test_a_refused_firing_goes_back_into_the_wheel() -> None:
    line = Line()
    line.schedule(1, START_MS)
    line.load()
    firing = line.core.fire()
    assert firing is not None
    line.core.refused(firing)
    assert not line.core.claims
    assert line.fire_all() == [1]


def test_a_firing_of_a_clock_that_runs_ahead_is_refused_as_early() -> None:
    line = Line()
    line.schedule(1, START_MS + 10)
    line.clock.advance(10)
    line.load()
    firing = line.core.fire()
    assert firing is not None
    line.clock.advance(-3)
    with pytest.raises(TooEarly) as caught:
        line.append(firing.request)
    assert caught.value.early_ms == 3
    line.core.refused(firing)
    assert line.fire_all() == []
    line.clock.advance(3)
    assert line.fire_all() == [1]


def test_a_batch_is_bounded_by_count() -> None:
    line = Line(fire_count=3)
    for number in range(8):
        line.schedule(number, START_MS)
    line.load()
    sizes: list[int] = []
    while (firing := line.core.fire()) is not None:
        sizes.append(len(firing.keys))
    assert sizes == [3, 3, 2]


def test_a_batch_is_bounded_by_bytes_and_loses_nothing() -> None:
    # 500 timers of 1 MiB would be refused for ever as larger than any frame.
    line = Line(fire_size=1000)
    for number in range(60):
        line.schedule(number, START_MS + number, body=bytes(300))
    line.clock.advance(100)
    line.load()
    fired: list[bytes] = []
    while (firing := line.core.fire()) is not None:
        assert len(firing.keys) == 3
        fired += firing.keys
    assert fired == sorted(fired)
    assert len(fired) == 60


def test_batches_shrink_to_what_the_broker_takes() -> None:
    line = Line()
    for number in range(60):
        line.schedule(number, START_MS, body=bytes(300))
    line.load()
    sizes: list[int] = []
    while (firing := line.core.fire()) is not None:
        size = sum(len(record) for run in firing.request.runs for record in run.records)
        if size > 2000:
            line.core.refused(firing, RequestTooLarge(size, 2000))
        else:
            sizes.append(len(firing.keys))
    assert sum(sizes) == 60
    assert min(sizes[:-1]) > 1


def test_a_timer_larger_than_a_batch_fires_alone() -> None:
    line = Line(fire_size=10)
    line.schedule(1, START_MS)
    line.schedule(2, START_MS)
    line.load()
    first = line.core.fire()
    assert first is not None
    assert len(first.keys) == 1
    assert line.fire_all() == [2]


def test_clock_backwards_waits_and_never_fires_again() -> None:
    line = Line()
    line.schedule(1, START_MS + 10)
    line.schedule(2, START_MS + 20)
    line.clock.advance(10)
    assert line.fire_all() == [1]
    line.clock.advance(-3_600_000)
    line.schedule(3, START_MS + 5)
    assert line.fire_all() == []
    line.clock.advance(3_600_000 - 5)
    assert line.fire_all() == [3]
    line.clock.advance(14)
    assert line.fire_all() == []
    line.clock.advance(1)
    assert line.fire_all() == [2]
    assert len(line.arrivals) == 3


def test_clock_far_forward_fires_everything_in_bounded_batches() -> None:
    line = Line(fire_count=10, near_count_max=20, load_count=7)
    for number in range(100):
        line.schedule(number, START_MS + number * 86_400_000)
    line.clock.advance(TEN_YEARS_MS)
    assert line.fire_all() == list(range(100))
    assert len(line.frames) == 100 + 10


def test_after_a_jump_forward_and_back_timers_wait_for_their_time() -> None:
    line = Line()
    line.schedule(1, START_MS + 5)
    line.clock.advance(TEN_YEARS_MS)
    assert line.fire_all() == [1]
    line.clock.advance(-TEN_YEARS_MS)
    line.schedule(2, START_MS + 1_000_000_000)
    line.clock.advance(999_999_999)
    assert line.fire_all() == []
    line.clock.advance(1)
    assert line.fire_all() == [2]


def test_lateness_counts_only_fresh_firings() -> None:
    line = Line()
    line.schedule(1, START_MS)
    line.clock.advance(30)
    line.fire_all()
    assert line.core.lateness.metrics()["lateness_ms_count"] == 0
    line.core.measures = True
    line.schedule(2, START_MS + 30)
    line.clock.advance(3)
    line.fire_all()
    metrics = line.core.lateness.metrics()
    assert metrics["lateness_ms_count"] == 1
    assert metrics["lateness_ms_sum"] == 3
    assert metrics['lateness_ms_bucket{le="2"}'] == 0
    assert metrics['lateness_ms_bucket{le="5"}'] == 1


def test_the_counters_tell_what_happened() -> None:
    line = Line()
    line.schedule(1, START_MS)
    line.schedule(2, START_MS + 60_000)
    line.fire_all()
    assert line.core.counters()["scheduled_total"] == 2
    assert line.core.counters()["fired_total"] == 1
    assert line.core.counters()["cancelled_total"] == 0
    assert line.core.gauges()["timers_in_wheel"] == 1
    assert line.core.gauges()["delay_applied_position"] == line.log_end


def test_the_record_of_a_large_firing_comes_in_pieces() -> None:
    # Each is applied in one go, in which the event loop stands still.
    line = Line()
    line.append_records([schedule_record(n, START_MS) for n in range(150)])
    line.follow()
    line.load()
    firing = line.core.fire()
    assert firing is not None
    records = firing.request.runs[-1].records
    assert [timer_count(record) for record in records] == [100, 50]
    line.send(firing)
    assert not line.core.claims
    assert line.core.fired_count == 150
