"""Recurring schedules: a timer that makes messages, and is set anew by each.

When such a timer fires, the messages of what occurs and the OCCURRED record that
names the next time go into the log as one frame: a crash leaves both or neither, so
no occurrence is lost, made twice, or the last one. A schedule has one timer, so one
such frame at most is on its way; its id is the claim for that and for all decisions
about it.
"""

from dataclasses import dataclass, field
from functools import lru_cache

from msgspec.structs import replace

from halfpast_core_store.broker import Run
from halfpast_core_store.record import HEADER, Record, RecordKind, with_kind
from halfpast_core_store.topics import SYS_FIRED, SYS_SCHEDULE

from . import recurring_state as stored
from .core import Became, DelayCore
from .delay_server import EventState, Happening
from .errors import BadPlan
from .event_state import StoredEvent
from .keys import BIG_U64
from .projection import Step
from .recurrence import CatchUp, Plan, Recurrence
from .recurring_calls import Progress, ScheduleState
from .recurring_state import Occurred, Occurrence

CATCH_UP_COUNT = 100  # occurrences of one schedule in one frame
OVER = {True: "until", False: "never"}


@dataclass(slots=True)
class Taken:
    """What a schedule does now: nominal times that fire, the last one that was
    skipped, and what it goes on with."""

    fires: list[int] = field(default_factory=list[int])
    skipped_ms: int = 0
    next_ms: int | None = None


class Recurring:
    """All schedules of one Delay Server. Adds to the core what it must know of them."""

    def __init__(self, core: DelayCore) -> None:
        self._core = core
        self.fired_count = 0
        core.appliers[RecordKind.RECURRING] = self._apply_recurring
        core.appliers[RecordKind.OCCURRED] = self._apply_occurred
        core.appliers[RecordKind.RECURRING_ENDED] = self._apply_ended
        core.becomes[RecordKind.RECURRING] = self._become
        core.other_timers.append(self._timer)

    # --- questions ----------------------------------------------------------------

    def progress(self, schedule_id: bytes) -> Progress | None:
        """How far a schedule has come; None if it is unknown or forgotten."""
        value = self._core.index.get(stored.state(schedule_id))
        return None if value is None else stored.decode_progress(value)

    def record(self, schedule_id: bytes) -> bytes | None:
        """Its last RECURRING record."""
        return self._core.index.get(stored.definition(schedule_id))

    def made_by(self, dedup_key: bytes) -> bytes | None:
        """The id of the schedule that this idempotency key made."""
        return self._core.index.get(stored.dedup(dedup_key))

    def _timer(self, schedule_id: bytes) -> bytes | None:
        progress = self.progress(schedule_id)
        return None if progress is None else stored.timer_of(schedule_id, progress)

    # --- firing -------------------------------------------------------------------

    def _become(self, timer: bytes, _: bytes, room: int) -> Became | None:
        """What a schedule's timer becomes that is due; None if it is no longer so."""
        schedule_id = timer[-16:]
        progress = self.progress(schedule_id)
        definition = self.record(schedule_id)
        if progress is None or definition is None:
            return None
        if stored.timer_of(schedule_id, progress) != timer:
            return None
        now_ms = self._core.now_ms()
        message = stored.message_of(definition)
        count_max = max(1, min(CATCH_UP_COUNT, room // len(definition)))
        after, fired, runs = self._occur(progress, message, now_ms, count_max)
        if runs:
            head = HEADER.unpack_from(runs[0].records[0])
            if self._core.failing.why_not(timer, head):
                fired, runs = as_timers(fired, runs)
        occurred = Occurred(after, fired)
        record = stored.occurred_record(schedule_id, message.key, occurred, now_ms)
        runs.append(Run(SYS_FIRED, 0, [record]))
        size = sum(len(run.records[0]) for run in runs)
        return Became(runs, [it.due_ms for it in fired if not it.is_timer], size)

    def _occur(
        self, before: Progress, message: Record, now_ms: int, count_max: int
    ) -> tuple[Progress, list[Occurrence], list[Run]]:
        """The progress after what occurs now, and the messages of that.

        Each has a run of its own, for the store looks for new ids at both ends.
        """
        after = moved(before)
        try:
            recurrence = recurrence_of(before.plan)
            taken = take(recurrence, before, message.event_id, now_ms, count_max)
            go_on(after, recurrence, message.event_id, taken.next_ms, now_ms)
        except BadPlan as error:  # the time zone is gone from this machine
            taken = Taken([before.nominal_ms])
            recurrence = None
            after.state, after.reason = ScheduleState.PAUSED, str(error)
            after.nominal_ms = after.due_ms = 0
        after.skipped_ms = taken.skipped_ms or before.skipped_ms
        fired: list[Occurrence] = []
        runs: list[Run] = []
        for nominal_ms in taken.fires:
            due_ms = before.due_ms
            if nominal_ms != before.nominal_ms and recurrence is not None:
                due_ms = recurrence.due(message.event_id, nominal_ms)
            after.count += 1
            made = stored.occurrence_message(
                message, after.count, nominal_ms, due_ms, now_ms
            )
            after.last_nominal_ms, after.last_due_ms = nominal_ms, due_ms
            after.last_fired_ms, after.last_event_id = now_ms, made[16:32]
            fired.append(Occurrence(due_ms, made[16:32]))
            runs.append(Run(message.topic_id, message.queue_id, [made]))
        times = before.plan.times
        if times and after.count >= times and after.state == ScheduleState.ACTIVE:
            end(after, "times", now_ms)
        return after, fired, runs

    # --- applying -----------------------------------------------------------------

    def _apply_recurring(self, step: Step, record: Record, data: bytes) -> None:
        progress = stored.read_recurring(record)
        if progress.dedup_key:
            self._core.unclaim(stored.dedup(progress.dedup_key), step.released)
        if not self._advance(step, record, progress):
            return
        step.batch.put(stored.definition(record.event_id), data)
        if progress.dedup_key:
            step.batch.put(stored.dedup(progress.dedup_key), record.event_id)

    def _apply_ended(self, step: Step, record: Record, _: bytes) -> None:
        self._advance(step, record, stored.decode_progress(record.body))

    def _apply_occurred(self, step: Step, record: Record, _: bytes) -> None:
        core = self._core
        occurred = stored.read_occurred(record)
        if not self._advance(step, record, occurred.progress):
            return
        fired = [it for it in occurred.fired if not it.is_timer]
        for it in fired:
            event = StoredEvent(
                EventState.SCHEDULED,
                1,
                it.due_ms,
                record.born_ms,
                record.topic_id,
                record.key,
            )
            event.finish(EventState.DELIVERED, step.stored_ms, Happening.DELIVERED)
            core.finish(step.batch, it.event_id, event)
        core.measure(step, [it.due_ms for it in fired])
        self.fired_count += len(fired)

    def _advance(self, step: Step, record: Record, progress: Progress) -> bool:
        """Replace the progress and set the timer; False if that was done before."""
        core, schedule_id = self._core, record.event_id
        core.unclaim(schedule_id, step.released)
        before = self.progress(schedule_id)
        if before is not None and before.sequence >= progress.sequence:
            return False
        if before is None and progress.sequence > 1:
            return False  # forgotten, or older than the log that is kept
        old = None if before is None else stored.timer_of(schedule_id, before)
        new = stored.timer_of(schedule_id, progress)
        if old is not None:
            core.drop_timer(step.batch, old)
        if new is not None:
            timer_record = stored.timer_record(schedule_id, progress)
            step.batch.put(new, timer_record)
            step.fresh.add(new, timer_record)
        step.batch.put(stored.state(schedule_id), stored.encode_progress(progress))
        if progress.ended_ms:
            step.batch.put(stored.ended(progress.ended_ms, schedule_id), b"")
        return True

    # --- upkeep -------------------------------------------------------------------

    def forget(self, until_ms: int, limit: int) -> bool:
        """Delete up to `limit` schedules that ended before; True if there may be
        more."""
        index = self._core.index
        found = index.scan(b"Rf", stored.ended(max(0, until_ms), b""), limit)
        if not found:
            return False
        batch = index.batch()
        for key, _ in found:
            schedule_id = key[2 + BIG_U64.size :]
            progress = self.progress(schedule_id)
            if progress is not None and progress.dedup_key:
                batch.delete(stored.dedup(progress.dedup_key))
            batch.delete(stored.definition(schedule_id))
            batch.delete(stored.state(schedule_id))
            batch.delete(key)
        index.write(batch)
        return len(found) == limit


def as_timers(
    fired: list[Occurrence], runs: list[Run]
) -> tuple[list[Occurrence], list[Run]]:
    """The same occurrences, but as timers under their own ids: their topic does not
    take them now, and what is done about such events is done about them."""
    timers = [with_kind(run.records[0], RecordKind.SCHEDULE) for run in runs]
    return (
        [Occurrence(it.due_ms, it.event_id, True) for it in fired],
        [Run(SYS_SCHEDULE, 0, [timer]) for timer in timers],
    )


@lru_cache(maxsize=4096)
def recurrence_of(plan: Plan) -> Recurrence:
    """Raises BadPlan."""
    return Recurrence(plan)


def moved(before: Progress) -> Progress:
    """A copy to change, for the next record about it."""
    return replace(before, sequence=before.sequence + 1)


def go_on(
    after: Progress,
    recurrence: Recurrence,
    schedule_id: bytes,
    nominal_ms: int | None,
    now_ms: int,
) -> None:
    """Let the occurrence of this nominal time be the next; None ends it."""
    if nominal_ms is None:
        end(after, OVER[after.plan.until_ms > 0], now_ms)
        return
    after.nominal_ms = nominal_ms
    after.due_ms = recurrence.due(schedule_id, nominal_ms)


def end(after: Progress, reason: str, now_ms: int) -> None:
    after.state, after.reason = ScheduleState.ENDED, reason
    after.nominal_ms = after.due_ms = 0
    after.ended_ms = after.changed_ms = max(1, now_ms)


def take(
    recurrence: Recurrence,
    progress: Progress,
    schedule_id: bytes,
    now_ms: int,
    count_max: int,
) -> Taken:
    """What fires of all that is due, by the catch-up policy of the plan."""
    plan, nominal_ms = progress.plan, progress.nominal_ms
    if plan.catch_up == CatchUp.FIRE_ALL:
        return take_all(recurrence, progress, schedule_id, now_ms, count_max)
    last_ms = recurrence.last(nominal_ms, max(nominal_ms, now_ms))
    if last_ms > nominal_ms and recurrence.due(schedule_id, last_ms) > now_ms:
        last_ms = recurrence.last(nominal_ms, last_ms - 1)
    taken = Taken(next_ms=recurrence.after(last_ms))
    if last_ms > nominal_ms:
        taken.skipped_ms = recurrence.last(nominal_ms, last_ms - 1)
    due_ms = recurrence.due(schedule_id, last_ms)
    if plan.catch_up == CatchUp.SKIP and now_ms - due_ms > plan.grace_ms:
        taken.skipped_ms = last_ms
    else:
        taken.fires.append(last_ms)
    return taken


def take_all(
    recurrence: Recurrence,
    progress: Progress,
    schedule_id: bytes,
    now_ms: int,
    count_max: int,
) -> Taken:
    if progress.plan.times:
        count_max = min(count_max, progress.plan.times - progress.count)
    taken = Taken([progress.nominal_ms], 0, recurrence.after(progress.nominal_ms))
    while len(taken.fires) < count_max and taken.next_ms is not None:
        if recurrence.due(schedule_id, taken.next_ms) > now_ms:
            break
        taken.fires.append(taken.next_ms)
        taken.next_ms = recurrence.after(taken.next_ms)
    return taken
