"""Paused topics, release rates, and a clock that was set forward."""

import pytest
from tests.unit.chronos_line import (
    START_MS,
    TOPIC,
    HandClock,
    Line,
    event_id,
    schedule_record,
)
from tests.unit.test_chronos_horizon import Timers

from halfpast_chronos import keys
from halfpast_chronos.core import DelayCore
from halfpast_chronos.decisions import decide_cancel
from halfpast_chronos.delay_server import Cancel
from halfpast_chronos.release_state import release_state
from halfpast_core_store.memory_index import MemoryIndex

OTHER = TOPIC + 1
HOUR_MS = 3_600_000


def key_of(topic: int, number: int, after_ms: int = 0) -> bytes:
    return keys.timer(topic, START_MS + after_ms, event_id(number))


# --- paused -------------------------------------------------------------------


def test_a_paused_topic_releases_nothing_until_it_is_resumed() -> None:
    line = Line()
    line.control(is_paused=True)
    line.schedule(1, START_MS)
    line.schedule(2, START_MS + 5)
    line.schedule(3, START_MS, topic_id=OTHER)
    assert line.fire_all() == [3]
    line.clock.advance(HOUR_MS)
    assert line.fire_all() == []
    assert release_state(line.core, TOPIC) == "paused"
    line.control()
    assert line.fire_all() == [1, 2]
    assert release_state(line.core, TOPIC) == "open"


def test_a_topic_is_paused_while_it_is_in_memory_and_due() -> None:
    line = Line()
    for number in range(500):
        line.schedule(number, START_MS + number % 3)
    line.clock.advance(5)
    line.core.horizon.collect(line.now_ms)
    first = line.core.fire()
    assert first is not None
    line.control(is_paused=True)
    assert line.core.fire() is None
    line.send(first)  # what was on its way arrives
    assert line.core.fire() is None
    line.control()
    rest = line.fire_all()
    assert len(rest) + len(first.keys) == 500
    assert rest == sorted(rest, key=lambda number: number % 3)


def test_a_paused_topic_takes_no_memory_and_wakes_nobody() -> None:
    timers = Timers()
    timers.store(*(key_of(TOPIC, n, n) for n in range(2_000)))
    prefix = keys.timer_prefix(TOPIC)
    timers.horizon.collect(START_MS + 1_000)
    timers.horizon.control(prefix, is_held=True)
    while timers.horizon.load(START_MS + 1_000):
        pass
    assert len(timers.horizon) == 0
    assert timers.horizon.next_ms() > START_MS + 10**12
    timers.store(key_of(TOPIC, 5_000))
    assert len(timers.horizon) == 0
    assert not timers.horizon.load(START_MS + 1_000)
    assert timers.horizon.next_ms() > START_MS + 10**12
    timers.horizon.control(prefix, is_held=False)
    assert len(timers.take_all(START_MS + 2_000)) == 2_001


def test_pausing_is_done_in_slices() -> None:
    timers = Timers(load_count=10)
    timers.store(*(key_of(TOPIC, n, n) for n in range(100)))
    timers.horizon.control(keys.timer_prefix(TOPIC), is_held=True)
    assert len(timers.horizon) == 100
    timers.horizon.load(START_MS)
    assert len(timers.horizon) == 90


@pytest.mark.parametrize("loads", range(0, 14, 3))
def test_a_topic_is_resumed_while_it_is_being_dropped(loads: int) -> None:
    timers = Timers(load_count=10)
    timers.store(*(key_of(TOPIC, n, n) for n in range(100)))
    prefix = keys.timer_prefix(TOPIC)
    timers.horizon.collect(START_MS + 50)
    timers.horizon.control(prefix, is_held=True)
    for _ in range(loads):
        timers.horizon.load(START_MS + 50)
    timers.horizon.control(prefix, is_held=False)
    timers.store(key_of(TOPIC, 200, 70))
    if loads % 2:
        timers.horizon.control(prefix, is_held=True)
        timers.horizon.control(prefix, is_held=False)
    taken = timers.take_all(START_MS + 100)
    assert len(taken) == 101
    assert [keys.timer_due_ms(k) for k in taken] == sorted(
        map(keys.timer_due_ms, taken)
    )


def test_a_timer_of_a_paused_topic_can_be_cancelled() -> None:
    line = Line()
    line.control(is_paused=True)
    line.schedule(1, START_MS)
    line.see_through(decide_cancel(line.core, Cancel(event_id(1))))
    line.control()
    assert line.fire_all() == []


def test_a_refused_firing_of_a_paused_topic_waits() -> None:
    line = Line()
    line.schedule(1, START_MS)
    line.load()
    firing = line.core.fire()
    assert firing is not None
    line.control(is_paused=True)
    line.core.refused(firing)
    assert line.fire_all() == []
    line.control()
    assert line.fire_all() == [1]


def test_a_topic_that_was_forgotten_is_paused_still() -> None:
    line = Line()
    line.control(is_paused=True)
    line.core.horizon.forget_idle()
    line.schedule(1, START_MS)
    assert line.fire_all() == []
    line.control()
    assert line.fire_all() == [1]


# --- topics that nobody has told about yet --------------------------------------


def test_a_topic_is_held_until_its_controls_are_known() -> None:
    index = MemoryIndex()
    line = Line(is_controlled=True)
    line.index = index
    line.core = DelayCore(index, line.clock, line.config, is_controlled=True)
    line.append_records([schedule_record(1, START_MS)])
    line.core.apply(line.frames, line.log_end)
    line.load()
    assert line.core.fire() is None
    assert line.core.horizon.strangers == [keys.timer_prefix(TOPIC)]
    assert release_state(line.core, TOPIC) == "starting"
    line.meet()
    assert line.fire_all() == [1]
    assert release_state(line.core, TOPIC) == "open"


def test_after_a_restart_all_topics_are_asked_for() -> None:
    line = Line(is_controlled=True)
    for number in range(6):
        topic = TOPIC + number % 3
        line.schedule(number, START_MS + 10, topic_id=topic)
    line.control(OTHER, is_paused=True)
    line.index.flush()
    line.crash(0)
    line.clock.advance(10)
    assert sorted(line.fire_all()) == [0, 2, 3, 5]
    line.control(OTHER)
    assert sorted(line.fire_all()) == [1, 4]


# --- limited --------------------------------------------------------------------


def release_times(line: Line, until_ms: int, step_ms: int = 10) -> list[int]:
    """When each message was released, counted from now."""
    start_ms = line.now_ms
    found: list[int] = []
    while line.now_ms < until_ms:
        found += [line.now_ms - start_ms] * len(line.fire_all())
        line.clock.advance(step_ms)
    return found


def test_a_rate_is_kept_and_used_up() -> None:
    line = Line()
    line.control(release_rate_per_s=50)
    line.append_records([schedule_record(n, START_MS) for n in range(500)])
    line.follow()
    times = release_times(line, START_MS + 5_000)
    assert 245 <= len(times) <= 255
    for first in times:
        assert sum(first <= at < first + 1000 for at in times) <= 55
    assert release_state(line.core, TOPIC) == "rate_limited"


def test_a_limited_topic_has_little_in_memory_and_delays_nobody() -> None:
    line = Line()
    line.control(release_rate_per_s=10)
    line.append_records([schedule_record(n, START_MS) for n in range(2_000)])
    line.follow()
    line.load()
    assert len(line.core.horizon) <= 2 * 32
    line.schedule(5_000, START_MS, topic_id=OTHER)
    assert 5_000 in line.fire_all()


def test_the_alarm_is_set_for_when_the_next_one_may_go() -> None:
    # No polling: nobody looks in between.
    line = Line()
    line.control(release_rate_per_s=4)
    for number in range(5):
        line.schedule(number, START_MS)
    times: list[int] = []
    for _ in range(20):
        fired = line.fire_all()
        times += [line.now_ms - START_MS] * len(fired)
        if len(times) == 5:
            break
        assert line.core.fire() is None
        wake_ms = line.core.horizon.next_ms()
        assert wake_ms > line.now_ms
        line.clock.advance(wake_ms - line.now_ms)
    assert times == [0, 250, 500, 750, 1000]


def test_a_limited_topic_has_its_turn_after_the_clock_was_set_back() -> None:
    line = Line()
    line.control(release_rate_per_s=1)
    for number in range(4):
        line.schedule(number, START_MS - 2 * HOUR_MS)
    assert len(line.fire_all()) == 1
    line.clock.advance(-HOUR_MS)
    line.fire_all()
    line.clock.advance(1_000)
    assert len(line.fire_all()) == 1


def test_a_rate_that_is_lifted_lets_all_go() -> None:
    line = Line()
    line.control(release_rate_per_s=1)
    for number in range(100):
        line.schedule(number, START_MS)
    assert len(line.fire_all()) == 1
    line.control()
    assert len(line.fire_all()) == 99


def test_a_refused_frame_costs_no_more_than_its_turn() -> None:
    line = Line()
    line.control(release_rate_per_s=10)
    for number in range(3):
        line.schedule(number, START_MS)
    line.load()
    firing = line.core.fire()
    assert firing is not None
    line.core.refused(firing)
    line.clock.advance(100)
    assert len(line.fire_all()) == 1


def test_cancelling_what_is_due_of_a_limited_topic_frees_its_memory() -> None:
    line = Line()
    line.control(release_rate_per_s=1)
    for number in range(200):
        line.schedule(number, START_MS)
    line.load()
    line.core.horizon.collect(line.now_ms)
    for number in range(200):
        line.see_through(decide_cancel(line.core, Cancel(event_id(number))))
        line.load()
        line.core.horizon.collect(line.now_ms)
    (reach,) = line.core.horizon._reaches.values()  # pyright: ignore[reportPrivateUsage]
    assert reach.due is None or len(reach.due) <= 64
    assert line.fire_all() == []


# --- a clock that is set --------------------------------------------------------


class SetClock(HandClock):
    """Its monotonic time goes on by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.passed_ns = 0

    def monotonic_ns(self) -> int:
        return self.passed_ns

    def advance(self, ms: int) -> None:
        super().advance(ms)
        self.passed_ns += ms * 1_000_000

    def set_by(self, ms: int) -> None:
        self.ns += ms * 1_000_000


def jumping_line(**config: int) -> tuple[Line, SetClock]:
    line = Line(**config)
    clock = SetClock()
    line.clock = clock
    line.core = DelayCore(line.index, clock, line.config)
    return line, clock


def test_after_a_jump_forward_what_is_due_is_drained_slowly() -> None:
    line, clock = jumping_line(drain_rate_per_s=1_000)
    for number in range(1_000):
        topic = TOPIC + number % 2
        line.append_records(
            [schedule_record(number, START_MS + 60_000 + number, topic_id=topic)]
        )
    line.follow()
    line.load()
    assert line.core.fire() is None
    clock.set_by(2 * HOUR_MS)
    start_ms = line.now_ms
    times = release_times(line, start_ms + 500)
    assert 450 <= len(times) <= 650
    assert line.core.gauges()["clock_jump_draining"] == 1
    assert release_state(line.core, TOPIC) in ("draining", "rate_limited")
    assert line.core.counters()['clock_jumps_total{direction="forward"}'] == 1
    times += release_times(line, start_ms + 2_000)
    assert len(times) == 1_000
    assert line.core.fire() is None
    assert line.core.gauges()["clock_jump_draining"] == 0


def test_the_drain_ends_though_a_limited_topic_goes_on() -> None:
    line, clock = jumping_line()
    line.control(release_rate_per_s=1)
    for number in range(50):
        line.schedule(number, START_MS + 60_000)
    clock.set_by(HOUR_MS)
    line.fire_all()
    line.core.fire()
    assert line.core.gauges()["clock_jump_draining"] == 0


@pytest.mark.parametrize(("jump_ms", "drains"), [(59_999, 0), (60_000, 1)])
def test_a_small_jump_is_no_jump(jump_ms: int, drains: int) -> None:
    line, clock = jumping_line()
    line.schedule(1, START_MS + 10)
    line.schedule(2, START_MS + 20)
    line.core.fire()
    clock.set_by(jump_ms)
    line.load()
    firing = line.core.fire()
    assert firing is not None
    assert line.core.gauges()["clock_jump_draining"] == drains


def test_a_pause_of_the_process_is_no_jump() -> None:
    line, clock = jumping_line()
    for number in range(20):
        line.schedule(number, START_MS + number)
    clock.advance(HOUR_MS)
    assert line.fire_all() == list(range(20))
    assert line.core.counters()['clock_jumps_total{direction="forward"}'] == 0


def test_what_was_due_by_a_wrong_clock_waits_when_it_is_set_right() -> None:
    line, clock = jumping_line(drain_rate_per_s=100)
    for number in range(200):
        line.schedule(number, START_MS + 60_000 + number)
    line.load()
    line.core.fire()
    clock.set_by(2 * HOUR_MS)
    line.core.horizon.collect(line.now_ms)
    first = line.core.fire()  # all are queued, some are on their way
    assert first is not None
    line.send(first)
    clock.set_by(-2 * HOUR_MS)
    assert line.fire_all() == []
    assert line.core.counters()['clock_jumps_total{direction="back"}'] == 1
    clock.advance(60_100)
    early = line.fire_all()
    assert all(number <= 100 for number in early)
    clock.advance(100)
    assert len(early) + len(line.fire_all()) + len(first.keys) == 200
    assert line.core.gauges()["clock_jump_draining"] == 0
