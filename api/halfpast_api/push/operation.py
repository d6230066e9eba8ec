"""Operations on many dead letters: what is wished, and how far it has come."""

from dataclasses import dataclass
from enum import StrEnum

import msgspec

EVER_MS = 2**63 - 1
IDS_MAX = 1_000


class Action(StrEnum):
    """What is done with dead letters."""

    REDRIVE = "redrive"
    DISCARD = "discard"


class State(StrEnum):
    """All but RUNNING are final."""

    RUNNING = "running"
    DONE = "done"
    CANCELLED = "cancelled"
    FAILED = "failed"


class Source(StrEnum):
    """Where dead letters come from: the Delay Server, a consumer group, or an
    endpoint's."""

    DELAY = "delay"
    GROUP = "group"
    ENDPOINT = "endpoint"


class Wish(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True):
    """Which dead letters: those for which all that is given is true. Names are those in
    the store; the range of times takes its first moment and leaves its last."""

    source: str
    group: str = ""
    ids: list[str] = []
    topic: str = ""
    key: str | None = None
    tag: str | None = None
    dead_after_ms: int = 0
    dead_before_ms: int = EVER_MS
    once: str = ""
    """What the caller's Idempotency-Key became, as hexadecimal digits."""
    request: str = ""
    """And what it stands for: the request, in the same way."""

    def matches(
        self, event_id: str, topic: str, key: bytes, tag: bytes, dead_ms: int
    ) -> bool:
        """Whether a dead letter is meant."""
        return (
            (not self.ids or event_id in self.ids)
            and (not self.topic or topic == self.topic)
            and (self.key is None or key == self.key.encode())
            and (self.tag is None or tag == self.tag.encode())
            and self.dead_after_ms <= dead_ms < self.dead_before_ms
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """`place` is where it goes on, empty at the beginning. `gone` counts those that
    could not be had any more. Times in epoch ms."""

    id: str
    namespace: str
    action: str
    state: str
    dry_run: bool
    wish: Wish
    place: str = ""
    scanned: int = 0
    expected: int = 0
    matched: int = 0
    changed: int = 0
    gone: int = 0
    error: str = ""
    created_at_ms: int
    finished_at_ms: int = 0
