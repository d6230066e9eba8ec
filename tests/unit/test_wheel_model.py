"""The wheel against a sorted list: the same timers, in the same order, never early."""

from bisect import insort
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, Phase, Verbosity, assume, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from halfpast_wheel.config import WheelConfig
from halfpast_wheel.errors import HandlePending
from halfpast_wheel.timing_wheel import TimingWheel

START_MS = 1_700_000_000_123
# Small ones cascade at every step and in the smallest pieces; the last two are the
# real one, and one whose outside has eight buckets to its reach.
SMALL = [
    WheelConfig(slot_bits=1, level_count=1, cascade_moves_max=1, upkeep_moves_max=1),
    WheelConfig(slot_bits=1, level_count=4, cascade_moves_max=2, upkeep_moves_max=1),
    WheelConfig(slot_bits=2, level_count=3, cascade_moves_max=1, upkeep_moves_max=1),
    WheelConfig(slot_bits=2, level_count=3, cascade_moves_max=3, upkeep_moves_max=2),
    WheelConfig(slot_bits=3, level_count=3, tick_ms=7, cascade_moves_max=4),
]
LARGE = [
    WheelConfig(),
    WheelConfig(slot_bits=9, cascade_moves_max=2, upkeep_moves_max=1),
]
CALLS_MAX = 1_000
HANDLES = st.integers(0, 20) | st.just(2**40 - 1)


def gaps_ms(config: WheelConfig) -> st.SearchStrategy[int]:
    """Lengths of time that a wheel of this shape may find interesting."""
    bits = config.slot_bits * config.level_count
    edges = [config.tick_ms << n for n in range(0, bits + 3)]
    near = st.integers(0, 4 * config.tick_ms << config.slot_bits)
    around_edge = st.builds(
        around, st.sampled_from(edges), st.integers(1, 3), st.integers(-2, 2)
    )
    return st.integers(0, 3) | near | around_edge | st.integers(0, 2**45)


def around(edge_ms: int, times: int, off_ms: int) -> int:
    return max(0, edge_ms * times + off_ms)


class WheelMachine(RuleBasedStateMachine):
    """Does the same to a wheel and to a sorted list of (tick, arrival, handle)."""

    wheel_type: ClassVar[type[TimingWheel]] = TimingWheel

    @initialize(config=st.sampled_from(SMALL + LARGE))
    def start(self, config: WheelConfig) -> None:
        self.config = config
        self.gaps = gaps_ms(config)
        self.wheel = self.wheel_type(START_MS, config)
        self.now_ms = START_MS
        self.model: list[tuple[int, int, int]] = []
        self.deadlines: dict[int, int] = {}
        self.cancelled: dict[int, int] = {}  # handle -> last deadline
        self.places: dict[tuple[int, int], int] = {}  # of what was cancelled
        self.arrivals = 0

    def tick(self, deadline_ms: int) -> int:
        return -(-deadline_ms // self.config.tick_ms)

    def draw_deadline_ms(self, data: st.DataObject) -> int:
        """Any, or that of a pending timer: then order is by arrival."""
        fresh = self.gaps.map(lambda gap_ms: self.now_ms + gap_ms)
        if not self.deadlines:
            return data.draw(fresh)
        return data.draw(st.sampled_from(sorted(self.deadlines.values())) | fresh)

    def insert_one(self, deadline_ms: int, handle: int) -> None:
        tombstones = self.wheel.tombstone_count
        self.wheel.insert(deadline_ms, handle)
        self.expect(deadline_ms, handle, self.wheel.tombstone_count < tombstones)

    def expect(self, deadline_ms: int, handle: int, has_old_place: bool) -> None:
        tick = self.tick(deadline_ms)
        arrival = self.places[tick, handle] if has_old_place else self.arrivals
        insort(self.model, (tick, arrival, handle))
        self.arrivals += 1
        self.deadlines[handle] = deadline_ms

    def due(self, now_ms: int) -> list[int]:
        return [h for tick, _, h in self.model if tick * self.config.tick_ms <= now_ms]

    def returned(self, handles: list[int]) -> None:
        for handle in handles:
            del self.deadlines[handle]
        gone = set(handles)
        self.model = [entry for entry in self.model if entry[2] not in gone]

    @rule(data=st.data(), handle=HANDLES)
    def insert(self, data: st.DataObject, handle: int) -> None:
        deadline_ms = self.draw_deadline_ms(data)
        if handle in self.deadlines:
            with pytest.raises(HandlePending):
                self.wheel.insert(deadline_ms, handle)
        else:
            self.insert_one(deadline_ms, handle)

    @rule(handle=HANDLES, ago_ms=st.integers(0, 100))
    def insert_overdue(self, handle: int, ago_ms: int) -> None:
        assume(handle not in self.deadlines)
        self.insert_one(self.now_ms - ago_ms, handle)

    @rule(data=st.data(), handles=st.lists(HANDLES, unique=True))
    def insert_many(self, data: st.DataObject, handles: list[int]) -> None:
        drawn = [(self.draw_deadline_ms(data), handle) for handle in handles]
        timers = [
            (deadline_ms, handle)
            for deadline_ms, handle in drawn
            if handle not in self.deadlines
            and (self.tick(deadline_ms), handle) not in self.places
        ]
        self.wheel.insert_many(timers)
        for deadline_ms, handle in timers:
            self.expect(deadline_ms, handle, has_old_place=False)

    @rule(handle=HANDLES)
    def cancel(self, handle: int) -> None:
        assert self.wheel.cancel(handle) == (handle in self.deadlines)
        if handle in self.deadlines:
            self.cancelled[handle] = self.deadlines[handle]
            [(tick, arrival)] = [(t, a) for t, a, h in self.model if h == handle]
            self.places[tick, handle] = arrival
            self.returned([handle])

    @rule(kept=st.integers(0, 5))
    def cancel_most(self, kept: int) -> None:
        for handle in sorted(self.deadlines)[kept:]:
            self.cancel(handle)

    @precondition(lambda self: self.deadlines)
    @rule(data=st.data(), shift_ms=st.sampled_from([0, 0, 0, 1, 5, 1000]))
    def reschedule(self, data: st.DataObject, shift_ms: int) -> None:
        handle = data.draw(st.sampled_from(sorted(self.deadlines)))
        deadline_ms = self.deadlines[handle] + shift_ms
        self.cancel(handle)
        self.insert_one(deadline_ms, handle)

    @precondition(lambda self: self.cancelled)
    @rule(data=st.data())
    def insert_again_where_it_was(self, data: st.DataObject) -> None:
        handle = data.draw(st.sampled_from(sorted(self.cancelled)))
        assume(handle not in self.deadlines)
        deadline_ms = self.cancelled.pop(handle)
        self.insert_one(deadline_ms, handle)

    @rule(data=st.data(), limit=st.integers(0, 5))
    def advance_once(self, data: st.DataObject, limit: int) -> None:
        self.now_ms += data.draw(self.gaps)
        due = self.due(self.now_ms)
        handles = self.wheel.advance(self.now_ms, limit)
        assert handles == due[: len(handles)]
        assert len(handles) <= limit
        if not self.wheel.behind:
            assert handles == due
        self.returned(handles)

    @rule(data=st.data(), limit=st.integers(1, 50))
    def advance_until_not_behind(self, data: st.DataObject, limit: int) -> None:
        self.now_ms += data.draw(self.gaps)
        due = self.due(self.now_ms)
        handles = self.wheel.advance(self.now_ms, limit)
        for _ in range(CALLS_MAX):
            if not self.wheel.behind:
                break
            handles += self.wheel.advance(self.now_ms, limit)
        assert handles == due
        self.returned(handles)

    @precondition(lambda self: self.deadlines)
    @rule(limit=st.integers(1, 3))
    def advance_as_the_wheel_asks(self, limit: int) -> None:
        asked_ms = self.wheel.next_deadline_ms()
        assert asked_ms is not None
        self.now_ms = max(self.now_ms, asked_ms)
        due = self.due(self.now_ms)
        handles = self.wheel.advance(self.now_ms, limit)
        assert handles == due[: len(handles)]
        self.returned(handles)

    @rule(back_ms=st.integers(1, 50), limit=st.integers(1, 5))
    def clock_goes_back(self, back_ms: int, limit: int) -> None:
        handles = self.wheel.advance(self.now_ms - back_ms, limit)
        assert handles == self.due(self.now_ms - back_ms)[: len(handles)]
        self.returned(handles)

    @invariant()
    def agrees(self) -> None:
        if not hasattr(self, "wheel"):
            return
        assert len(self.wheel) == len(self.model)
        assert self.wheel.handles() == self.deadlines.keys()
        asked_ms = self.wheel.next_deadline_ms()
        if not self.model:
            assert asked_ms is None
            assert not self.wheel.behind
        else:
            assert asked_ms is not None
            assert asked_ms <= self.model[0][0] * self.config.tick_ms

    def teardown(self) -> None:
        """Everything that is left comes out in the end, in order."""
        if not hasattr(self, "wheel"):
            return
        handles: list[int] = []
        for _ in range(CALLS_MAX):
            asked_ms = self.wheel.next_deadline_ms()
            if asked_ms is None:
                break
            handles += self.wheel.advance(max(asked_ms, self.now_ms), 7)
        assert handles == [handle for _, _, handle in self.model]


TestWheelMachine = WheelMachine.TestCase
TestWheelMachine.settings = settings(
    max_examples=300,
    stateful_step_count=40,
    suppress_health_check=[HealthCheck.too_slow],
)


class RoundsDown(TimingWheel):
    """The planted bug: a tick is over a millisecond before its end."""

    def advance(self, now_ms: int, limit: int) -> list[int]:
        return super().advance(now_ms + 1, limit)


class ForgetsArrival(TimingWheel):
    """A planted bug: what is returned together comes in order of handle."""

    def advance(self, now_ms: int, limit: int) -> list[int]:
        return sorted(super().advance(now_ms, limit))


@pytest.mark.parametrize("planted", [RoundsDown, ForgetsArrival])
def test_the_model_finds_a_planted_bug(planted: type[TimingWheel]) -> None:
    class PlantedMachine(WheelMachine):
        wheel_type = planted

    with pytest.raises(AssertionError):
        run_state_machine_as_test(
            PlantedMachine,
            settings=settings(
                max_examples=100,
                phases=[Phase.generate],
                database=None,
                derandomize=True,
                verbosity=Verbosity.quiet,
            ),
        )
