"""Consumer groups as the API shows them, as far as pages need it."""

import msgspec


class Group(msgspec.Struct):
    """Its settings."""

    name: str
    max_attempts: int
    backoff_initial_ms: int
    backoff_max_ms: int
    invisible_ms: int
    ordered: bool = False
    version: int = 0
    created_at: str | None = None
    updated_at: str | None = None


class GroupPage(msgspec.Struct):
    groups: list[Group]
    next_page_token: str | None = None


class QueueLag(msgspec.Struct):
    """Where it stands in one queue."""

    queue: int
    offset: int
    min_offset: int
    max_offset: int
    lag: int


class Lag(msgspec.Struct):
    """Where it stands in a topic."""

    group: str
    topic: str
    lag: int
    in_flight: int
    held_back: int = 0
    queues: list[QueueLag] = []
