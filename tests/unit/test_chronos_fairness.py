"""No topic is late because of another: bounded memory each, and turns."""

from collections.abc import Iterator

import pytest
from tests.unit.chronos_line import START_MS, TOPIC, Line, event_id
from tests.unit.test_chronos_horizon import Timers

from halfpast_chronos import keys
from halfpast_chronos.config import ChronosConfig
from halfpast_chronos.horizon import COLLECT_COUNT, Horizon
from halfpast_chronos.turns import QUANTUM
from halfpast_core_store.memory_index import MemoryIndex

OTHER = TOPIC + 1
FRAME = 200


def key_of(topic: int, number: int, after_ms: int = 0) -> bytes:
    return keys.timer(topic, START_MS + after_ms, event_id(number))


class ManyDue(MemoryIndex):
    """A million timers of TOPIC, all due at START_MS, which take up no room."""

    count = 1_000_000

    def scan(self, start: bytes, end: bytes, limit: int) -> list[tuple[bytes, bytes]]:
        found = super().scan(start, end, limit)
        first, last = key_of(TOPIC, 0), key_of(TOPIC, self.count)
        number = 0
        if start > first:
            number = int.from_bytes(start[keys.TIMER_ID_AT :][:16].ljust(16, b"\0"))
            number += len(start) > keys.TIMER_KEY.size
        if start >= last or end <= first:
            return found
        stop = min(self.count, number + limit)
        many = [(key_of(TOPIC, n), b"") for n in range(number, stop)]
        return sorted([*found, *((k, v) for k, v in many if k < end)])[:limit]


def looks(horizon: Horizon, now_ms: int) -> Iterator[list[bytes]]:
    """What each look at the clock fires, as the service does it."""
    while True:
        horizon.collect(now_ms)
        due = horizon.due(now_ms, FRAME)
        if due:
            yield due
        elif not horizon.wants_load(now_ms) or not horizon.load(now_ms):
            return


def test_a_million_due_of_one_topic_do_not_delay_another() -> None:
    config = ChronosConfig()
    index = ManyDue()
    horizon = Horizon(index, config, START_MS, keys.TIMER_PREFIX_SIZE)
    while horizon.load(START_MS):
        pass
    assert len(horizon) <= 2 * config.near_topic_count_max
    waiting = -1
    waited: list[int] = []
    fired = 0
    for number, due in zip(range(1_000), looks(horizon, START_MS), strict=False):
        fired += len(due)
        if waiting >= 0 and any(keys.timer_topic(key) == OTHER for key in due):
            waited.append(number - waiting)
            waiting = -1
        if waiting < 0 and number % 50 == 0:
            batch = index.batch()
            batch.put(key_of(OTHER, number), b"")
            index.write(batch)
            horizon.add(key_of(OTHER, number))
            waiting = number
        assert len(horizon) <= 2 * config.near_topic_count_max + 1
    assert fired > 150_000  # a few looks load the next slice
    assert len(waited) == 20
    # The first comes behind those that were loaded before: collected, not fired.
    assert max(waited) <= config.near_topic_count_max // COLLECT_COUNT + 1
    assert max(waited[2:]) <= 2


def test_topics_share_a_frame_by_quanta() -> None:
    timers = Timers()
    for topic in range(TOPIC, TOPIC + 4):
        timers.store(*(key_of(topic, n) for n in range(200)))
    counts: dict[int, int] = {}
    for key in timers.horizon.due(START_MS, FRAME):
        counts[keys.timer_topic(key)] = counts.get(keys.timer_topic(key), 0) + 1
    assert counts == {TOPIC + n: FRAME // 4 for n in range(4)}
    assert QUANTUM < FRAME // 4


def test_turns_go_on_where_they_ended() -> None:
    timers = Timers()
    for topic in range(TOPIC, TOPIC + 3):
        timers.store(*(key_of(topic, n) for n in range(60)))
    first = [keys.timer_topic(key) for key in timers.horizon.due(START_MS, 25)]
    second = [keys.timer_topic(key) for key in timers.horizon.due(START_MS, 25)]
    third = [keys.timer_topic(key) for key in timers.horizon.due(START_MS, 25)]
    assert {*first} | {*second} | {*third} == {TOPIC, TOPIC + 1, TOPIC + 2}


def test_no_topic_has_more_than_its_share_in_memory() -> None:
    timers = Timers(near_topic_count_max=50, near_count_max=1_000, load_count=20)
    for topic in range(TOPIC, TOPIC + 5):
        timers.store(*(key_of(topic, n, n) for n in range(300)))
    timers.restart()
    while timers.horizon.load(START_MS):
        pass
    assert len(timers.horizon) == 5 * 50
    for number in range(300, 900):  # a frame that ends with another topic's timer
        timers.store(
            key_of(TOPIC, number, 49), key_of(TOPIC + 1, number, 60_000 + number)
        )
        assert len(timers.horizon) <= 2 * 50 + 4 * 2 * 50 + 8
    while timers.horizon.load(START_MS):
        pass
    fired = timers.take_all(START_MS + 500_000)
    assert len(fired) == 5 * 300 + 2 * 600
    for topic in range(TOPIC, TOPIC + 5):
        dues = [k for k in fired if keys.timer_topic(k) == topic]
        assert dues == sorted(dues, key=keys.timer_due_ms)


def test_many_topics_together_are_bounded_too() -> None:
    timers = Timers(near_topic_count_max=50, near_count_max=100, load_count=10)
    for topic in range(TOPIC, TOPIC + 40):
        timers.store(*(key_of(topic, n, n) for n in range(60)))
        while timers.horizon.load(START_MS):
            pass
        assert len(timers.horizon) <= 2 * 100 + 60
    assert len(timers.take_all(START_MS + 60)) == 40 * 60


def test_a_topic_that_is_full_and_late_costs_others_no_look() -> None:
    # The loader passes over those without room once, not with each look.
    timers = Timers(near_topic_count_max=2, near_count_max=10_000)
    for topic in range(TOPIC, TOPIC + 500):
        timers.store(*(key_of(topic, n) for n in range(9)))
    timers.restart()
    while timers.horizon.load(START_MS):
        pass
    scans = 0
    scan = timers.index.scan

    def counted(start: bytes, end: bytes, limit: int) -> list[tuple[bytes, bytes]]:
        nonlocal scans
        scans += 1
        return scan(start, end, limit)

    timers.index.scan = counted  # type: ignore[method-assign]
    for _ in range(1_000):
        assert not timers.horizon.load(START_MS)
    assert scans == 0
    assert len(timers.take_all(START_MS)) == 500 * 9


@pytest.mark.parametrize("topics", [1, 7])
def test_what_is_due_is_given_by_and_by_whatever_was_discarded(topics: int) -> None:
    timers = Timers()
    for topic in range(TOPIC, TOPIC + topics):
        timers.store(*(key_of(topic, n) for n in range(300)))
    timers.horizon.collect(START_MS)
    while timers.horizon.collect(START_MS):
        pass
    for topic in range(TOPIC, TOPIC + topics):
        for number in range(299):
            timers.fire(key_of(topic, number))
    found = timers.horizon.due(START_MS, topics)
    wanted = [key_of(topic, 299) for topic in range(TOPIC, TOPIC + topics)]
    assert sorted(found) == wanted
    assert len(timers.horizon) == 0


def test_a_timer_that_comes_back_under_its_key_is_given_once() -> None:
    timers = Timers()
    timers.store(*(key_of(TOPIC, n) for n in range(2_000)))
    timers.horizon.collect(START_MS)  # half of them
    timers.fire(key_of(TOPIC, 3))
    timers.store(key_of(TOPIC, 3))  # into the wheel, behind the other half
    taken = timers.horizon.due(START_MS, 10)
    assert key_of(TOPIC, 3) in taken
    taken += timers.take_all(START_MS)
    assert sorted(taken) == [key_of(TOPIC, n) for n in range(2_000)]
    timers.horizon.forget_idle()
    assert not timers.horizon.collect(START_MS)
    assert timers.horizon.prefixes() == []


def test_a_topic_without_timers_is_forgotten_and_known_again() -> None:
    line = Line()
    line.schedule(1, START_MS + 5)
    line.schedule(2, START_MS + 9, topic_id=OTHER)
    line.clock.advance(5)
    assert line.fire_all() == [1]
    line.core.horizon.forget_idle()
    assert line.core.horizon.prefixes() == [keys.timer_prefix(OTHER)]
    line.schedule(3, START_MS + 7)
    line.clock.advance(4)
    assert sorted(line.fire_all()) == [2, 3]


def test_what_is_on_its_way_while_its_topic_is_forgotten_comes_back() -> None:
    line = Line()
    line.schedule(1, START_MS)
    firing = line.core.fire()
    assert firing is not None
    line.core.horizon.forget_idle()
    assert line.core.horizon.prefixes() == []
    line.core.refused(firing)
    assert line.fire_all() == [1]


def test_all_topics_are_found_at_a_start() -> None:
    timers = Timers(load_count=2)
    wanted = [key_of(TOPIC + 7 * n, n, 3 * n) for n in range(30)]
    timers.store(*wanted)
    timers.restart()
    assert len(timers.horizon.prefixes()) == 30
    assert len(timers.horizon) == 0
    assert timers.horizon.next_ms() == START_MS
    assert sorted(timers.take_all(START_MS + 100)) == sorted(wanted)
