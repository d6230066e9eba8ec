"""What is coming and what is late, as the API shows it."""

from typing import Final

import msgspec

from halfpast_api.times import parse_instant

RESOLUTIONS: Final = {
    "1m": ("the next hour", 60),
    "1h": ("the next two days", 48),
    "1d": ("the next 30 days", 30),
}
STEP_MS: Final = {"1s": 1_000, "1m": 60_000, "1h": 3_600_000, "1d": 86_400_000}


class Bucket(msgspec.Struct):
    """So many are due from then on until the next bucket."""

    at: str
    count: int


class Reason(msgspec.Struct):
    """So many are late because of that."""

    reason: str
    count: int


class LateTopic(msgspec.Struct):
    """A topic with events that are late."""

    topic: str
    count: int
    reasons: list[Reason] = []
    oldest_due_at: str | None = None


class Late(msgspec.Struct):
    """All that is late."""

    count: int = 0
    reasons: list[Reason] = []
    topics: list[LateTopic] = []


class Due(msgspec.Struct, kw_only=True):
    """How many events are due when."""

    start: str = msgspec.field(name="from")
    end: str = msgspec.field(name="to")
    server_time: str
    exact: bool = True
    pending: int = 0
    count: int = 0
    buckets: list[Bucket] = []
    late: Late = msgspec.field(default_factory=Late)


def columns(due: Due, step_ms: int) -> tuple[list[float], list[int]]:
    """All buckets, also those with nothing: when they begin, in s, and how many."""
    known = {parse_instant(it.at): it.count for it in due.buckets}
    times = range(parse_instant(due.start), parse_instant(due.end), step_ms)
    return [at / 1000 for at in times], [known.get(at, 0) for at in times]
