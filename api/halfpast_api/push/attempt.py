"""One attempt as it is kept: what was sent, when, and what came of it."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

FAILED: Final = "failed"
"""In questions: every state but DELIVERED."""


class AttemptKind(StrEnum):
    """What it was for. VALIDATION: the handshake of CloudEvents."""

    DELIVERY = "delivery"
    TEST = "test"
    VALIDATION = "validation"


class AttemptState(StrEnum):
    """What became of the message. HELD: it waits, the attempt does not count."""

    DELIVERED = "delivered"
    RETRYING = "retrying"
    DEAD = "dead"
    HELD = "held"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """`endpoint` and `topic` by their names in the store; times in epoch ms, 0 for
    none. `number` orders the attempts of all processes, nearly by time."""

    endpoint: str
    number: int
    kind: str
    state: str
    event_id: str
    topic: str
    attempt: int
    at_ms: int
    duration_ms: int
    result: str
    status: int = 0
    error: str = ""
    response: str = ""
    next_attempt_ms: int = 0
