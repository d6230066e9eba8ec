"""Recurring schedules as the API shows them, as far as pages need it."""

import msgspec
from msgspec import UNSET, Raw, UnsetType

from halfpast_api.console.moment import span_text


class Exponential(msgspec.Struct):
    """Pauses that grow."""

    first_ms: int
    factor: float
    longest_ms: int


class Schedule(msgspec.Struct, kw_only=True):
    """One schedule; in a list without its message."""

    id: str
    topic: str
    state: str
    version: int
    description: str = ""
    cron: str = ""
    time_zone: str = "UTC"
    interval_ms: int = 0
    exponential: Exponential | None = None
    start_at: str = ""
    until: str = ""
    times: int = 0
    jitter_ms: int = 0
    catch_up: str = ""
    grace_ms: int = 0
    next_at: str | None = None
    occurrences: int = 0
    last_at: str = ""
    last_event_id: str = ""
    skipped_at: str = ""
    created_at: str = ""
    updated_at: str = ""
    ended_at: str = ""
    reason: str = ""
    key: str | None = None
    tag: str | None = None
    properties: dict[str, str] = {}
    data: Raw | UnsetType = UNSET
    data_base64: bytes | UnsetType = UNSET
    data_withheld: bool = False

    @property
    def kind(self) -> str:
        """Which of the three rules it has."""
        if self.cron:
            return "cron"
        return "interval" if self.interval_ms else "exponential"

    @property
    def rule(self) -> str:
        """When it occurs, in few words."""
        if self.cron:
            return self.cron
        if self.exponential is None:
            return f"every {span_text(self.interval_ms)}"
        grows = self.exponential
        return f"{span_text(grows.first_ms)}, then {grows.factor:g} times that"


class SchedulePage(msgspec.Struct):
    schedules: list[Schedule]
    next_page_token: str | None = None


class Occurrence(msgspec.Struct):
    """One that will be."""

    occurrence: int
    at: str
    nominal_at: str | None = None


class Next(msgspec.Struct):
    """What comes next."""

    occurrences: list[Occurrence]
