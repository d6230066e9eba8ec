"""What transactions and their check-backs are made of, as plain values."""

from dataclasses import dataclass
from datetime import datetime
from enum import Enum, StrEnum, auto


class TransactionState(StrEnum):
    """Where a transaction stands, as far as this program knows.

    COMMITTED and ROLLED_BACK are durable and never change.
    """

    EMPTY = "empty"  # nothing was sent, so the server does not know of it
    PREPARED = "prepared"
    COMMITTED = "committed"
    ROLLED_BACK = "rolled_back"
    PARKED = "parked"  # checked back in vain: an operator decides


class LocalOutcome(Enum):
    """What became of the database transaction that belongs to a transaction."""

    UNWATCHED = auto()  # there is no barrier, so nobody knows
    OPEN = auto()
    COMMITTING = auto()  # COMMIT was sent, nobody has seen its answer yet
    COMMITTED = auto()
    ROLLED_BACK = auto()
    IN_DOUBT = auto()  # COMMIT was sent and failed: it may have happened


class CheckAnswer(StrEnum):
    """How a transaction ended locally. UNKNOWN: ask me later."""

    COMMITTED = "committed"
    ROLLED_BACK = "rolled_back"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedMessage:
    """One message of a transaction that is checked back, without its data."""

    id: str
    topic: str
    key: str | None = None
    tag: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionCheck:
    """The server asks how a transaction ended.

    `check` counts the times it asked. `reference` is your own word for the
    transaction. `messages` are the first ones, of `message_count` in all.
    """

    id: str
    check: int = 0
    producer_group: str = ""
    begun_at: datetime | None = None
    reference: str = ""
    message_count: int = 0
    messages: tuple[CheckedMessage, ...] = ()
