"""Recurring schedules as requests bring them."""

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from halfpast_chronos.recurrence import CatchUp

DESCRIPTION_CHARS_MAX = 1000
TIMES_MAX = 2**31 - 1

CatchUpWord = Literal["fire_once", "fire_all", "skip"]
CATCH_UPS: dict[str, int] = {it.name.lower(): it for it in CatchUp}
Times = Annotated[int, Meta(ge=1, le=TIMES_MAX)]
GraceMs = Annotated[int, Meta(ge=0, le=2**53 - 1)]
Description = Annotated[str, Meta(max_length=DESCRIPTION_CHARS_MAX)]


class ExponentialBody(
    msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True, kw_only=True
):
    """Pauses that grow: the first, by which factor, and the longest. Each span as
    ISO 8601 or in milliseconds."""

    first: str | None = None
    first_ms: int | None = None
    factor: float | None = None
    longest: str | None = None
    longest_ms: int | None = None


class MessageFields(
    msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True, kw_only=True
):
    """The message that is delivered each time, as in an event."""

    data: Raw | UnsetType = UNSET
    data_base64: bytes | UnsetType = UNSET
    key: str | UnsetType | None = UNSET
    tag: str | UnsetType | None = UNSET
    properties: Raw | UnsetType = UNSET


class ScheduleChange(MessageFields, kw_only=True):
    """What of a schedule is to be another way; null takes something away.

    At most one of `cron`, `interval` (or `interval_ms`) and `exponential`, which
    replaces the rule that there was.
    """

    cron: str | None = None
    time_zone: str | None = None
    interval: str | None = None
    interval_ms: int | None = None
    exponential: ExponentialBody | None = None
    start_at: str | UnsetType | None = UNSET
    until: str | UnsetType | None = UNSET
    times: Times | UnsetType | None = UNSET
    jitter: str | UnsetType | None = UNSET
    jitter_ms: int | UnsetType | None = UNSET
    catch_up: CatchUpWord | UnsetType = UNSET
    grace_ms: GraceMs | UnsetType = UNSET
    description: Description | UnsetType = UNSET


class ScheduleBody(ScheduleChange, kw_only=True):
    """A new schedule. `paused`: it does not begin before it is resumed."""

    topic: str
    paused: bool | UnsetType = UNSET
