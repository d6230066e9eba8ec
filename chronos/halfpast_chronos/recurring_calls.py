"""What the Delay Server does for recurring schedules: a part of its protocol.

Times are epoch milliseconds, 0 where there is none.
"""

from enum import IntEnum

import msgspec

from .recurrence import Plan


class ScheduleState(IntEnum):
    """Where a schedule stands. An ended one never occurs again."""

    ACTIVE = 1
    PAUSED = 2
    ENDED = 3


class Progress(msgspec.Struct, array_like=True, kw_only=True):
    """How far a schedule has come, as index and log have it.

    `sequence` counts the records about it, `version` the changes by its users.
    `nominal_ms` and `due_ms` are of its next occurrence; `count` is how many there
    have been, `last_…` tells of the latest, `skipped_ms` is the nominal time of the
    latest that was missed. `reason` says why it ended, or paused by itself.
    """

    plan: Plan
    state: int = ScheduleState.ACTIVE
    sequence: int = 1
    version: int = 1
    nominal_ms: int = 0
    due_ms: int = 0
    count: int = 0
    created_ms: int
    changed_ms: int
    last_nominal_ms: int = 0
    last_due_ms: int = 0
    last_fired_ms: int = 0
    last_event_id: bytes = b""
    skipped_ms: int = 0
    ended_ms: int = 0
    reason: str = ""
    topic_id: int
    description: str = ""
    dedup_key: bytes = b""
    fingerprint: bytes = b""


class Schedule(msgspec.Struct, array_like=True):
    """A recurring schedule. `record` is the message that it makes, as a record under
    the schedule's own id."""

    schedule_id: bytes
    progress: Progress
    record: bytes | None = None


class CreateSchedule(msgspec.Struct, array_like=True):
    """Make a schedule. `record` is its message; the record's id becomes its own.

    With a `dedup_key` that is known already gives the schedule it made, or raises
    IdempotencyConflict if the `fingerprint` is another. Raises BadPlan.
    """

    record: bytes
    plan: Plan
    paused: bool = False
    description: str = ""
    dedup_key: bytes = b""
    fingerprint: bytes = b""


class CreatedSchedule(msgspec.Struct, array_like=True):
    """`replayed`: it had been made before."""

    schedule: Schedule
    replayed: bool = False


class ChangeSchedule(msgspec.Struct, array_like=True):
    """Give a schedule that is at `version` another plan and another message.

    A plan whose `anchor_ms` is 0 counts from now. Raises UnknownSchedule,
    ScheduleEnded, StaleVersion, BadPlan.
    """

    schedule_id: bytes
    version: int
    plan: Plan
    record: bytes
    description: str = ""


class PauseSchedule(msgspec.Struct, array_like=True):
    """Pause a schedule, or let it go on with what comes after now.

    Does nothing if it is so already. Raises UnknownSchedule, ScheduleEnded,
    StaleVersion, and NeverOccurs where nothing comes after now.
    """

    schedule_id: bytes
    paused: bool
    version: int | None = None


class EndSchedule(msgspec.Struct, array_like=True):
    """End a schedule for good. Ending an ended one does nothing.

    Raises UnknownSchedule, StaleVersion.
    """

    schedule_id: bytes
    version: int | None = None


class GetSchedule(msgspec.Struct, array_like=True):
    schedule_id: bytes


class GotSchedule(msgspec.Struct, array_like=True):
    schedule: Schedule | None


class ListSchedules(msgspec.Struct, array_like=True):
    """Schedules in the order of their ids, that is of their making, without records.

    `topic_id` and `state` 0 mean all, or the topics of `topic_ids` unless that is
    empty; `after` is the `next_token` of the last page. A page may be short, even
    empty, and still not be the last.
    """

    topic_id: int = 0
    state: int = 0
    limit: int = 100
    after: bytes = b""
    topic_ids: list[int] = []


class SchedulePage(msgspec.Struct, array_like=True):
    schedules: list[Schedule]
    next_token: bytes = b""
