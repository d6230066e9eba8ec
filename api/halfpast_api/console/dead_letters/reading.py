"""Dead letters as the API shows them, as far as pages need it: of the Delay Server, of
consumer groups and of endpoints."""

import msgspec


class DeadLetter(msgspec.Struct, kw_only=True):
    """What was given up, and why."""

    id: str
    topic: str
    source: str = "delay"
    group: str = ""
    endpoint: str = ""
    key: str | None = None
    tag: str | None = None
    created_at: str | None = None
    dead_at: str | None = None
    attempts: int = 0
    reason: str = ""


class DeadLetterPage(msgspec.Struct):
    dead_letters: list[DeadLetter]
    next_page_token: str | None = None


class Count(msgspec.Struct):
    """Who has any."""

    source: str
    dead_letters: int
    group: str = ""
    endpoint: str = ""


class Counts(msgspec.Struct):
    counts: list[Count]
    next_page_token: str | None = None
