"""How many events are due when, and what is late."""

import time
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from halfpast_api.answer import Answer
from halfpast_api.call import Call
from halfpast_api.problems import Refusal
from halfpast_api.query import Query
from halfpast_api.times import NS_PER_MS, render_instant
from halfpast_api.topic_directory import TopicDirectory
from halfpast_chronos.delay_server import DelayServer
from halfpast_chronos.due_calls import AskDue, DueHistogram, LateTopic

_BUCKETS_MAX: Final = 5_000
_MS_MAX: Final = 2**62
_RESOLUTIONS: Final = {
    "1s": (1_000, 60),
    "1m": (60_000, 60),
    "1h": (3_600_000, 48),
    "1d": (86_400_000, 30),
}
"""Length of a bucket, and how many are shown unless the request says until when."""


class BucketView(msgspec.Struct):
    """How many events are due from `at` on, until the next bucket begins."""

    at: str
    count: int


class ReasonView(msgspec.Struct):
    """So many are late because of that."""

    reason: str
    count: int


class LateTopicView(msgspec.Struct, omit_defaults=True):
    """A topic with events that are late."""

    topic: str
    count: int
    reasons: list[ReasonView]
    oldest_due_at: str | None = None


class LateView(msgspec.Struct):
    """Events that should have been delivered before this second; at most the hundred
    topics with most of them."""

    count: int
    reasons: list[ReasonView]
    topics: list[LateTopicView]


class DueView(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What is coming, in buckets that begin at multiples of the resolution; those with
    nothing are left out. `exact` is false while the events are being counted again
    after an unclean end."""

    topic: str | None = None
    resolution: str
    start: str = msgspec.field(name="from")
    end: str = msgspec.field(name="to")
    server_time: str
    exact: bool
    pending: int
    count: int
    buckets: list[BucketView]
    late: LateView


class DueHandlers:
    """Handlers for histograms."""

    def __init__(
        self,
        delay: DelayServer,
        directory: TopicDirectory,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._delay = delay
        self._directory = directory
        self._now_ns = now_ns

    async def of_topic(self, call: Call) -> Answer:
        """GET /v1/topics/{topic}/due"""
        name = call.parameters[0]
        return await self._ask(call, name, await self._directory.id_of(name))

    async def of_all(self, call: Call) -> Answer:
        """GET /v1/due"""
        return await self._ask(call, None, 0)

    async def _ask(self, call: Call, name: str | None, topic_id: int) -> Answer:
        query = call.query("resolution", "from", "to")
        resolution = query.choice("resolution", "1m", sorted(_RESOLUTIONS))
        bucket_ms, count = _RESOLUTIONS[resolution]
        start_ms, end_ms = _span(query, bucket_ms, count, self._now_ns() // NS_PER_MS)
        found = await self._delay.ask_due(AskDue(topic_id, start_ms, end_ms, bucket_ms))
        topics = {it.topic_id for it in found.late_topics}
        names = await self._directory.names_of(topics)
        view = DueView(
            topic=name,
            resolution=resolution,
            start=render_instant(start_ms),
            end=render_instant(end_ms),
            server_time=render_instant(found.now_ms),
            exact=found.exact,
            pending=found.pending,
            count=sum(number for _, number in found.buckets),
            buckets=[BucketView(render_instant(at), n) for at, n in found.buckets],
            late=_view_late(found, names),
        )
        return call.answer(200, view)


def _span(query: Query, bucket_ms: int, count: int, now_ms: int) -> tuple[int, int]:
    """From when to when, in whole buckets. Raises Refusal."""
    start_ms = _within(query.instant("from", now_ms)) // bucket_ms * bucket_ms
    default_ms = start_ms + count * bucket_ms
    end_ms = -(-_within(query.instant("to", default_ms)) // bucket_ms) * bucket_ms
    if end_ms <= start_ms:
        raise Refusal("invalid_parameter", "'to' must be later than 'from'")
    if end_ms - start_ms > _BUCKETS_MAX * bucket_ms:
        raise Refusal(
            "invalid_parameter",
            f"from 'from' to 'to' are {(end_ms - start_ms) // bucket_ms} buckets, and "
            f"at most {_BUCKETS_MAX} are answered; ask for less time, or a coarser "
            "resolution",
        )
    return start_ms, end_ms


def _within(ms: int) -> int:
    return min(max(ms, 0), _MS_MAX)


def _view_late(found: DueHistogram, names: Mapping[int, str]) -> LateView:
    reasons: dict[str, int] = {}
    for it in found.late_topics:
        for reason, count in it.reasons.items():
            reasons[reason] = reasons.get(reason, 0) + count
    return LateView(
        found.late,
        _view_reasons(reasons),
        [_view_topic(it, names) for it in found.late_topics],
    )


def _view_topic(late: LateTopic, names: Mapping[int, str]) -> LateTopicView:
    oldest = render_instant(late.oldest_ms) if late.oldest_ms else None
    reasons = _view_reasons(late.reasons)
    return LateTopicView(names.get(late.topic_id, ""), late.count, reasons, oldest)


def _view_reasons(reasons: Mapping[str, int]) -> list[ReasonView]:
    most = sorted(reasons.items(), key=lambda it: -it[1])
    return [ReasonView(reason, count) for reason, count in most]
