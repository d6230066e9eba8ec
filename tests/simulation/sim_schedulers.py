"""Simulated users of what the Delay Server does beside plain timers: recurring
schedules, bulk operations, settings of topics, and dead events that are redriven."""

from typing import TYPE_CHECKING

from tests.simulation.sim_model import demand
from tests.simulation.sim_settings import ALL_TOPICS, CHOOSY_TOPICS, TOPICS

from halfpast_chronos.delay_server import EventState
from halfpast_chronos.failing_decisions import decide_redrive
from halfpast_chronos.operation import (
    EVER_MS,
    BeginBulk,
    Bulk,
    BulkAction,
    CancelOperation,
    EventFilter,
)
from halfpast_chronos.recurrence import CatchUp, Plan
from halfpast_chronos.recurring_calls import (
    ChangeSchedule,
    CreateSchedule,
    EndSchedule,
    PauseSchedule,
    ScheduleState,
)
from halfpast_chronos.recurring_decisions import (
    decide_change,
    decide_create,
    decide_end,
    decide_pause,
)
from halfpast_chronos.release_calls import Redrive
from halfpast_core_store.record import RecordKind, encode_record

if TYPE_CHECKING:
    from tests.simulation.sim_world import World

SCHEDULES_MAX = 3
OPERATIONS_MAX = 5


class Schedulers:
    """What they ask, and what they were answered."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._random = world.random
        self._made: list[bytes] = []
        self._operations: list[bytes] = []

    # --- recurring schedules ----------------------------------------------------------

    def make_schedule(self) -> None:
        """Make one, perhaps the same one again."""
        if len(self._made) >= SCHEDULES_MAX:
            return
        process = self._world.delay
        schedule_id = b"\2" + len(self._made).to_bytes(15, "big")
        self._made.append(schedule_id)
        dedup_key = self._random.choice((b"", schedule_id + b"key"))
        request = CreateSchedule(
            self._message(schedule_id),
            self._plan(),
            paused=self._random.random() < 0.1,
            dedup_key=dedup_key,
        )
        process.decide(
            lambda: decide_create(process.core, process.recurring, request),
            lambda _: None,
        )

    def _message(self, schedule_id: bytes) -> bytes:
        topic = self._random.choice(ALL_TOPICS[:-1])
        return encode_record(
            RecordKind.NORMAL,
            topic_id=topic,
            event_id=schedule_id,
            born_ms=self._world.now_ms,
            body=bytes(self._random.choice((4, 80))),
        )

    def _plan(self) -> Plan:
        chance = self._random.choice
        seconds = chance((1, 1, 2))
        is_cron = self._random.random() < 0.4
        return Plan(
            cron=f"*/{seconds} * * * * *" if is_cron else "",
            interval_ms=0 if is_cron else chance((1_000, 1_300, 2_100)),
            times=chance((0, 0, 0, 2, 5)),
            until_ms=chance((0, 0, 0, self._world.now_ms + 5_000)),
            jitter_ms=chance((0, 0, 300, 5_000)),
            catch_up=chance(list(CatchUp)),
            grace_ms=chance((0, 500)),
        )

    def change_schedule(self) -> None:
        """Pause one, let it go on, give it another plan, or end it."""
        if not self._made:
            return
        process, schedule_id = self._world.delay, self._random.choice(self._made)
        core, recurring = process.core, process.recurring
        progress = recurring.progress(schedule_id)
        if progress is None:
            return
        fate = self._random.random()
        if fate < 0.6:
            paused = progress.state == ScheduleState.ACTIVE
            pause = PauseSchedule(schedule_id, paused)
            process.decide(lambda: decide_pause(core, recurring, pause), self._told)
        elif fate < 0.9:
            definition = recurring.record(schedule_id)
            assert definition is not None
            record = encode_record(
                RecordKind.NORMAL,
                topic_id=progress.topic_id,
                event_id=schedule_id,
                body=bytes(8),
            )
            change = ChangeSchedule(schedule_id, progress.version, self._plan(), record)
            process.decide(lambda: decide_change(core, recurring, change), self._told)
        else:
            self._end(schedule_id)

    def _told(self, answer: object) -> None:
        """A refusal is true by the log, which the model checks."""

    def _end(self, schedule_id: bytes) -> None:
        process = self._world.delay
        request = EndSchedule(schedule_id)
        process.decide(
            lambda: decide_end(process.core, process.recurring, request), self._told
        )

    def end_all(self) -> bool:
        """Ask for the end of all schedules; True when they have ended."""
        known = self._world.timers.schedules.known
        left = [
            schedule_id
            for schedule_id, progress in known.items()
            if progress.state != ScheduleState.ENDED
        ]
        for schedule_id in left:
            if schedule_id not in self._world.delay.core.claims:
                self._end(schedule_id)
        return not left

    # --- bulk operations --------------------------------------------------------------

    def begin_operation(self) -> None:
        """Cancel or move many. Those of transactions have neither key nor tag."""
        if len(self._operations) >= OPERATIONS_MAX:
            return
        process = self._world.delay
        number = len(self._operations)
        operation_id = b"\3" + number.to_bytes(15, "big")
        self._operations.append(operation_id)
        request = BeginBulk(operation_id, self._bulk(), self._world.now_ms)
        process.decide(
            lambda: process.operations.decide_begin(request, 0), lambda _: None
        )

    def _bulk(self) -> Bulk:
        chance, now_ms = self._random.choice, self._world.now_ms
        key, tag = chance(((None, b"x"), (b"k1", None), (b"k2", b"x"), (None, None)))
        is_any = key is None and tag is None
        topic = chance(CHOOSY_TOPICS if is_any else (0, *TOPICS, *CHOOSY_TOPICS))
        wanted = EventFilter(
            topic,
            key,
            tag,
            chance((0, 0, now_ms + 100)),
            chance((EVER_MS, EVER_MS, now_ms + 600)),
        )
        dry_run = self._random.random() < 0.1
        if self._random.random() < 0.4:
            return Bulk(BulkAction.CANCEL, wanted, dry_run)
        if self._random.random() < 0.3:
            due_ms = now_ms + chance((0, 200, 700))
            return Bulk(BulkAction.RESCHEDULE, wanted, dry_run, due_ms=due_ms)
        shift_ms = chance((-400, -20, 30, 500))
        return Bulk(BulkAction.RESCHEDULE, wanted, dry_run, shift_ms=shift_ms)

    def cancel_operation(self) -> None:
        if self._operations:
            process = self._world.delay
            request = CancelOperation(self._random.choice(self._operations))
            process.decide(
                lambda: process.operations.decide_cancel(request), lambda _: None
            )

    # --- dead events ------------------------------------------------------------------

    def redrive(self) -> None:
        """Try something again that is dead, or perhaps is not."""
        timers = self._world.timers.timers
        dead = [
            event_id
            for event_id, timer in timers.items()
            if timer.state == EventState.DEAD
        ]
        if dead and self._random.random() < 0.9:
            self._redrive(self._random.choice(dead))
        elif timers:
            self._redrive(self._random.choice(list(timers)))

    def _redrive(self, event_id: bytes) -> None:
        process, world = self._world.delay, self._world
        request = Redrive(event_id)

        def answered(answer: object) -> None:
            code = getattr(answer, "code", "")
            state = world.timers.timers[event_id].state
            if code == "already_delivered":
                demand(state == EventState.DELIVERED, 4, "it was not delivered")
            if code == "already_cancelled":
                demand(state == EventState.CANCELLED, 4, "it was not cancelled")
            if code == "event_not_dead":
                demand(state == EventState.SCHEDULED, 4, f"it is {state.name}")

        process.decide(lambda: decide_redrive(process.core, request), answered)

    def redrive_all(self) -> bool:
        """Ask for all that is dead to be tried again; True if nothing is dead."""
        dead = [
            event_id
            for event_id, timer in self._world.timers.timers.items()
            if timer.state == EventState.DEAD
        ]
        for event_id in dead:
            if event_id not in self._world.delay.core.claims:
                self._redrive(event_id)
        return not dead
