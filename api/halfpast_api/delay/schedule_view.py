"""Recurring schedules as the API shows them."""

from typing import Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from halfpast_api.event_id import id_text
from halfpast_api.reading import Format
from halfpast_api.times import render_instant
from halfpast_chronos.recurrence import CatchUp, Plan
from halfpast_chronos.recurring_calls import Schedule, ScheduleState
from halfpast_core_store.record import RecordFlag, decode_record

STATES: Final = {state.name.lower(): int(state) for state in ScheduleState}
_STATE_NAMES: Final = {number: name for name, number in STATES.items()}
_CATCH_UPS: Final = {int(it): it.name.lower() for it in CatchUp}
_properties: Final = msgspec.msgpack.Decoder(dict[str, str])


class ExponentialView(msgspec.Struct):
    """Pauses that grow."""

    first_ms: int
    factor: float
    longest_ms: int


class ScheduleView(msgspec.Struct, kw_only=True):
    """A schedule. What it has not is left out; so are, in lists, message and data.

    `occurrences` counts the messages it has made; `last_at` is when the latest was
    due, under the id `last_event_id`. `skipped_at` is the time of the latest that
    was missed and did not fire. `reason` tells why it ended: `times`, `until`,
    `never` (nothing more can come) or `deleted`. `data_withheld`: the caller may not
    see payload.
    """

    id: str
    topic: str
    state: str
    version: int
    description: str | UnsetType = UNSET
    cron: str | UnsetType = UNSET
    time_zone: str | UnsetType = UNSET
    interval_ms: int | UnsetType = UNSET
    exponential: ExponentialView | UnsetType = UNSET
    start_at: str | UnsetType = UNSET
    until: str | UnsetType = UNSET
    times: int | UnsetType = UNSET
    jitter_ms: int | UnsetType = UNSET
    catch_up: str
    grace_ms: int
    next_at: str | None
    occurrences: int
    last_at: str | UnsetType = UNSET
    last_event_id: str | UnsetType = UNSET
    skipped_at: str | UnsetType = UNSET
    created_at: str
    updated_at: str
    ended_at: str | UnsetType = UNSET
    reason: str | UnsetType = UNSET
    key: str | UnsetType | None = UNSET
    tag: str | UnsetType | None = UNSET
    properties: dict[str, str] | UnsetType = UNSET
    data: Raw | bytes | UnsetType = UNSET
    data_base64: bytes | UnsetType = UNSET
    json: bool | UnsetType = UNSET
    data_withheld: bool | UnsetType = UNSET


class SchedulePageView(msgspec.Struct):
    """A page of schedules, in the order in which they were made."""

    schedules: list[ScheduleView]
    next_page_token: str | None


class OccurrenceView(msgspec.Struct, omit_defaults=True):
    """One that will be: its number, when it is due, and if that has jitter, the time
    that the rule says."""

    occurrence: int
    at: str
    nominal_at: str | None = None


class NextView(msgspec.Struct):
    """What comes next. Of a paused schedule: if it were resumed now."""

    id: str
    state: str
    occurrences: list[OccurrenceView]


def state_name(schedule: Schedule) -> str:
    return _STATE_NAMES.get(schedule.progress.state, "unknown")


def view_schedule(schedule: Schedule, topic: str, form: Format | None) -> ScheduleView:
    """`form` None leaves the data out."""
    progress = schedule.progress
    view = ScheduleView(
        id=id_text(schedule.schedule_id),
        topic=topic,
        state=state_name(schedule),
        version=progress.version,
        description=progress.description or UNSET,
        catch_up=_CATCH_UPS.get(progress.plan.catch_up, "unknown"),
        grace_ms=progress.plan.grace_ms,
        next_at=render_instant(progress.due_ms) if progress.due_ms else None,
        occurrences=progress.count,
        last_at=_moment(progress.last_due_ms),
        skipped_at=_moment(progress.skipped_ms),
        created_at=render_instant(progress.created_ms),
        updated_at=render_instant(progress.changed_ms),
        ended_at=_moment(progress.ended_ms),
        reason=progress.reason or UNSET,
    )
    if progress.last_event_id:
        view.last_event_id = id_text(progress.last_event_id)
    _add_plan(view, progress.plan)
    if schedule.record is not None:
        _add_message(view, schedule.record, form)
    return view


def _add_plan(view: ScheduleView, plan: Plan) -> None:
    if plan.cron:
        view.cron, view.time_zone = plan.cron, plan.time_zone
    elif plan.interval_ms:
        view.interval_ms = plan.interval_ms
    else:
        view.exponential = ExponentialView(plan.first_ms, plan.factor, plan.longest_ms)
    if plan.starts:
        view.start_at = render_instant(plan.anchor_ms)
    view.until = _moment(plan.until_ms)
    view.times = plan.times or UNSET
    view.jitter_ms = plan.jitter_ms or UNSET


def _add_message(view: ScheduleView, data: bytes, form: Format | None) -> None:
    record = decode_record(data)
    view.key = record.key.decode(errors="replace") if record.key else None
    view.tag = record.tag.decode(errors="replace") if record.tag else None
    packed = record.properties
    view.properties = _properties.decode(packed) if packed else {}
    if form is None:
        return
    has_json = bool(record.flags & RecordFlag.JSON)
    if form is Format.MSGPACK:
        view.data, view.json = record.body, has_json
    elif has_json:
        view.data = Raw(record.body)
    else:
        view.data_base64 = record.body


def _moment(ms: int) -> str | UnsetType:
    return render_instant(ms) if ms else UNSET
