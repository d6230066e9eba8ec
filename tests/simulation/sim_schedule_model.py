"""What the log says of recurring schedules: each occurrence once, in its order.

Nominal times are computed here by plain arithmetic: a schedule's plan is a step from
some moment.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
from tests.simulation.sim_model import demand

from halfpast_chronos import keys
from halfpast_chronos import recurring_state as stored
from halfpast_chronos.recurrence import CatchUp, Plan, Recurrence
from halfpast_chronos.recurring_calls import Progress, ScheduleState
from halfpast_core_store.record import Record, RecordKind

if TYPE_CHECKING:
    from tests.simulation.sim_delay import DelayProcess
    from tests.simulation.sim_timer_model import Frame
    from tests.simulation.sim_world import World

PROMISE = 8
_properties = msgspec.msgpack.Decoder(dict[str, str])


@dataclass(slots=True)
class Line:
    """The nominal times of a plan."""

    plan: Plan
    step_ms: int
    start_ms: int

    @classmethod
    def of(cls, plan: Plan) -> "Line":
        if plan.interval_ms:
            return cls(plan, plan.interval_ms, plan.anchor_ms)
        seconds = int(plan.cron.split()[0].removeprefix("*/"))
        return cls(plan, seconds * 1000, 0)

    def after(self, moment_ms: int) -> int:
        """The first one after a moment; 0 if there is none."""
        steps = max((moment_ms - self.start_ms) // self.step_ms + 1, 1)
        found = self.start_ms + steps * self.step_ms
        return 0 if 0 < self.plan.until_ms < found else found

    def due(self, schedule_id: bytes, nominal_ms: int) -> int:
        if not self.plan.jitter_ms:
            return nominal_ms
        due_ms = Recurrence(self.plan).due(schedule_id, nominal_ms)
        latest_ms = nominal_ms + min(self.plan.jitter_ms, self.step_ms - 1)
        within = nominal_ms <= due_ms <= latest_ms
        demand(within, PROMISE, f"{nominal_ms} is due {due_ms}, by jitter")
        return due_ms


class ScheduleModel:
    """All schedules, by the log."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self.known: dict[bytes, Progress] = {}
        self.fired = 0
        self.skipped = 0

    def timers(self) -> list[bytes]:
        """The timers that they have."""
        return [
            keys.timer(progress.topic_id, progress.due_ms, schedule_id)
            for schedule_id, progress in self.known.items()
            if progress.state == ScheduleState.ACTIVE
        ]

    def follow(self, frame: "Frame", record: Record) -> None:
        """The next record about a schedule."""
        schedule_id, name = record.event_id, record.event_id.hex()
        before = self.known.get(schedule_id)
        if record.kind == RecordKind.OCCURRED:
            occurred = stored.read_occurred(record)
            after = occurred.progress
            assert before is not None
            self._check_occurred(frame, record, before, occurred)
        elif record.kind == RecordKind.RECURRING:
            after = stored.read_recurring(record)
            self._check_next(schedule_id, before, after, record.born_ms)
        else:
            after = stored.decode_progress(record.body)
        if before is not None:
            follows = after.sequence == before.sequence + 1
            demand(follows, PROMISE, f"{name} goes on from {before.sequence} anew")
            lives = before.state != ScheduleState.ENDED
            demand(lives, PROMISE, f"{name} goes on after its end")
        if record.kind != RecordKind.OCCURRED:
            count = 0 if before is None else before.count
            demand(after.count == count, PROMISE, f"{name} counts {after.count}")
        self.known[schedule_id] = after

    def _check_next(
        self, schedule_id: bytes, before: Progress | None, after: Progress, now_ms: int
    ) -> None:
        """Somebody has made or changed it."""
        if after.state != ScheduleState.ACTIVE:
            demand(after.due_ms == 0, PROMISE, f"{schedule_id.hex()} is due, yet rests")
            return
        line = Line.of(after.plan)
        allowed = {line.after(max(now_ms, after.last_nominal_ms))}
        if before is not None and before.plan == after.plan:
            allowed.add(before.nominal_ms)
        goes_on = after.nominal_ms
        demand(goes_on in allowed, PROMISE, f"{goes_on} is next, not one of {allowed}")

    def _check_occurred(
        self,
        frame: "Frame",
        record: Record,
        before: Progress,
        occurred: stored.Occurred,
    ) -> None:
        after, name = occurred.progress, record.event_id.hex()
        active = before.state == ScheduleState.ACTIVE
        demand(active, PROMISE, f"{name} occurs, and is {before.state}")
        demand(before.due_ms <= record.born_ms, 2, f"{name} occurs before its time")
        wanted = self._wanted(record.event_id, before, record.born_ms, after)
        told: list[int] = []
        for number, it in enumerate(occurred.fired, before.count + 1):
            told.append(self._check_message(frame, record.event_id, number, it))
        demand(told == wanted, PROMISE, f"{name} occurs at {told}, not at {wanted}")
        count = before.count + len(told)
        demand(after.count == count, PROMISE, f"{name} counts {after.count}")
        times = before.plan.times
        demand(not times or count <= times, PROMISE, f"{name} occurs too often")
        self.fired += len(told)

    def _wanted(
        self, schedule_id: bytes, before: Progress, now_ms: int, after: Progress
    ) -> list[int]:
        """The nominal times that should occur now, by the plan; checks the next."""
        plan, line = before.plan, Line.of(before.plan)
        due = [before.nominal_ms]
        while (following := line.after(due[-1])) and (
            line.due(schedule_id, following) <= now_ms
        ):
            due.append(following)
        if plan.catch_up == CatchUp.FIRE_ALL:
            count = after.count - before.count  # no more than go into a frame
            demand(count > 0, PROMISE, f"{schedule_id.hex()} occurs without progress")
            due = due[:count]
            fires = due
        else:
            self.skipped += len(due) - 1
            late_ms = now_ms - line.due(schedule_id, due[-1])
            skips = plan.catch_up == CatchUp.SKIP and late_ms > plan.grace_ms
            fires = [] if skips else due[-1:]
        ends = plan.times and before.count + len(fires) >= plan.times
        next_ms = 0 if ends else line.after(due[-1])
        goes_on = after.nominal_ms
        demand(goes_on == next_ms, PROMISE, f"{goes_on} comes next, not {next_ms}")
        return fires

    def _check_message(
        self, frame: "Frame", schedule_id: bytes, number: int, it: stored.Occurrence
    ) -> int:
        """Its message is in the frame of its record; gives its nominal time."""
        name = it.event_id.hex()
        if it.is_timer:
            demand(it.event_id in frame.is_timer, PROMISE, f"{name} is no timer")
            frame.is_timer.discard(it.event_id)
            return self._nominal(schedule_id, it.due_ms)
        message = frame.messages.pop(it.event_id, None)
        demand(message is not None, PROMISE, f"{name} occurred without a message")
        assert message is not None
        early_ms = it.due_ms - frame.stored_ms
        demand(early_ms <= 0, 2, f"{name} occurs {early_ms} ms early")
        told = _properties.decode(message.properties)
        same = int(told["schedule_occurrence"]) == number
        demand(same, PROMISE, f"{name} is occurrence {told}, not {number}")
        return int(told["schedule_time_ms"])

    def _nominal(self, schedule_id: bytes, due_ms: int) -> int:
        """Which nominal time is due then."""
        line = Line.of(self.known[schedule_id].plan)
        nominal_ms = self.known[schedule_id].nominal_ms
        while line.due(schedule_id, nominal_ms) < due_ms:
            nominal_ms = line.after(nominal_ms)
        return nominal_ms

    def check(self, process: "DelayProcess") -> None:
        """The process answers what the log tells."""
        for schedule_id, progress in self.known.items():
            told = process.recurring.progress(schedule_id)
            forgotten = (
                told is None
                and self._world.forgets_events
                and progress.state == ScheduleState.ENDED
            )
            same = told == progress or forgotten
            demand(same, PROMISE, f"{schedule_id.hex()} stands at {told}")
