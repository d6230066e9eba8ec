"""What the Delay Server does, as one protocol with an in-process and a socket form.

Scheduling itself needs no call here: whoever holds an encoded SCHEDULE record
appends it to SYS_SCHEDULE, and the Delay Server follows the log. What must be
decided against the state of a timer (cancel, reschedule, replace) goes through
the Delay Server, which alone writes such records; so log order is decision order.

Times are epoch milliseconds.
"""

from enum import IntEnum
from typing import Protocol

import msgspec

from halfpast_core_store.broker import BrokerStatus, Empty

from .due_calls import AskDue, DueHistogram
from .operation import (
    BeginBulk,
    Begun,
    CancelOperation,
    GetOperation,
    ListOperations,
    Operation,
    OperationPage,
)
from .recurring_calls import (
    ChangeSchedule,
    CreatedSchedule,
    CreateSchedule,
    EndSchedule,
    GetSchedule,
    GotSchedule,
    ListSchedules,
    PauseSchedule,
    Schedule,
    SchedulePage,
)
from .release_calls import AskTopics, ListDead, PendingCounts, Redrive, TopicStates


class EventState(IntEnum):
    """Where a scheduled event stands. DELIVERED and CANCELLED never change; a DEAD one
    was not taken by its topic, and is kept until somebody decides about it."""

    SCHEDULED = 1
    DELIVERED = 2
    CANCELLED = 3
    DEAD = 4


class Happening(IntEnum):
    """What happened to an event: entries of its time line."""

    SCHEDULED = 1
    RESCHEDULED = 2
    REPLACED = 3
    PROMOTED = 4
    DELIVERED = 5
    CANCELLED = 6
    FAILED = 7
    DEAD = 8
    REDRIVEN = 9


class Event(msgspec.Struct, array_like=True):
    """A scheduled event. `record` is its encoded record while it is pending or dead.

    Where its topic has not taken it, `attempts` tells how often since it was due,
    `reason` why the last time, and `retry_ms` when it is tried again, if it is.
    `finished_ms` and `lateness_ms` are 0 until it is delivered or cancelled.
    `timeline` holds (time, Happening), oldest first.
    """

    event_id: bytes
    topic_id: int
    state: int
    version: int
    due_ms: int
    created_ms: int
    finished_ms: int = 0
    lateness_ms: int = 0
    key: bytes = b""
    record: bytes | None = None
    timeline: list[tuple[int, int]] = []
    attempts: int = 0
    retry_ms: int = 0
    reason: str = ""


class Cancel(msgspec.Struct, array_like=True):
    """Cancel a timer; with `version`, only if that is its present one."""

    event_id: bytes
    version: int | None = None


class Cancelled(msgspec.Struct, array_like=True):
    """`outcome`: cancelled | too_late | not_found. Durable when it is answered."""

    outcome: str
    event: Event | None = None


class Reschedule(msgspec.Struct, array_like=True):
    """Move a timer to another time. `deliver_now` moves it to the present one.

    Raises UnknownEvent, AlreadyDelivered, AlreadyCancelled, StaleVersion.
    """

    event_id: bytes
    due_ms: int
    version: int | None = None
    deliver_now: bool = False


class Replace(msgspec.Struct, array_like=True):
    """Create or replace the timer that the caller's own key names.

    `record` is an encoded SCHEDULE record with a fresh id and the UPSERT flag; if
    a pending timer exists under its topic and key, that one keeps its id and gets
    this content and due time. With `version` only if that is its present version
    (AlreadyDelivered, AlreadyCancelled, UnknownEvent, StaleVersion otherwise);
    with `create_only` StaleVersion if it exists. TooManyPending if it would be a new
    one and the topic has `pending_max` already (0: no limit).
    """

    record: bytes
    version: int | None = None
    create_only: bool = False
    pending_max: int = 0


class Replaced(msgspec.Struct, array_like=True):
    created: bool
    event: Event


class GetEvent(msgspec.Struct, array_like=True):
    event_id: bytes


class GotEvent(msgspec.Struct, array_like=True):
    event: Event | None


class ListEvents(msgspec.Struct, array_like=True):
    """Events by due time (state SCHEDULED) or by the time they finished.

    `topic_id` 0 means all topics, or those of `topic_ids` unless that is empty; `after`
    is the `next_token` of the last page, empty for the first. A page may be short, even
    empty, and still not the last.
    """

    topic_id: int = 0
    key: bytes | None = None
    tag: bytes | None = None
    state: int = EventState.SCHEDULED
    due_after_ms: int = 0
    due_before_ms: int = 2**63 - 1
    limit: int = 100
    after: bytes = b""
    topic_ids: list[int] = []


class EventPage(msgspec.Struct, array_like=True):
    events: list[Event]
    next_token: bytes = b""


class DelayServer(Protocol):
    """The Delay Server as its users see it. Any call may raise a CoreError."""

    async def cancel(self, request: Cancel) -> Cancelled: ...

    async def reschedule(self, request: Reschedule) -> Event: ...

    async def replace(self, request: Replace) -> Replaced: ...

    async def get_event(self, request: GetEvent) -> GotEvent: ...

    async def list_events(self, request: ListEvents) -> EventPage: ...

    async def begin_bulk(self, request: BeginBulk) -> Begun: ...

    async def get_operation(self, request: GetOperation) -> Operation: ...

    async def list_operations(self, request: ListOperations) -> OperationPage: ...

    async def cancel_operation(self, request: CancelOperation) -> Operation: ...

    async def ask_due(self, request: AskDue) -> DueHistogram: ...

    async def status(self, request: Empty) -> BrokerStatus: ...

    async def topic_states(self, request: AskTopics) -> TopicStates: ...

    async def pending_counts(self, request: AskTopics) -> PendingCounts: ...

    async def redrive(self, request: Redrive) -> Event: ...

    async def heed_settings(self, request: Empty) -> Empty:
        """Settings of topics were changed: apply them before answering."""
        ...

    async def list_dead(self, request: ListDead) -> EventPage: ...

    async def create_schedule(self, request: CreateSchedule) -> CreatedSchedule: ...

    async def change_schedule(self, request: ChangeSchedule) -> Schedule: ...

    async def pause_schedule(self, request: PauseSchedule) -> Schedule: ...

    async def end_schedule(self, request: EndSchedule) -> Schedule: ...

    async def get_schedule(self, request: GetSchedule) -> GotSchedule: ...

    async def list_schedules(self, request: ListSchedules) -> SchedulePage: ...
