"""Events as the API shows them, as far as pages need it."""

import msgspec
from msgspec import UNSET, Raw, UnsetType


class Entry(msgspec.Struct):
    """Something that happened."""

    at: str
    what: str


class Event(msgspec.Struct, kw_only=True):
    """One event, in a list without its data."""

    id: str
    topic: str
    state: str
    created_at: str
    key: str | None = None
    tag: str | None = None
    properties: dict[str, str] = {}
    deliver_at: str | None = None
    delivered_at: str | None = None
    cancelled_at: str | None = None
    dead_at: str | None = None
    attempts: int = 0
    next_attempt_at: str | None = None
    reason: str = ""
    lateness_ms: int | None = None
    version: int = 1
    data: Raw | UnsetType = UNSET
    data_base64: bytes | UnsetType = UNSET
    data_withheld: bool = False
    transaction_id: str = ""
    delay_ms: int | None = None
    schedule_id: str = ""
    occurrence: int = 0
    timeline: list[Entry] = []


class EventPage(msgspec.Struct):
    events: list[Event]
    next_page_token: str | None = None


class Published(msgspec.Struct):
    """The answer to publishing."""

    id: str
    state: str
    deliver_at: str | None = None
