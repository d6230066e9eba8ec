"""Operations on many events, and what is coming, as plain dataclasses."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TypedDict


class OperationState(StrEnum):
    """Where an operation stands. All but RUNNING are final."""

    RUNNING = "running"
    DONE = "done"
    CANCELLED = "cancelled"
    FAILED = "failed"


class EventFilter(TypedDict, total=False):
    """Which scheduled events: all that is given must be true of one. The due range
    takes its first moment and leaves its last."""

    topic: str | None
    key: str | None
    tag: str | None
    due_after: datetime | None
    due_before: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """How far an operation has come.

    `scanned` events have been looked at, of about `expected`; `matched` are meant, and
    `changed` of these are changed: the rest was just being delivered, or, of dead
    letters, is `gone`. `progress` goes from 0 to 1, None where it cannot be told.
    `error`: why it has FAILED.
    """

    id: str
    action: str
    state: OperationState
    dry_run: bool
    filter: Mapping[str, str] = field(default_factory=dict[str, str])
    shift: timedelta | None = None
    deliver_at: datetime | None = None
    scanned: int = 0
    expected: int | None = None
    matched: int = 0
    changed: int = 0
    gone: int = 0
    progress: float | None = None
    error: str = ""
    created_at: datetime | None = None
    finished_at: datetime | None = None


class Resolution(StrEnum):
    """How long a bucket is."""

    SECOND = "1s"
    MINUTE = "1m"
    HOUR = "1h"
    DAY = "1d"


@dataclass(frozen=True, slots=True, kw_only=True)
class DueBucket:
    """So many events are due from `at` on, until the next bucket begins."""

    at: datetime
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LateTopic:
    """A topic with events that should have been delivered; `reasons` counts why they
    have not."""

    topic: str
    count: int
    reasons: Mapping[str, int]
    oldest_due_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DueHistogram:
    """What is coming from `start` to `end`; buckets with nothing are left out.

    `pending` is how many events wait in all, `late` how many of them should have been
    delivered, with the topics that have most of those. `exact` is False while the
    server counts again after an unclean end.
    """

    topic: str | None
    resolution: Resolution
    start: datetime
    end: datetime
    exact: bool
    pending: int
    count: int
    buckets: tuple[DueBucket, ...]
    late: int
    late_topics: tuple[LateTopic, ...]
