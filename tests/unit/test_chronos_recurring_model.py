"""Recurring schedules under crashes, refusals and decisions in any order: nothing
that occurs is lost, comes twice, or comes before what it follows."""

from dataclasses import dataclass, field

import msgspec
import pytest
from hypothesis import Phase, Verbosity, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from tests.unit.chronos_line import START_MS, Line, event_id
from tests.unit.recurring_line import RecurringLine, message

from halfpast_chronos import recurring
from halfpast_chronos.core import Firing
from halfpast_chronos.decisions import Command
from halfpast_chronos.projection import Step
from halfpast_chronos.recurrence import CatchUp, Plan, Recurrence
from halfpast_chronos.recurring import Recurring, Taken, recurrence_of
from halfpast_chronos.recurring_calls import (
    ChangeSchedule,
    CreateSchedule,
    EndSchedule,
    PauseSchedule,
    Progress,
    ScheduleState,
)
from halfpast_chronos.recurring_decisions import (
    decide_change,
    decide_create,
    decide_end,
    decide_pause,
)
from halfpast_core_store.broker import Append
from halfpast_core_store.record import Record, RecordKind, decode_record
from halfpast_core_store.topics import USER_TOPIC_ID_MIN

_properties = msgspec.msgpack.Decoder(dict[str, str])


@dataclass(frozen=True)
class Occurred:
    """What the properties of a message say of it."""

    number: int
    nominal_ms: int
    due_ms: int


@dataclass
class Wanted:
    """What the model knows of one schedule."""

    occurred: list[Occurred] = field(default_factory=list[Occurred])
    disturbed: bool = False
    """Whether it was paused, changed or ended, so that times may be missing."""


class WatchedLine(RecurringLine):
    """Also tells, by schedule, what has occurred."""

    def __init__(self, *, is_controlled: bool = False, **config: int) -> None:
        super().__init__(is_controlled=is_controlled, **config)
        self.wanted: dict[int, Wanted] = {}

    def append(self, request: Append) -> None:
        Line.append(self, request)
        for run in request.runs:
            for data in run.records if run.topic_id >= USER_TOPIC_ID_MIN else ():
                record = decode_record(data)
                if record.properties:
                    told = _properties.decode(record.properties)
                    number = int(told["schedule_id"].replace("-", ""), 16)
                    self.wanted[number].occurred.append(
                        Occurred(
                            int(told["schedule_occurrence"]),
                            int(told["schedule_time_ms"]),
                            record.due_ms,
                        )
                    )


plans = st.builds(
    Plan,
    interval_ms=st.sampled_from([10_000, 15_000, 60_000]),
    jitter_ms=st.sampled_from([0, 0, 7_000, 90_000]),
    catch_up=st.sampled_from(list(CatchUp)),
    grace_ms=st.sampled_from([0, 1000]),
    times=st.sampled_from([0, 0, 3]),
) | st.builds(
    Plan,
    cron=st.sampled_from(["* * * * *", "*/20 * * * * *", "*/10 * * * *"]),
    time_zone=st.sampled_from(["UTC", "Europe/Berlin"]),
    catch_up=st.sampled_from(list(CatchUp)),
)
GAPS_MS = st.integers(0, 3_000) | st.integers(0, 200_000)


class RecurringMachine(RuleBasedStateMachine):
    """Drives a line on which requests may wait, so that decisions overlap."""

    @initialize(
        fire_count=st.integers(1, 4),
        fire_size=st.sampled_from([1, 1 << 20]),
        first=st.lists(plans, min_size=1, max_size=3),
    )
    def start(self, fire_count: int, fire_size: int, first: list[Plan]) -> None:
        self.line = WatchedLine(fire_count=fire_count, fire_size=fire_size)
        self.on_the_way: list[Firing | Command] = []
        every_time = Plan(interval_ms=10_000, catch_up=CatchUp.FIRE_ALL)
        for plan in (every_time, *first):
            self.create(plan, False)
            self.line.append(self.on_the_way.pop().request)

    # --- what users do ----------------------------------------------------------

    @rule(plan=plans, paused=st.booleans())
    def create(self, plan: Plan, paused: bool) -> None:
        number = len(self.line.wanted) + 1
        self.line.wanted[number] = Wanted(disturbed=paused)
        self.line.follow()
        request = CreateSchedule(message(number), plan, paused)
        decided = decide_create(self.line.core, self.line.recurring, request)
        assert isinstance(decided, Command)
        self.on_the_way.append(decided)

    def _some(self, data: st.DataObject) -> tuple[int, Progress] | None:
        """A schedule that is there and has not ended."""
        self.line.follow()
        number = data.draw(st.integers(1, len(self.line.wanted)))
        progress = self.line.recurring.progress(event_id(number))
        if progress is None or progress.state == ScheduleState.ENDED:
            return None
        return number, progress

    def _decided(self, number: int, decided: object) -> None:
        if isinstance(decided, Command):
            self.line.wanted[number].disturbed = True
            self.on_the_way.append(decided)

    @rule(data=st.data(), paused=st.booleans())
    def pause(self, data: st.DataObject, paused: bool) -> None:
        if (some := self._some(data)) is not None:
            asked = PauseSchedule(event_id(some[0]), paused)
            decided = decide_pause(self.line.core, self.line.recurring, asked)
            self._decided(some[0], decided)

    @rule(data=st.data(), plan=plans)
    def change(self, data: st.DataObject, plan: Plan) -> None:
        some = self._some(data)
        if some is not None and not (plan.times and some[1].count >= plan.times):
            number, progress = some
            asked = ChangeSchedule(
                event_id(number), progress.version, plan, message(number)
            )
            decided = decide_change(self.line.core, self.line.recurring, asked)
            self._decided(number, decided)

    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        if (some := self._some(data)) is not None:
            asked = EndSchedule(event_id(some[0]))
            decided = decide_end(self.line.core, self.line.recurring, asked)
            self._decided(some[0], decided)

    # --- what the world does ----------------------------------------------------

    @rule(gap_ms=GAPS_MS)
    def time_passes(self, gap_ms: int) -> None:
        self.line.clock.advance(gap_ms)

    @rule(gap_ms=st.integers(-100_000, 0))
    def clock_is_set_back(self, gap_ms: int) -> None:
        self.line.clock.advance(gap_ms)

    @rule()
    def follow(self) -> None:
        self.line.follow()

    @rule()
    def fire(self) -> None:
        self.line.load()
        firing = self.line.core.fire()
        if firing is not None:
            self.on_the_way.append(firing)

    @rule(gap_ms=GAPS_MS)
    def fire_all(self, gap_ms: int) -> None:
        self.line.clock.advance(gap_ms)
        self.line.fire_all()

    @precondition(lambda self: bool(self.on_the_way))
    @rule(data=st.data())
    def one_becomes_durable(self, data: st.DataObject) -> None:
        sent = self._taken(data)
        if sent.request.due_max_ms > self.line.now_ms:
            self._refuse(sent)
        else:
            self.line.append(sent.request)

    @precondition(lambda self: bool(self.on_the_way))
    @rule(data=st.data())
    def one_is_refused(self, data: st.DataObject) -> None:
        self._refuse(self._taken(data))

    def _taken(self, data: st.DataObject) -> Firing | Command:
        return self.on_the_way.pop(data.draw(st.integers(0, len(self.on_the_way) - 1)))

    def _refuse(self, sent: Firing | Command) -> None:
        if isinstance(sent, Firing):
            self.line.core.refused(sent)
        else:
            self.line.core.release(sent.claims)
            self.line.core.return_to_wheel(sent.event_id)

    @rule(data=st.data())
    def crash(self, data: st.DataObject) -> None:
        """A new process takes the role: what was on its way is refused."""
        self.on_the_way.clear()
        self.line.crash(data.draw(st.integers(0, self.line.index.batches_at_risk)))

    @rule()
    def role_is_taken_anew(self) -> None:
        self.on_the_way.clear()
        self.line.follow()
        for claim in list(self.line.core.claims):
            self.line.core.release([claim])
            self.line.core.return_to_wheel(claim)

    @rule()
    def flush(self) -> None:
        self.line.core.save_position()
        self.line.index.flush()

    # --- what must hold ---------------------------------------------------------

    @invariant()
    def nothing_comes_early_twice_or_out_of_order(self) -> None:
        if not hasattr(self, "line"):
            return
        ids = [arrival.event_id for arrival in self.line.arrivals]
        assert len(ids) == len(set(ids))
        assert all(a.stored_ms >= a.due_ms for a in self.line.arrivals)
        for wanted in self.line.wanted.values():
            occurred = wanted.occurred
            assert [it.number for it in occurred] == list(range(1, len(occurred) + 1))
            nominals = [it.nominal_ms for it in occurred]
            assert nominals == sorted(set(nominals)), "it went back"

    @rule()
    def the_index_agrees(self) -> None:
        self.line.follow()
        timers = {
            key[-16:]: int.from_bytes(key[5:13], "big")
            for key, _ in self.line.index.scan(b"T", b"U", 1000)
        }
        for number, wanted in self.line.wanted.items():
            progress = self.line.recurring.progress(event_id(number))
            if progress is None:
                continue
            assert progress.count == len(wanted.occurred)
            is_active = progress.state == ScheduleState.ACTIVE
            assert timers.get(event_id(number), 0) == progress.due_ms
            assert bool(progress.due_ms) == is_active, "lost"
            check_complete(number, progress, wanted)

    def teardown(self) -> None:
        if not hasattr(self, "line"):
            return
        for sent in self.on_the_way:
            self._refuse(sent)
        self.line.follow()
        assert not self.line.core.claims
        self.line.clock.advance(200_000)  # it may have been set back
        self.line.fire_all()
        self.the_index_agrees()
        before = {n: len(it.occurred) for n, it in self.line.wanted.items()}
        states = {
            n: progress
            for n in self.line.wanted
            if (progress := self.line.recurring.progress(event_id(n))) is not None
        }
        for _ in range(2):
            self.line.clock.advance(600_000)
            self.line.fire_all()
        for number, progress in states.items():
            more = len(self.line.wanted[number].occurred) > before[number]
            is_active = progress.state == ScheduleState.ACTIVE
            if progress.plan.catch_up == CatchUp.SKIP:
                continue
            assert more == is_active, "lost"
        self.the_index_agrees()


def check_complete(number: int, progress: Progress, wanted: Wanted) -> None:
    """Where every time is to fire, each has."""
    plan = progress.plan
    if wanted.disturbed or plan.catch_up != CatchUp.FIRE_ALL or not wanted.occurred:
        return
    recurrence = recurrence_of(plan)
    nominal_ms = plan.anchor_ms
    for it in wanted.occurred:
        following_ms = recurrence.after(nominal_ms)
        assert it.nominal_ms == following_ms, "one was left out"
        assert it.due_ms == recurrence.due(event_id(number), it.nominal_ms)
        nominal_ms = it.nominal_ms


def test_schedules_agree_with_the_model() -> None:
    run_state_machine_as_test(
        RecurringMachine, settings=settings(max_examples=60, stateful_step_count=40)
    )


def find_with(machine: type[RecurringMachine]) -> None:
    """Look for a planted fault."""
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=100,
            derandomize=True,
            database=None,
            print_blob=False,
            phases=[Phase.generate],
            verbosity=Verbosity.quiet,
            deadline=None,
        ),
    )


def test_the_model_finds_an_occurrence_lost_between_frame_and_projection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def advance(self: Recurring, step: Step, record: Record, after: Progress) -> bool:
        if record.kind == RecordKind.OCCURRED:
            after.due_ms = 0  # the next timer is not set
        return real(self, step, record, after)

    real = Recurring._advance  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(Recurring, "_advance", advance)
    with pytest.raises(AssertionError, match="lost"):
        find_with(RecurringMachine)


def test_the_model_finds_an_occurrence_that_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def take_all(
        recurrence: Recurrence,
        progress: Progress,
        schedule_id: bytes,
        now_ms: int,
        count_max: int,
    ) -> Taken:
        taken = real(recurrence, progress, schedule_id, now_ms, count_max)
        if len(taken.fires) > 1 and taken.next_ms is not None:
            taken.next_ms = recurrence.after(taken.next_ms)
        return taken

    real = recurring.take_all
    monkeypatch.setattr(recurring, "take_all", take_all)
    with pytest.raises(AssertionError, match="left out"):
        find_with(RecurringMachine)


def busy_line() -> RecurringLine:
    """A log with a bit of everything about schedules in it."""
    line = RecurringLine()
    line.create(Plan(interval_ms=1000, catch_up=CatchUp.FIRE_ALL), 1)
    line.create(Plan(interval_ms=2000, times=2), 2, dedup_key=b"k" * 16)
    line.create(Plan(cron="* * * * *"), 3, paused=True)
    line.schedule(50, START_MS + 1500)
    for _ in range(5):
        line.pass_time(1500)
    line.pause(False, 3)
    line.change(Plan(interval_ms=5000, catch_up=CatchUp.FIRE_ALL), 1, key=b"k")
    line.pass_time(100_000)
    line.end(3)
    return line


def test_every_prefix_of_the_batches_leads_to_the_same_contents() -> None:
    line = busy_line()
    contents, arrivals = schedule_part(line), len(line.arrivals)
    total = line.index.batches_at_risk
    assert total > 10
    for kept in range(total + 1):
        line = busy_line()
        line.crash(kept)
        assert schedule_part(line) == contents, kept
        assert not line.core.claims
        assert line.dues(0) == []
        assert len(line.arrivals) == arrivals


def schedule_part(line: RecurringLine) -> dict[bytes, bytes]:
    """What the index holds of schedules and of what they made."""
    found = line.index.contents()
    return {key: found[key] for key in found if key[:1] in (b"R", b"T", b"E", b"F")}


def test_slices_give_what_whole_frames_give() -> None:
    whole = busy_line()
    sliced = RecurringLine()
    sliced.clock.ns = whole.clock.ns
    for frame in whole.frames:
        for start in range(max(1, len(frame.records))):
            sliced.core.apply_slice(frame, start, start + 1)
    assert schedule_part(sliced) == schedule_part(whole)
