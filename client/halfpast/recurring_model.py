"""Recurring schedules as plain dataclasses."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, TypedDict


class ScheduleState(StrEnum):
    """Where a schedule stands. ENDED is final."""

    ACTIVE = "active"
    PAUSED = "paused"
    ENDED = "ended"


class CatchUp(StrEnum):
    """What becomes of times that were missed, since the server or the topic stood
    still: the last fires, all do in their order, or none does (but for the last, if
    it is hardly late)."""

    FIRE_ONCE = "fire_once"
    FIRE_ALL = "fire_all"
    SKIP = "skip"


@dataclass(frozen=True, slots=True, kw_only=True)
class Exponential:
    """Pauses that grow: the first, each `factor` times as long as the one before, and
    none longer than `longest`."""

    first: timedelta
    factor: float = 2.0
    longest: timedelta | None = None


class ScheduleOptions(TypedDict, total=False):
    """When a schedule occurs, and all else about it but its topic and data.

    One of `cron` (with a `time_zone` of the IANA database, else UTC), `interval` and
    `exponential`. In a change, None takes something away.
    """

    cron: str
    time_zone: str
    interval: timedelta
    exponential: Exponential
    start_at: datetime | None
    until: datetime | None
    times: int | None
    jitter: timedelta | None
    catch_up: CatchUp
    grace: timedelta
    description: str
    key: str | None
    tag: str | None
    properties: Mapping[str, str] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A recurring schedule as the server knows it.

    `next_at` is None for one that is paused or has ended. `occurrences` counts the
    messages it has made; the latest was due at `last_at`. `skipped_at` is the latest
    time that was missed and did not fire. `data` is None where it was not sent.
    """

    id: str
    topic: str
    state: ScheduleState
    version: int
    cron: str | None = None
    time_zone: str | None = None
    interval: timedelta | None = None
    exponential: Exponential | None = None
    start_at: datetime | None = None
    until: datetime | None = None
    times: int | None = None
    jitter: timedelta | None = None
    catch_up: CatchUp = CatchUp.FIRE_ONCE
    grace: timedelta | None = None
    description: str = ""
    key: str | None = None
    tag: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict[str, str])
    data: Any = None
    next_at: datetime | None = None
    occurrences: int = 0
    last_at: datetime | None = None
    last_event_id: str | None = None
    skipped_at: datetime | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None
    ended_at: datetime | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Occurrence:
    """A time to come. `nominal_at` is what the rule says, before jitter."""

    number: int
    at: datetime
    nominal_at: datetime
