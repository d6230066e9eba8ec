"""Recurring schedules as the bytes that travel."""

from base64 import b64decode, b64encode
from datetime import datetime, timedelta
from typing import Any

import msgspec

from halfpast.recurring_model import (
    CatchUp,
    Exponential,
    Occurrence,
    Schedule,
    ScheduleOptions,
    ScheduleState,
)
from halfpast.request_body import milliseconds, rfc3339

_SPANS = {"interval": "interval_ms", "jitter": "jitter_ms", "grace": "grace_ms"}
_encode = msgspec.json.Encoder().encode


def json_schedule(
    options: ScheduleOptions, data: object = msgspec.UNSET, **more: object
) -> bytes:
    """The body of a creation or a change; only what is given is in it."""
    fields: dict[str, object] = {}
    for name, value in options.items():
        match value:
            case Exponential():
                fields[name] = _exponential(value)
            case datetime():
                fields[name] = rfc3339(value)
            case timedelta():
                fields[_SPANS[name]] = milliseconds(value)
            case None if name in _SPANS:
                fields[_SPANS[name]] = None
            case _:
                fields[name] = value
    if isinstance(data, bytes | bytearray):
        fields["data_base64"] = b64encode(data).decode()
    elif data is not msgspec.UNSET:
        fields["data"] = data
    return _encode(fields | more)


def _exponential(value: Exponential) -> dict[str, object]:
    found: dict[str, object] = {
        "first_ms": milliseconds(value.first),
        "factor": value.factor,
    }
    if value.longest is not None:
        found["longest_ms"] = milliseconds(value.longest)
    return found


class ExponentialBody(msgspec.Struct):
    first_ms: int
    factor: float
    longest_ms: int

    def value(self) -> Exponential:
        return Exponential(
            first=timedelta(milliseconds=self.first_ms),
            factor=self.factor,
            longest=timedelta(milliseconds=self.longest_ms),
        )


class ScheduleBody(msgspec.Struct):
    """What the server tells of a schedule."""

    id: str
    topic: str
    state: ScheduleState
    version: int
    catch_up: CatchUp
    grace_ms: int
    cron: str | None = None
    time_zone: str | None = None
    interval_ms: int | None = None
    exponential: ExponentialBody | None = None
    start_at: datetime | None = None
    until: datetime | None = None
    times: int | None = None
    jitter_ms: int | None = None
    description: str = ""
    key: str | None = None
    tag: str | None = None
    properties: dict[str, str] | None = None
    data: Any = None
    data_base64: str | None = None
    next_at: datetime | None = None
    occurrences: int = 0
    last_at: datetime | None = None
    last_event_id: str | None = None
    skipped_at: datetime | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None
    ended_at: datetime | None = None
    reason: str = ""

    def schedule(self) -> Schedule:
        growing = self.exponential
        data = self.data if self.data_base64 is None else b64decode(self.data_base64)
        return Schedule(
            id=self.id,
            topic=self.topic,
            state=self.state,
            version=self.version,
            cron=self.cron,
            time_zone=self.time_zone,
            interval=_span(self.interval_ms),
            exponential=None if growing is None else growing.value(),
            start_at=self.start_at,
            until=self.until,
            times=self.times,
            jitter=_span(self.jitter_ms),
            catch_up=self.catch_up,
            grace=_span(self.grace_ms),
            description=self.description,
            key=self.key,
            tag=self.tag,
            properties=self.properties or {},
            data=data,
            next_at=self.next_at,
            occurrences=self.occurrences,
            last_at=self.last_at,
            last_event_id=self.last_event_id,
            skipped_at=self.skipped_at,
            created_at=self.created_at,
            updated_at=self.updated_at,
            ended_at=self.ended_at,
            reason=self.reason,
        )


class SchedulePageBody(msgspec.Struct):
    schedules: list[ScheduleBody]
    next_page_token: str | None = None


class OccurrenceBody(msgspec.Struct):
    occurrence: int
    at: datetime
    nominal_at: datetime | None = None

    def value(self) -> Occurrence:
        return Occurrence(
            number=self.occurrence, at=self.at, nominal_at=self.nominal_at or self.at
        )


class NextBody(msgspec.Struct):
    occurrences: list[OccurrenceBody]


def _span(ms: int | None) -> timedelta | None:
    return None if ms is None else timedelta(milliseconds=ms)
