"""A virtual clock goes from alarm to alarm, forward only."""

from collections.abc import Callable

from halfpast_core_store.virtual_clock import VirtualAlarm, VirtualClock

T0 = 1_000_000


class Rig:
    """A clock, what rang when, and what waits for the next turn of a loop."""

    def __init__(self) -> None:
        self.clock = VirtualClock(T0)
        self.rang: list[tuple[str, int]] = []
        self.later: list[Callable[[], None]] = []

    def alarm(self, name: str, at_ms: int | None = None) -> VirtualAlarm:
        alarm = self.clock.alarm(
            lambda: self.rang.append((name, self.clock.now_ms)), self.later.append
        )
        if at_ms is not None:
            alarm.set(at_ms)
        return alarm

    def go(self, until_ms: int) -> None:
        while self.clock.step(until_ms):
            pass


def test_it_stands_still_and_both_times_go_together() -> None:
    clock = VirtualClock(T0)
    assert (clock.now_ns(), clock.now_ms) == (T0 * 1_000_000, T0)
    ahead_ns = clock.now_ns() - clock.monotonic_ns()
    assert not clock.step(T0 + 5)
    assert clock.now_ms == T0 + 5
    assert clock.now_ns() - clock.monotonic_ns() == ahead_ns


def test_alarms_ring_at_their_own_time_in_order_of_time() -> None:
    rig = Rig()
    rig.alarm("late", T0 + 30)
    rig.alarm("early", T0 + 10)
    rig.alarm("same", T0 + 10)
    rig.alarm("beyond", T0 + 41)
    rig.go(T0 + 40)
    assert rig.rang == [("early", T0 + 10), ("same", T0 + 10), ("late", T0 + 30)]
    assert rig.clock.now_ms == T0 + 40


def test_what_an_alarm_sets_on_the_way_rings_too() -> None:
    rig = Rig()
    ticks: list[int] = []

    def tick() -> None:
        ticks.append(rig.clock.now_ms)
        alarm.set(rig.clock.now_ms + 10)

    alarm = rig.clock.alarm(tick, rig.later.append)
    alarm.set(T0 + 10)
    rig.go(T0 + 35)
    assert ticks == [T0 + 10, T0 + 20, T0 + 30]
    assert alarm.at_ms == T0 + 40


def test_an_alarm_for_now_or_before_rings_in_the_next_turn() -> None:
    rig = Rig()
    rig.alarm("past", T0 - 5)
    assert rig.rang == []
    for wake in rig.later:
        wake()
    assert rig.rang == [("past", T0)]


def test_an_alarm_rings_once_and_not_after_it_was_set_anew_or_closed() -> None:
    rig = Rig()
    moved = rig.alarm("moved", T0 + 10)
    moved.set(T0 + 50)
    closed = rig.alarm("closed", T0 + 10)
    closed.close()
    off = rig.alarm("off", T0 + 10)
    off.set(None)
    rig.go(T0 + 20)
    assert rig.rang == []
    past = rig.alarm("past", T0)
    past.close()
    for wake in rig.later:
        wake()
    assert rig.rang == []


def test_it_never_goes_back() -> None:
    clock = VirtualClock(T0)
    clock.step(T0 - 1000)
    assert clock.now_ms == T0
    assert clock.next_ms() is None
