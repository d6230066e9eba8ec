"""Asking how many timers are due when. Times are epoch milliseconds."""

import msgspec


class AskDue(msgspec.Struct, array_like=True):
    """From `start_ms` to before `end_ms`, in buckets of `bucket_ms`, which begin at
    multiples of that. `topic_id` 0 means all topics, or those of `topic_ids` unless
    that is empty."""

    topic_id: int
    start_ms: int
    end_ms: int
    bucket_ms: int
    topic_ids: list[int] = []


class LateTopic(msgspec.Struct, array_like=True):
    """A topic with timers that should have fired before this second, and why they have
    not: a release state (see `TopicState`), retrying (not taken, and tried again later)
    or overloaded."""

    topic_id: int
    count: int
    oldest_ms: int
    reasons: dict[str, int]


class DueHistogram(msgspec.Struct, array_like=True):
    """`buckets` holds (first ms, count) of those in which something is due.

    `pending` is how many timers there are in all, `late` how many of them should have
    fired already; `late_topics` are the worst of those. `exact` is False while the
    timers are being counted again after an unclean end.
    """

    now_ms: int
    buckets: list[tuple[int, int]]
    pending: int
    late: int
    late_topics: list[LateTopic]
    exact: bool
