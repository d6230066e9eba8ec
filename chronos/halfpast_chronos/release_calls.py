"""Calls about the release of topics, and about events that theirs did not take.

Times are epoch milliseconds.
"""

import msgspec


class AskTopics(msgspec.Struct, array_like=True):
    """How the release of these topics stands."""

    topic_ids: list[int]


class TopicState(msgspec.Struct, array_like=True):
    """How the release of one topic stands.

    `release_state`: open | paused | closed | rate_limited | draining | starting.
    `pending` and `due_now` count what waits, and what of it is due already;
    `oldest_due_ms` is the earliest due time among them, 0 if there are none.
    `retrying` and `dead` count up to 1,000. `is_exact` is false while `pending` is
    being counted anew.
    """

    topic_id: int
    release_state: str
    pending: int
    due_now: int
    oldest_due_ms: int
    retrying: int
    dead: int
    is_exact: bool


class TopicStates(msgspec.Struct, array_like=True):
    """One answer per topic, in the same order."""

    topics: list[TopicState]


class PendingCounts(msgspec.Struct, array_like=True):
    """How many timers each topic has, in the same order: the cheap part of it."""

    counts: list[int]


class Redrive(msgspec.Struct, array_like=True):
    """Schedule a dead event for now; with `version`, only if that is its present one.

    Raises UnknownEvent, EventNotDead, AlreadyDelivered, AlreadyCancelled,
    StaleVersion.
    """

    event_id: bytes
    version: int | None = None


class ListDead(msgspec.Struct, array_like=True):
    """Dead events with their messages, by topic, the longest dead first.

    `topic_id` 0 means all topics, or those of `topic_ids` unless that is empty; `after`
    is the `next_token` of the last page, empty for the first. A page may be short, even
    empty, and still not the last.
    """

    topic_id: int = 0
    limit: int = 100
    after: bytes = b""
    topic_ids: list[int] = []
