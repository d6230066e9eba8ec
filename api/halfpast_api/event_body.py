"""Events as requests bring them."""

import msgspec
from msgspec import UNSET, Raw, UnsetType


class EventBody(
    msgspec.Struct,
    forbid_unknown_fields=True,
    omit_defaults=True,
    kw_only=True,
    gc=False,
):
    """What to deliver and when: at most one of the last three, none means now.

    Exactly one of `data` (any JSON, kept as it came) and `data_base64`.
    """

    # `properties` is a map of text to text. `encoding` decodes it, so that a huge one
    # is refused by its size before it becomes objects.

    data: Raw | UnsetType = UNSET
    data_base64: bytes | None = None
    key: str | None = None
    tag: str | None = None
    properties: Raw | UnsetType = UNSET
    deliver_at: str | None = None
    delay: str | None = None
    delay_ms: int | None = None


class BatchEventBody(EventBody, kw_only=True, gc=False):
    """One event of a batch."""

    topic: str


class BatchBody(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """`atomic`: all of them or none, where one is refused. Unset means false."""

    events: list[BatchEventBody]
    atomic: bool | UnsetType = UNSET


class LooseBatchBody(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A batch whose events are looked at one by one."""

    events: list[Raw]
    atomic: bool = False


class RescheduleBody(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A new time: exactly one of these."""

    deliver_at: str | None = None
    delay: str | None = None
    delay_ms: int | None = None
