"""What the server answers, checked and turned into the dataclasses of `model`.

Unknown fields are ignored, so that an old SDK can talk to a newer server.
"""

from base64 import b64decode
from datetime import datetime, timedelta
from typing import Any

import msgspec

from halfpast.errors import ApiProblem, FieldError, Problem, api_problem
from halfpast.model import (
    Event,
    EventState,
    Message,
    Published,
    Pulled,
    QueueRange,
    Settled,
    TimelineEntry,
    Topic,
)


class ProblemBody(msgspec.Struct):
    """RFC 9457 with our additions."""

    status: int = 0
    code: str = ""
    title: str = ""
    detail: str = ""
    type: str = "about:blank"
    retryable: bool = False
    request_id: str = ""
    errors: list[FieldError] = []
    outcome: str = ""
    state: str = ""

    def problem(self, status: int, retry_after_s: float | None = None) -> Problem:
        """As a value; `status` is used where the body names none."""
        return Problem(
            status=self.status or status,
            code=self.code or f"http_{status}",
            title=self.title,
            detail=self.detail,
            type=self.type,
            retryable=self.retryable,
            request_id=self.request_id,
            errors=tuple(self.errors),
            outcome=self.outcome,
            state=self.state,
            retry_after_s=retry_after_s,
        )


class PublishedBody(msgspec.Struct):
    id: str
    topic: str
    state: EventState
    deliver_at: datetime | None = None
    due_in_ms: int | None = None
    server_time: datetime | None = None
    version: int = 1

    def published(self, *, created: bool, replayed: bool) -> Published:
        return Published(
            id=self.id,
            topic=self.topic,
            state=self.state,
            deliver_at=self.deliver_at,
            due_in=_span(self.due_in_ms),
            server_time=self.server_time,
            version=self.version,
            created=created,
            replayed=replayed,
        )


class BatchItemBody(msgspec.Struct):
    status: int
    id: str = ""
    state: EventState = EventState.STORED
    deliver_at: datetime | None = None
    problem: ProblemBody | None = None

    def outcome(self, topic: str, *, replayed: bool) -> Published | ApiProblem:
        if self.status < 300:
            return Published(
                id=self.id,
                topic=topic,
                state=self.state,
                deliver_at=self.deliver_at,
                replayed=replayed,
            )
        return api_problem((self.problem or ProblemBody()).problem(self.status))


class BatchBody(msgspec.Struct):
    results: list[BatchItemBody]


class EventBody(msgspec.Struct):
    id: str
    topic: str
    state: EventState
    key: str | None = None
    tag: str | None = None
    properties: dict[str, str] | None = None
    data: Any = None
    data_base64: str | None = None
    deliver_at: datetime | None = None
    created_at: datetime | None = None
    delivered_at: datetime | None = None
    cancelled_at: datetime | None = None
    lateness_ms: int | None = None
    version: int = 1
    timeline: list[TimelineEntry] = []

    def event(self) -> Event:
        return Event(
            id=self.id,
            topic=self.topic,
            state=self.state,
            key=self.key,
            tag=self.tag,
            properties=self.properties or {},
            data=_data(self.data, self.data_base64),
            deliver_at=self.deliver_at,
            created_at=self.created_at,
            delivered_at=self.delivered_at,
            cancelled_at=self.cancelled_at,
            lateness=_span(self.lateness_ms),
            version=self.version,
            timeline=tuple(self.timeline),
        )


class EventPageBody(msgspec.Struct):
    events: list[EventBody]
    next_page_token: str | None = None


class MessageBody(msgspec.Struct):
    id: str
    topic: str
    queue: int
    offset: int
    receipt: str = ""
    key: str | None = None
    tag: str | None = None
    properties: dict[str, str] | None = None
    data: Any = None
    data_base64: str | None = None
    born_at: datetime | None = None
    stored_at: datetime | None = None
    deliver_at: datetime | None = None
    attempt: int = 1

    def message(self) -> Message:
        return Message(
            id=self.id,
            topic=self.topic,
            queue=self.queue,
            offset=self.offset,
            receipt=self.receipt,
            key=self.key,
            tag=self.tag,
            properties=self.properties or {},
            data=_data(self.data, self.data_base64),
            born_at=self.born_at,
            stored_at=self.stored_at,
            deliver_at=self.deliver_at,
            attempt=self.attempt,
        )


class PoppedBody(msgspec.Struct):
    messages: list[MessageBody]


class PulledBody(msgspec.Struct):
    messages: list[MessageBody]
    next_offset: int
    min_offset: int
    max_offset: int

    def pulled(self) -> Pulled:
        return Pulled(
            messages=[body.message() for body in self.messages],
            next_offset=self.next_offset,
            min_offset=self.min_offset,
            max_offset=self.max_offset,
        )


class TopicBody(msgspec.Struct):
    name: str
    max_delay_ms: int
    max_body_bytes: int
    flush: str
    description: str = ""
    queue_offsets: list[QueueRange] = []

    def topic(self) -> Topic:
        return Topic(
            name=self.name,
            queues=tuple(self.queue_offsets),
            max_delay=timedelta(milliseconds=self.max_delay_ms),
            max_body_bytes=self.max_body_bytes,
            flush=self.flush,
            description=self.description,
        )


class SettledItemBody(msgspec.Struct):
    status: int
    problem: ProblemBody | None = None
    receipt: str = ""

    def settled(self) -> Settled:
        if self.status < 300:
            return Settled(ok=True, receipt=self.receipt)
        problem = (self.problem or ProblemBody()).problem(self.status)
        return Settled(ok=False, code=problem.code)


class SettledBody(msgspec.Struct):
    results: list[SettledItemBody]


def _span(ms: int | None) -> timedelta | None:
    return None if ms is None else timedelta(milliseconds=ms)


def _data(data: Any, base64: str | None) -> Any:
    return data if base64 is None else b64decode(base64)
