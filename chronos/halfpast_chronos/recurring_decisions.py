"""Decisions about recurring schedules: make, change, pause, end.

As in `decisions.py`, each is decided on what the log has, and answers at once, waits
for whoever decides already, or gives the record to append.
"""

from dataclasses import dataclass

from msgspec.structs import replace

from halfpast_core_store.errors import IdempotencyConflict
from halfpast_core_store.record import decode_record

from . import recurring_state as stored
from .core import DelayCore
from .decisions import Busy, Command, command, event_text
from .errors import (
    NeverOccurs,
    ScheduleEnded,
    StaleVersion,
    UnknownSchedule,
)
from .recurrence import Plan
from .recurring import Recurring, end, go_on, moved, recurrence_of
from .recurring_calls import (
    ChangeSchedule,
    CreateSchedule,
    EndSchedule,
    PauseSchedule,
    Progress,
    ScheduleState,
)

DELETED = "deleted"


@dataclass(slots=True)
class Known:
    """Nothing has to be done: the schedule is as it was asked for."""

    schedule_id: bytes


def decide_create(
    core: DelayCore, recurring: Recurring, request: CreateSchedule
) -> Known | Busy | Command:
    """Raises BadPlan, IdempotencyConflict."""
    message = decode_record(request.record)
    schedule_id = message.event_id
    claims = [schedule_id]
    if request.dedup_key:
        claims.append(stored.dedup(request.dedup_key))
        if claims[1] in core.claims:
            return Busy(claims[1])
        known = recurring.made_by(request.dedup_key)
        progress = None if known is None else recurring.progress(known)
        if known is not None and progress is not None:
            if progress.fingerprint != request.fingerprint:
                raise IdempotencyConflict
            return Known(known)
    now_ms = core.now_ms()
    plan = anchored(request.plan, now_ms)
    progress = Progress(
        plan=plan,
        state=ScheduleState.PAUSED if request.paused else ScheduleState.ACTIVE,
        created_ms=now_ms,
        changed_ms=now_ms,
        topic_id=message.topic_id,
        description=request.description,
        dedup_key=request.dedup_key,
        fingerprint=request.fingerprint,
    )
    set_next(progress, schedule_id, now_ms)
    record = stored.recurring_record(message, progress, now_ms)
    return command(core, record, claims, schedule_id)


def decide_change(
    core: DelayCore, recurring: Recurring, request: ChangeSchedule
) -> Busy | Command:
    """Raises UnknownSchedule, ScheduleEnded, StaleVersion, BadPlan."""
    schedule_id = request.schedule_id
    if schedule_id in core.claims:
        return Busy(schedule_id)
    before = living(recurring, schedule_id, request.version)
    now_ms = core.now_ms()
    after = changed(before, now_ms)
    message = decode_record(request.record)
    assert message.topic_id == before.topic_id, "its timer would be left behind"
    after.plan = anchored(request.plan, now_ms)
    after.description = request.description
    if after.plan.times and before.count >= after.plan.times:
        raise NeverOccurs("times")
    if after.plan != before.plan or after.state == ScheduleState.PAUSED:
        set_next(after, schedule_id, now_ms)
    record = stored.recurring_record(message, after, now_ms)
    return command(core, record, [schedule_id], schedule_id)


def decide_pause(
    core: DelayCore, recurring: Recurring, request: PauseSchedule
) -> Known | Busy | Command:
    """Raises UnknownSchedule, ScheduleEnded, StaleVersion, BadPlan."""
    schedule_id = request.schedule_id
    if schedule_id in core.claims:
        return Busy(schedule_id)
    before = living(recurring, schedule_id, request.version)
    if (before.state == ScheduleState.PAUSED) == request.paused:
        return Known(schedule_id)
    now_ms = core.now_ms()
    after = changed(before, now_ms)
    after.state = ScheduleState.PAUSED if request.paused else ScheduleState.ACTIVE
    set_next(after, schedule_id, now_ms)
    definition = recurring.record(schedule_id)
    assert definition is not None, "a schedule has a definition"
    message = stored.message_of(definition)
    record = stored.recurring_record(message, after, now_ms)
    return command(core, record, [schedule_id], schedule_id)


def decide_end(
    core: DelayCore, recurring: Recurring, request: EndSchedule
) -> Known | Busy | Command:
    """Raises UnknownSchedule, StaleVersion."""
    schedule_id = request.schedule_id
    if schedule_id in core.claims:
        return Busy(schedule_id)
    before = recurring.progress(schedule_id)
    if before is None:
        raise UnknownSchedule(event_text(schedule_id))
    if before.state == ScheduleState.ENDED:
        return Known(schedule_id)
    check_version(schedule_id, before, request.version)
    now_ms = core.now_ms()
    after = changed(before, now_ms)
    end(after, DELETED, now_ms)
    record = stored.ended_record(schedule_id, after, now_ms)
    return command(core, record, [schedule_id], schedule_id)


def living(recurring: Recurring, schedule_id: bytes, version: int | None) -> Progress:
    """The progress of a schedule that has not ended."""
    progress = recurring.progress(schedule_id)
    if progress is None:
        raise UnknownSchedule(event_text(schedule_id))
    if progress.state == ScheduleState.ENDED:
        raise ScheduleEnded(event_text(schedule_id), progress.ended_ms)
    check_version(schedule_id, progress, version)
    return progress


def check_version(schedule_id: bytes, progress: Progress, version: int | None) -> None:
    if version is not None and version != progress.version:
        raise StaleVersion(event_text(schedule_id), progress.version)


def changed(before: Progress, now_ms: int) -> Progress:
    """The same schedule, changed by a user."""
    after = moved(before)
    after.changed_ms = now_ms
    after.version += 1
    after.reason = ""
    return after


def anchored(plan: Plan, now_ms: int) -> Plan:
    """A plan that counts from something."""
    if plan.anchor_ms:
        return plan
    assert not plan.starts, "it says when"
    return replace(plan, anchor_ms=now_ms)


def set_next(progress: Progress, schedule_id: bytes, now_ms: int) -> None:
    """What comes after now, and after what has been; a paused one has no timer.

    Raises BadPlan, NeverOccurs.
    """
    recurrence = recurrence_of(progress.plan)
    nominal_ms = recurrence.after(max(now_ms, progress.last_nominal_ms))
    if nominal_ms is None:
        raise NeverOccurs("until" if progress.plan.until_ms else "cron")
    if progress.state == ScheduleState.PAUSED:
        progress.nominal_ms = progress.due_ms = 0
    else:
        go_on(progress, recurrence, schedule_id, nominal_ms, now_ms)
