"""What goes into the SDK and what comes out of it, as plain dataclasses.

Times are aware datetimes in UTC, spans are timedeltas, ids are UUIDs as text.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any


class EventState(StrEnum):
    """Where an event stands. All but PREPARED and SCHEDULED are final."""

    PREPARED = "prepared"  # of a transaction that is open
    ROLLED_BACK = "rolled_back"  # with its transaction: never delivered
    STORED = "stored"  # published at once, without a delay
    SCHEDULED = "scheduled"
    DELIVERED = "delivered"
    CANCELLED = "cancelled"
    DEAD = "dead"


class Outcome(StrEnum):
    """What a cancel did. TOO_LATE: it has been delivered."""

    CANCELLED = "cancelled"
    TOO_LATE = "too_late"
    NOT_FOUND = "not_found"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewEvent:
    """One event of a batch: see `Client.publish` for the fields."""

    topic: str
    data: object
    key: str | None = None
    tag: str | None = None
    properties: Mapping[str, str] | None = None
    deliver_at: datetime | None = None
    delay: timedelta | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """The event is durable on the server.

    `replayed`: the idempotency key was known, this is the first answer again.
    `created` is False and `version` above 1 if a `put` replaced something.
    `due_in` and `server_time` are None for events of a batch.
    """

    id: str
    topic: str
    state: EventState
    deliver_at: datetime | None = None
    due_in: timedelta | None = None
    server_time: datetime | None = None
    version: int = 1
    created: bool = True
    replayed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineEntry:
    """Something that happened to an event."""

    at: datetime
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """An event as the server knows it. `data` is None where it was not sent.

    `lateness`: how long after its due time it was delivered.
    """

    id: str
    topic: str
    state: EventState
    key: str | None = None
    tag: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict[str, str])
    data: Any = None
    deliver_at: datetime | None = None
    created_at: datetime | None = None
    delivered_at: datetime | None = None
    cancelled_at: datetime | None = None
    lateness: timedelta | None = None
    version: int = 1
    timeline: tuple[TimelineEntry, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """An event that was delivered. `data` is bytes or whatever JSON holds.

    `stored_at` is when it came into its queue; `deliver_at` when it was due, or
    None if it had no delay. `receipt` is empty unless it was popped, and names
    this one delivery: extending it gives a new one.
    """

    id: str
    topic: str
    queue: int
    offset: int
    data: Any
    key: str | None = None
    tag: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict[str, str])
    born_at: datetime | None = None
    stored_at: datetime | None = None
    deliver_at: datetime | None = None
    attempt: int = 1
    receipt: str = ""

    @property
    def lateness(self) -> timedelta | None:
        """How long after its due time it came into its queue; None if undelayed."""
        if self.deliver_at is None or self.stored_at is None:
            return None
        return self.stored_at - self.deliver_at


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulled:
    """A stretch of one queue. Go on reading at `next_offset`."""

    messages: list[Message]
    next_offset: int
    min_offset: int
    max_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRange:
    """What a queue holds: min_offset (inclusive) to max_offset (exclusive)."""

    queue: int
    min_offset: int
    max_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic and its queues."""

    name: str
    queues: tuple[QueueRange, ...]
    max_delay: timedelta
    max_body_bytes: int
    flush: str
    description: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """What became of one receipt. `code` is empty if all went well.

    `receipt` is the new one after an extend.
    """

    ok: bool
    code: str = ""
    receipt: str = ""
