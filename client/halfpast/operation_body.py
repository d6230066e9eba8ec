"""Operations and histograms as the bytes that travel."""

from datetime import datetime, timedelta

import msgspec

from halfpast.operation_model import (
    DueBucket,
    DueHistogram,
    EventFilter,
    LateTopic,
    Operation,
    OperationState,
    Resolution,
)
from halfpast.request_body import json_body, rfc3339


def json_wish(wanted: EventFilter, every: bool, dry_run: bool, **more: object) -> bytes:
    """The body that begins an operation. Raises ValueError if it is not said which
    events are meant."""
    given: dict[str, object] = {
        name: rfc3339(value) if isinstance(value, datetime) else value
        for name, value in wanted.items()
        if value is not None
    }
    if bool(given) == every:
        raise ValueError(
            "say which events are meant: topic, key, tag, due_after or due_before, or "
            "nothing but every=True"
        )
    flags = {"all": True} if every else {}
    if dry_run:
        flags["dry_run"] = True
    return json_body(**given, **flags, **more)


class OperationBody(msgspec.Struct):
    id: str
    action: str
    state: OperationState
    dry_run: bool = False
    filter: dict[str, str | list[str]] = {}
    shift_ms: int | None = None
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

    def operation(self) -> Operation:
        shift_ms = self.shift_ms
        return Operation(
            id=self.id,
            action=self.action,
            state=self.state,
            dry_run=self.dry_run,
            filter={
                name: value if isinstance(value, str) else ",".join(value)
                for name, value in self.filter.items()
            },
            shift=None if shift_ms is None else timedelta(milliseconds=shift_ms),
            deliver_at=self.deliver_at,
            scanned=self.scanned,
            expected=self.expected,
            matched=self.matched,
            changed=self.changed,
            gone=self.gone,
            progress=self.progress,
            error=self.error,
            created_at=self.created_at,
            finished_at=self.finished_at,
        )


class OperationPageBody(msgspec.Struct):
    operations: list[OperationBody]
    next_page_token: str | None = None


class ReasonBody(msgspec.Struct):
    reason: str
    count: int


class LateTopicBody(msgspec.Struct):
    topic: str
    count: int
    reasons: list[ReasonBody] = []
    oldest_due_at: datetime | None = None

    def late_topic(self) -> LateTopic:
        return LateTopic(
            topic=self.topic,
            count=self.count,
            reasons={it.reason: it.count for it in self.reasons},
            oldest_due_at=self.oldest_due_at,
        )


class LateBody(msgspec.Struct):
    count: int = 0
    topics: list[LateTopicBody] = []


class DueBody(msgspec.Struct):
    resolution: Resolution
    exact: bool
    pending: int
    count: int
    start: datetime = msgspec.field(name="from")
    end: datetime = msgspec.field(name="to")
    topic: str | None = None
    buckets: list[DueBucket] = []
    late: LateBody = msgspec.field(default_factory=LateBody)

    def histogram(self) -> DueHistogram:
        return DueHistogram(
            topic=self.topic,
            resolution=self.resolution,
            start=self.start,
            end=self.end,
            exact=self.exact,
            pending=self.pending,
            count=self.count,
            buckets=tuple(self.buckets),
            late=self.late.count,
            late_topics=tuple(it.late_topic() for it in self.late.topics),
        )
