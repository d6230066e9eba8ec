"""The near horizon: bounded, and yet no timer is forgotten or loaded twice."""

from tests.unit.chronos_line import START_MS, TOPIC, Line, event_id, schedule_record

from halfpast_chronos import keys
from halfpast_chronos.config import ChronosConfig
from halfpast_chronos.horizon import Horizon
from halfpast_chronos.load_slice import SLICE_MIN, SLICE_SIZE
from halfpast_chronos.reach import Reach
from halfpast_core_store.memory_index import MemoryIndex

SMALL: dict[str, int] = {"near_count_max": 10, "load_count": 3, "fire_count": 4}


class Timers:
    """A horizon over an index, with nothing around it."""

    def __init__(self, **config: int) -> None:
        self.index = MemoryIndex()
        self.config = ChronosConfig(**config)
        self.horizon = Horizon(
            self.index, self.config, START_MS, keys.TIMER_PREFIX_SIZE
        )

    def store(self, *timers: bytes, body: bytes = b"") -> None:
        batch = self.index.batch()
        for key in timers:
            batch.put(key, body)
        self.index.write(batch)
        self.horizon.add_many(timers)

    def restart(self) -> None:
        """Nothing is in memory any more."""
        self.horizon = Horizon(
            self.index, self.config, START_MS, keys.TIMER_PREFIX_SIZE
        )

    def fire(self, key: bytes) -> None:
        """The timer is gone from the index and from the wheel."""
        batch = self.index.batch()
        batch.delete(key)
        self.index.write(batch)
        self.horizon.discard(key)

    def take_all(self, now_ms: int) -> list[bytes]:
        """Everything that is due, as it is loaded, fired and deleted."""
        taken: list[bytes] = []
        while True:
            more = self.horizon.load(now_ms)
            due = self.horizon.due(now_ms, 4)
            for key in due:
                self.fire(key)
            taken += due
            if not due and not more:
                return taken


def timer(number: int, after_ms: int = 0) -> bytes:
    return keys.timer(TOPIC, START_MS + after_ms, event_id(number))


def test_the_wheel_is_bounded_by_count() -> None:
    timers = Timers(near_count_max=10, load_count=3)
    timers.store(*[timer(n) for n in range(1000)])
    while timers.horizon.load(START_MS):
        pass
    assert len(timers.horizon) <= 2 * 10
    assert timers.take_all(START_MS) == [timer(n) for n in range(1000)]


def test_the_wheel_is_bounded_by_time() -> None:
    timers = Timers(lookahead_ms=100)
    timers.horizon.load(START_MS)
    timers.store(timer(1, 50), timer(2, 100), timer(3, 101))
    assert len(timers.horizon) == 2
    assert timers.take_all(START_MS + 1) == []
    assert len(timers.horizon) == 3


def test_a_horizon_within_one_millisecond() -> None:
    line = Line(**SMALL)
    for number in range(200):
        line.schedule(number, START_MS + 50)
        if number == 100:
            line.load()
    line.clock.advance(50)
    assert sorted(line.fire_all()) == list(range(200))


def test_a_new_earlier_timer_goes_straight_into_the_wheel() -> None:
    line = Line(**SMALL)
    for number in range(100, 150):
        line.schedule(number, START_MS + number)
    line.load()
    line.schedule(1, START_MS + 1)
    assert line.core.horizon.next_ms() == START_MS + 1
    line.clock.advance(1)
    firing = line.core.fire()
    assert firing is not None
    assert firing.keys == [timer(1, 1)]


def test_too_many_near_timers_draw_the_horizon_back() -> None:
    timers = Timers(near_count_max=10, load_count=3)
    while timers.horizon.load(START_MS):  # all is empty: the horizon is far away
        pass
    for number in range(100):
        timers.store(timer(number, number))
    # Twice the bound, and what comes in while a drop is under way.
    assert len(timers.horizon) <= 2 * 10 + 8
    assert timers.take_all(START_MS + 100) == [timer(n, n) for n in range(100)]


def test_a_drop_under_way_is_not_begun_anew_with_each_new_timer() -> None:
    # It was: each addition listed the whole wheel again while it was too full.
    timers = Timers(near_count_max=1000, load_count=10)
    while timers.horizon.load(START_MS):
        pass
    lists = 0
    draw_back = timers.horizon._draw_back  # pyright: ignore[reportPrivateUsage]

    def counted(reach: Reach) -> None:
        nonlocal lists
        lists += 1
        draw_back(reach)

    timers.horizon._draw_back = counted  # type: ignore[method-assign]
    for number in range(2100):
        timers.store(timer(number, 10_000 - number))
    assert lists == 1


def test_drawing_back_never_moves_the_horizon_forward() -> None:
    # What came in behind the horizon is not in the wheel: skipping it loses it.
    timers = Timers(near_count_max=10, load_count=1)
    while timers.horizon.load(START_MS):
        pass
    near = [timer(n, n) for n in range(11)]
    far = [timer(100 + n, 1000 + n) for n in range(10)]
    timers.store(*near, *far)  # draws back to the last of the near ones
    behind = timer(50, 500)
    timers.store(behind)
    for key in near:
        timers.fire(key)
    # Only what is yet to be dropped is in the wheel; its middle is far away.
    reach = timers.horizon._reach_of(behind)  # pyright: ignore[reportPrivateUsage]
    timers.horizon._draw_back(reach)  # pyright: ignore[reportPrivateUsage]
    assert behind in timers.take_all(START_MS + 2000)


def test_a_wheel_full_of_far_timers_hides_none_that_is_due() -> None:
    # Drawn back into what is due now, with only far ones left in the wheel.
    line = Line(near_count_max=10, load_count=3)
    line.load()
    for number in range(10):
        line.schedule(number, START_MS + 1023)
    records = [schedule_record(n, START_MS) for n in range(10, 22)]
    line.append_records(records)
    line.follow()
    horizon = line.core.horizon
    horizon.load(line.now_ms)  # drops one of those that are due
    for _ in range(12):
        firing = line.core.fire()
        if firing is not None:
            line.send(firing)
        elif horizon.wants_load(line.now_ms):
            horizon.load(line.now_ms)
        if len(line.arrivals) < 12:
            assert horizon.next_ms() <= line.now_ms
    assert len(line.arrivals) == 12


def test_the_alarm_is_set_for_what_lies_behind_the_horizon() -> None:
    timers = Timers(near_count_max=1, load_count=1)
    timers.horizon.load(START_MS)
    assert timers.horizon.next_ms() > START_MS
    timers = Timers(near_count_max=1, load_count=1)
    timers.store(timer(1, 10), timer(2, 10), timer(3, 20))
    timers.horizon.load(START_MS)
    timers.fire(timer(1, 10))
    assert timers.horizon.next_ms() == START_MS + 10


def test_slices_are_dropped_while_others_fire() -> None:
    line = Line(**SMALL)
    line.load()
    for number in range(21):  # one too many: the horizon is drawn back
        line.schedule(number, START_MS + number)
    fired: list[int] = []
    for _ in range(30):
        line.clock.advance(1)
        firing = line.core.fire()
        if firing is not None:
            line.send(firing)
        line.core.horizon.load(line.now_ms)
    fired = [int.from_bytes(a.event_id, "big") for a in line.arrivals]
    assert fired == list(range(21))


def test_a_timer_is_in_the_wheel_once() -> None:
    timers = Timers()
    timers.store(timer(1), timer(1))
    timers.horizon.load(START_MS)
    assert not timers.horizon.add(timer(1))
    assert len(timers.horizon) == 1
    assert timers.take_all(START_MS) == [timer(1)]


def test_large_timers_are_loaded_few_at_a_time() -> None:
    # A scan brings the bodies along: 2,000 of 4 MiB would be 8 GiB.
    timers = Timers(near_count_max=10_000, load_count=2_000)
    body = bytes(SLICE_SIZE // SLICE_MIN)
    timers.store(*[timer(n) for n in range(300)], body=body)
    timers.restart()
    sizes: list[int] = []
    more = True
    while more:
        before = len(timers.horizon)
        more = timers.horizon.load(START_MS)
        sizes.append(len(timers.horizon) - before)
    assert max(sizes) <= SLICE_MIN
    assert sum(sizes) == 300


def test_small_timers_are_soon_loaded_many_at_a_time() -> None:
    timers = Timers(near_count_max=10_000, load_count=200)
    timers.store(*[timer(n) for n in range(1000)], body=bytes(300))
    timers.restart()
    slices = 0
    while timers.horizon.load(START_MS):
        slices += 1
    assert slices <= 8
    assert len(timers.horizon) == 1000


def test_timers_of_a_bigger_key_than_the_horizon_are_loaded_later() -> None:
    record = schedule_record(1, START_MS)
    timers = Timers(load_count=2)
    timers.store(*[timer(n) for n in range(5)], body=record)
    timers.restart()
    timers.horizon.load(START_MS)
    assert not timers.horizon.add(timer(4))
    assert timers.take_all(START_MS) == [timer(n) for n in range(5)]
