"""The core against a plain dict of timers: whatever happens, in whatever order.

A small wheel and tiny slices, so that the horizon is drawn back, moved and dropped
all the time; a log in which requests may wait, so that decisions overlap; crashes
that lose any number of the index's last batches.
"""

from dataclasses import dataclass, field

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
from tests.unit.chronos_line import (
    TOPIC,
    Line,
    event_id,
    number_of,
    own_record,
    schedule_record,
)

from halfpast_chronos import keys
from halfpast_chronos.core import DelayCore, Firing
from halfpast_chronos.decisions import (
    Busy,
    Command,
    decide_cancel,
    decide_replace,
    decide_reschedule,
)
from halfpast_chronos.delay_server import Cancel, EventState, Replace, Reschedule
from halfpast_chronos.failing_decisions import decide_redrive
from halfpast_chronos.horizon import Horizon
from halfpast_chronos.release_calls import Redrive
from halfpast_chronos.topic_controls import CLOSED
from halfpast_core_store.errors import UnknownTopic
from halfpast_core_store.record import RecordKind, decode_record

CONFIGS: list[dict[str, int]] = [
    {"near_count_max": 10, "load_count": 3, "fire_count": 4},
    {"near_count_max": 3, "load_count": 1, "fire_count": 2, "lookahead_ms": 20},
    {"near_count_max": 5, "load_count": 50, "fire_count": 1, "fire_size": 1},
    {},
]
GAPS_MS = st.integers(0, 40) | st.just(1023) | st.integers(0, 3_000)
OTHER = TOPIC + 1
CONTROLS: list[dict[str, object]] = [
    {},
    {"is_paused": True},
    {"closed": CLOSED},
    {"release_rate_per_s": 30},
    {"body_size_max": 7},  # of "event 1" and the like, but not of "event 10"
]
RETRIES = {"attempts_max": 2, "retry_initial_ms": 20, "retry_max_ms": 30}
OWN_KEYS = st.sampled_from([b"own-a", b"own-b"])


@dataclass(slots=True)
class Wanted:
    """What the model knows of one event."""

    due_ms: int
    state: EventState = EventState.SCHEDULED
    version: int = 1
    attempts: int = 0
    retry_ms: int = 0

    @property
    def timer_ms(self) -> int:
        return self.retry_ms or self.due_ms

    def move(self, due_ms: int) -> None:
        self.due_ms = due_ms
        self.version += 1
        self.attempts = self.retry_ms = 0


@dataclass(slots=True)
class Model:
    """What must be true of the log, record by record."""

    events: dict[int, Wanted] = field(default_factory=lambda: {})
    own: dict[bytes, int] = field(default_factory=lambda: {})

    def pending(self) -> list[int]:
        return [n for n, e in self.events.items() if e.state == EventState.SCHEDULED]

    def dead(self) -> list[int]:
        return [n for n, e in self.events.items() if e.state == EventState.DEAD]


class DelayMachine(RuleBasedStateMachine):
    """Drives a `Line`; the model is moved when something becomes durable."""

    @initialize(config=st.sampled_from(CONFIGS))
    def start(self, config: dict[str, int]) -> None:
        self.line = Line(is_controlled=True, **config, **RETRIES)
        self.model = Model()
        self.numbers = 0
        self.on_the_way: list[Firing | tuple[Command, str, int]] = []

    @property
    def core(self) -> DelayCore:
        return self.line.core

    # --- what users do ----------------------------------------------------------

    @rule(gaps=st.lists(GAPS_MS, min_size=1, max_size=12))
    def schedule(self, gaps: list[int]) -> None:
        records: list[bytes] = []
        for gap_ms in gaps:
            self.numbers += 1
            due_ms = self.line.now_ms + gap_ms
            self.model.events[self.numbers] = Wanted(due_ms)
            topic = topic_of(self.numbers)
            records.append(schedule_record(self.numbers, due_ms, topic_id=topic))
        self.line.append_records(records)

    @rule(count=st.integers(5, 40), gap_ms=GAPS_MS)
    def schedule_many_at_once(self, count: int, gap_ms: int) -> None:
        self.schedule([gap_ms] * count)

    @precondition(lambda self: self.numbers > 0)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        number = data.draw(st.integers(1, self.numbers + 1))
        self.line.follow()
        decision = decide_cancel(self.core, Cancel(event_id(number)))
        if isinstance(decision, Command):
            known = self.model.events[number].state
            assert known in (EventState.SCHEDULED, EventState.DEAD)
            self.on_the_way.append((decision, "cancel", 0))
        elif not isinstance(decision, Busy):
            event = self.model.events.get(number)
            state = None if event is None else event.state
            assert decision.outcome == {
                None: "not_found",
                EventState.CANCELLED: "cancelled",
                EventState.DELIVERED: "too_late",
            }.get(state)

    @precondition(lambda self: bool(self.model.pending()))
    @rule(data=st.data(), gap_ms=GAPS_MS, now=st.booleans())
    def reschedule(self, data: st.DataObject, gap_ms: int, now: bool) -> None:
        number = data.draw(st.sampled_from(self.model.pending()))
        self.line.follow()
        due_ms = self.line.now_ms + (0 if now else gap_ms)
        request = Reschedule(event_id(number), due_ms, deliver_now=now)
        decision = decide_reschedule(self.core, request)
        if isinstance(decision, Command):
            self.on_the_way.append((decision, "move", due_ms))

    @precondition(lambda self: bool(self.model.dead()))
    @rule(data=st.data())
    def redrive(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(self.model.dead()))
        self.line.follow()
        decision = decide_redrive(self.core, Redrive(event_id(number)))
        if isinstance(decision, Command):
            self.on_the_way.append((decision, "redrive", self.line.now_ms))

    @rule(topic=st.sampled_from([TOPIC, OTHER]), control=st.sampled_from(CONTROLS))
    def control(self, topic: int, control: dict[str, object]) -> None:
        self.line.control(topic, **control)

    @rule(key=OWN_KEYS, gap_ms=GAPS_MS)
    def put(self, key: bytes, gap_ms: int) -> None:
        self.line.follow()
        self.numbers += 1
        due_ms = self.line.now_ms + gap_ms
        record = own_record(self.numbers, due_ms, key)
        decision = decide_replace(self.core, Replace(record))
        if isinstance(decision, Command):
            what = "create" if decision.created else "move"
            self.on_the_way.append((decision, what, due_ms))

    # --- what the world does ----------------------------------------------------

    @rule(gap_ms=GAPS_MS)
    def time_passes(self, gap_ms: int) -> None:
        self.line.clock.advance(gap_ms)

    @rule(gap_ms=st.integers(-500, 500_000))
    def clock_is_set(self, gap_ms: int) -> None:
        self.line.clock.advance(gap_ms)

    @rule(times=st.integers(1, 5))
    def load(self, times: int) -> None:
        for _ in range(times):
            self.core.horizon.load(self.line.now_ms)

    @rule()
    def follow(self) -> None:
        self.line.follow()

    @rule()
    def fire(self) -> None:
        firing = self.core.fire()
        if firing is not None:
            assert all(due_of(key) <= self.line.now_ms for key in firing.keys)
            self.on_the_way.append(firing)

    @rule(gap_ms=GAPS_MS, times=st.integers(1, 6))
    def some_fire(self, gap_ms: int, times: int) -> None:
        """Time passes, and what is due goes all the way, or is refused for good."""
        self.line.clock.advance(gap_ms)
        for _ in range(times):
            self.line.load()
            firing = self.core.fire()
            if firing is None:
                return
            if firing.request.due_max_ms > self.line.now_ms:
                self.core.refused(firing)
                return
            if firing.message_count == 1 and number_of(firing.keys[0][-16:]) % 7 == 0:
                self.core.refused(firing, UnknownTopic("x"))
                continue
            self.line.append(firing.request)
            self._fired(firing)
            self.line.follow()

    @precondition(lambda self: bool(self.on_the_way))
    @rule(data=st.data())
    def one_becomes_durable(self, data: st.DataObject) -> None:
        index = data.draw(st.integers(0, len(self.on_the_way) - 1))
        sent = self.on_the_way[index]
        request = sent.request if isinstance(sent, Firing) else sent[0].request
        if request.due_max_ms > self.line.now_ms:
            self.one_is_refused(data)
            return
        del self.on_the_way[index]
        self.line.append(request)
        if isinstance(sent, Firing):
            self._fired(sent)
        else:
            self._commanded(*sent)

    def _fired(self, firing: Firing) -> None:
        records = [decode_record(r) for run in firing.request.runs for r in run.records]
        kinds = (RecordKind.FAILED, RecordKind.DEAD)
        not_taken = {r.event_id: r for r in records if r.kind in kinds}
        for key in firing.keys:
            event = self.model.events[number_of(key[-16:])]
            assert event.state == EventState.SCHEDULED, "fired after its end"
            assert event.timer_ms == due_of(key), "fired at a time it has not"
            failed = not_taken.get(key[-16:])
            if failed is None:
                event.state = EventState.DELIVERED
                continue
            event.attempts += 1
            assert failed.attempt == event.attempts
            event.retry_ms = failed.due_ms
            assert (failed.kind == RecordKind.DEAD) == (event.attempts == 2)
            if failed.kind == RecordKind.DEAD:
                event.state = EventState.DEAD

    def _commanded(self, command: Command, what: str, due_ms: int) -> None:
        number = number_of(command.event_id)
        if what == "create":
            self.model.events[number] = Wanted(due_ms)
            return
        event = self.model.events[number]
        wanted = EventState.DEAD if what == "redrive" else EventState.SCHEDULED
        if what != "cancel" or event.state != EventState.DEAD:
            assert event.state == wanted, "decided about after its end"
        if what == "cancel":
            event.version += 1
            event.state = EventState.CANCELLED
        else:
            event.state = EventState.SCHEDULED
            event.move(due_ms)

    @precondition(lambda self: bool(self.on_the_way))
    @rule(data=st.data())
    def one_is_refused(self, data: st.DataObject) -> None:
        index = data.draw(st.integers(0, len(self.on_the_way) - 1))
        sent = self.on_the_way.pop(index)
        if isinstance(sent, Firing):
            error = UnknownTopic("x") if data.draw(st.booleans()) else None
            self.core.refused(sent, error)
        else:
            self.core.release(sent[0].claims)
            self.core.return_to_wheel(sent[0].event_id)

    @rule(data=st.data())
    def crash(self, data: st.DataObject) -> None:
        """A new process takes the role: what was on its way is refused."""
        self.on_the_way.clear()
        self.line.crash(data.draw(st.integers(0, self.line.index.batches_at_risk)))

    @rule()
    def role_is_taken_anew(self) -> None:
        """The same process, after a lost connection."""
        self.on_the_way.clear()
        self.line.follow()
        for claim in list(self.core.claims):
            self.core.release([claim])
            self.core.return_to_wheel(claim)

    @rule()
    def flush(self) -> None:
        self.core.save_position()
        self.line.index.flush()

    # --- what must hold ---------------------------------------------------------

    @invariant()
    def nothing_arrives_early_or_twice(self) -> None:
        seen = [arrival.event_id for arrival in self.line.arrivals]
        assert len(seen) == len(set(seen))
        assert all(a.stored_ms >= a.due_ms for a in self.line.arrivals)

    @rule()
    def the_index_agrees(self) -> None:
        self.line.follow()
        for number, wanted in self.model.events.items():
            event = self.line.event(number)
            found = (event.state, event.due_ms, event.version, event.attempts)
            expected = (wanted.state, wanted.due_ms, wanted.version, wanted.attempts)
            assert found == expected, number
        timers = self.line.index.scan(b"T", b"U", 100_000)
        pending = sorted(
            (self.model.events[n].timer_ms, n) for n in self.model.pending()
        )
        found_timers = sorted((due_of(k), number_of(k[-16:])) for k, _ in timers)
        assert found_timers == pending
        dead = self.line.index.scan(b"Dd", b"De", 100_000)
        assert sorted(number_of(k[-16:]) for k, _ in dead) == self.model.dead()
        retried = self.line.index.scan(b"Dr", b"Ds", 100_000)
        assert sorted(number_of(k[-16:]) for k, _ in retried) == sorted(
            n for n in self.model.pending() if self.model.events[n].attempts
        )

    def teardown(self) -> None:
        """Nobody is forgotten: by and by every pending timer fires."""
        if not hasattr(self, "line"):
            return
        while self.on_the_way:
            sent = self.on_the_way.pop()
            if isinstance(sent, Firing):
                self.core.refused(sent)
            else:
                self.core.release(sent[0].claims)
                self.core.return_to_wheel(sent[0].event_id)
        self.line.follow()
        assert not self.core.claims
        for topic in (TOPIC, OTHER):
            self.line.control(topic)
        self.no_more_failures()
        dues = sorted({self.model.events[n].timer_ms for n in self.model.pending()})
        for due_ms in dues:
            now_ms = max(self.line.now_ms, due_ms)
            self.line.clock.advance(now_ms - self.line.now_ms)
            fired = self.line.fire_all()
            for number in fired:
                wanted = self.model.events[number]
                assert wanted.state == EventState.SCHEDULED
                assert wanted.timer_ms <= now_ms
                wanted.state = EventState.DELIVERED
            late = [
                n
                for n in self.model.pending()
                if self.model.events[n].timer_ms <= now_ms
            ]
            assert late == [], "forgotten"
        assert not self.line.index.scan(b"T", b"U", 10)
        assert not self.line.index.scan(b"K", b"L", 10)
        assert not self.line.index.scan(b"Dr", b"Ds", 10)
        assert len(self.core.horizon) == 0

    def no_more_failures(self) -> None:
        """What the broker has refused fails once more, and is then as all others."""
        refused = self.core._alone  # pyright: ignore[reportPrivateUsage]
        while refused:
            firing = self.core.fire()
            if firing is not None:
                self.line.append(firing.request)
                self._fired(firing)
                self.line.follow()


def topic_of(number: int) -> int:
    return OTHER if number % 3 == 0 else TOPIC


def due_of(key: bytes) -> int:
    return keys.timer_due_ms(key)


def test_the_core_agrees_with_the_model() -> None:
    run_state_machine_as_test(
        DelayMachine,
        settings=settings(max_examples=60, stateful_step_count=50),
    )


class SkippingMachine(DelayMachine):
    """With a planted fault: each slice that is loaded hides what comes behind it."""

    @rule()
    def plant(self) -> None:
        horizon = self.core.horizon

        def load(now_ms: int) -> bool:
            more = Horizon.load(horizon, now_ms)
            if more:
                for reach in horizon._reaches.values():  # pyright: ignore[reportPrivateUsage]
                    until = reach.prefix + keys.BIG_U64.pack(now_ms + 1)
                    reach.end = max(reach.end, until)
            return more

        horizon.load = load  # type: ignore[method-assign]


def test_the_model_finds_a_forgotten_timer() -> None:
    with pytest.raises(AssertionError, match="forgotten"):
        run_state_machine_as_test(
            SkippingMachine,
            settings=settings(
                max_examples=200,
                derandomize=True,
                database=None,
                print_blob=False,
                phases=[Phase.generate],
                verbosity=Verbosity.quiet,
            ),
        )
