"""Transactions as the API shows them, as far as pages need it."""

import msgspec

from halfpast_api.console.events.reading import Entry

OPEN_STATES = ("prepared", "parked")


class Message(msgspec.Struct):
    """One message of it, without its data."""

    id: str
    topic: str
    key: str = ""
    tag: str = ""
    size: int = 0
    deliver_at: str = ""
    delay_ms: int = 0


class Transaction(msgspec.Struct, kw_only=True):
    """One transaction; in a list without its messages."""

    id: str
    state: str
    producer_group: str
    reference: str = ""
    begun_at: str
    age_ms: int | None = None
    message_count: int = 0
    checks: int = 0
    check_max: int = 0
    check_interval_ms: int = 0
    next_check_at: str = ""
    last_answer: str = ""
    decided_at: str = ""
    source: str = ""
    check: int = 0
    reason: str = ""
    by: str = ""
    timeline: list[Entry] = []
    messages: list[Message] = []

    @property
    def is_open(self) -> bool:
        return self.state in OPEN_STATES


class TransactionPage(msgspec.Struct):
    transactions: list[Transaction]
    next_page_token: str | None = None
