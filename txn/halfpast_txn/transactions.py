"""What the transaction service does, as one protocol with two forms.

A transaction is begun without a call here: whoever holds its records (`half.py`)
appends them to SYS_TRANS_HALF, and the service follows the log. What must be decided
against the state of a transaction goes through the service, which alone writes
outcomes; so log order is decision order.

Times are epoch milliseconds. `code` in a result is empty for success, else the word
that the HTTP API shows; `detail` then says what to do.
"""

from enum import IntEnum
from typing import Protocol

import msgspec

from halfpast_core_store.broker import BrokerStatus, Empty


class TransactionState(IntEnum):
    """Where a transaction stands. COMMITTED and ROLLED_BACK never change."""

    PREPARED = 1
    COMMITTED = 2
    ROLLED_BACK = 3
    PARKED = 4


class Source(IntEnum):
    """Who gave the outcome."""

    NOBODY = 0
    PRODUCER = 1
    CHECK = 2
    OPERATOR = 3


class Happening(IntEnum):
    """Entries of a transaction's time line."""

    BEGUN = 1
    ADDED = 2
    CHECKED = 3
    PARKED = 4
    RESUMED = 5
    COMMITTED = 6
    ROLLED_BACK = 7


class MessageHead(msgspec.Struct, array_like=True):
    """One message of a transaction, without its body.

    `delay_ms` counts from the commit; `due_ms` is an absolute time. Both are 0 for
    a message that is delivered with the commit.
    """

    event_id: bytes
    topic_id: int
    key: bytes
    tag: bytes
    size: int
    due_ms: int = 0
    delay_ms: int = 0
    trace: str = ""
    """The `traceparent` among its properties, if there is one."""


class Transaction(msgspec.Struct, array_like=True):
    """All about one transaction but its bodies.

    `checks` counts check-backs so far, `next_ms` is when the next one is due (or the
    parking), 0 when none is. `last_answer` is what the last one brought: `unknown`,
    or why there was no answer. `decided_ms`, `source`, `check` (the number of the
    check-back that brought the outcome, 0 if none did), `reason` and `by` tell of
    the outcome. `messages` is filled by `get` alone.
    """

    transaction_id: bytes
    state: int
    group: str
    reference: str
    begun_ms: int
    message_count: int
    checks: int
    check_max: int
    check_interval_ms: int
    next_ms: int
    last_answer: str = ""
    decided_ms: int = 0
    source: int = Source.NOBODY
    check: int = 0
    reason: str = ""
    by: str = ""
    timeline: list[tuple[int, int]] = []
    messages: list[MessageHead] = []


class End(msgspec.Struct, array_like=True):
    """An outcome: `state` is COMMITTED or ROLLED_BACK.

    `group`, unless it is empty, must be the transaction's producer group. To whoever
    gives a `namespace`, transactions of groups outside of it do not exist. `source`
    says who decides; OPERATOR may also end a parked one, and gives a `reason`.
    `check` is the number of the check-back that asked, for CHECK.
    """

    transaction_id: bytes
    state: int
    group: str = ""
    source: int = Source.PRODUCER
    check: int = 0
    reason: str = ""
    by: str = ""
    namespace: str | None = None


class EndTransactions(msgspec.Struct, array_like=True):
    """Each is decided by itself; those that can be travel in one frame."""

    ends: list[End]


class EndResult(msgspec.Struct, array_like=True):
    """`code`: unknown_transaction, transaction_conflict (`state` tells the durable
    outcome), transaction_parked, wrong_producer_group, or why it was not stored."""

    code: str = ""
    detail: str = ""
    state: int = 0
    decided_ms: int = 0
    source: int = Source.NOBODY
    checks: int = 0


class Ended(msgspec.Struct, array_like=True):
    """One result per end, in the same order. Success means durable."""

    results: list[EndResult]


class AddMessages(msgspec.Struct, array_like=True):
    """More encoded HALF records for an open transaction.

    `first_index` is the number of messages that the caller has sent before, so that
    a repeated call adds nothing twice. Raises UnknownTransaction,
    TransactionConflict, TransactionParked, MessagesOutOfOrder, TooManyMessages.
    """

    transaction_id: bytes
    first_index: int
    records: list[bytes]


class Added(msgspec.Struct, array_like=True):
    """They are durable. `message_count`: all that the transaction has now."""

    message_count: int


class Resume(msgspec.Struct, array_like=True):
    """Check a parked transaction back again, as often as at first, from now on.

    Raises UnknownTransaction, and TransactionConflict for one that has ended. One
    that is being checked already is left as it is.
    """

    transaction_id: bytes
    reason: str = ""
    by: str = ""


class GetTransaction(msgspec.Struct, array_like=True):
    """Look at one, as of now: all that was durable before the call counts."""

    transaction_id: bytes


class GotTransaction(msgspec.Struct, array_like=True):
    """None: there is none by that id, or it ended longer ago than is remembered."""

    transaction: Transaction | None


class ListTransactions(msgspec.Struct, array_like=True):
    """Transactions in one state: open and parked ones by age, oldest first; ended
    ones by the time of their outcome. `after` is the last page's `next_token`;
    `namespace` leaves out what belongs to groups outside of it.

    A page may be short, even empty, and still not be the last.
    """

    state: int = TransactionState.PREPARED
    group: str = ""
    limit: int = 100
    after: bytes = b""
    namespace: str | None = None


class TransactionPage(msgspec.Struct, array_like=True):
    """`next_token` is empty after the last page."""

    transactions: list[Transaction]
    next_token: bytes = b""


class CheckMessage(msgspec.Struct, array_like=True):
    """What a check-back tells of one message, so that the producer knows it again."""

    event_id: bytes
    topic: str
    key: str
    tag: str
    trace: str = ""
    """The `traceparent` among its properties."""


class Check(msgspec.Struct, array_like=True):
    """One question to a producer: how did this transaction end?

    `messages` are the first ones, at most 20. `first` is the HALF record of the very
    first one, for who has asked for it.
    """

    transaction_id: bytes
    group: str
    check: int
    begun_ms: int
    reference: str
    message_count: int
    messages: list[CheckMessage]
    first: bytes = b""


class PollChecks(msgspec.Struct, array_like=True):
    """Take up to `count` questions to a producer group; waits for the first one.

    `with_first`: each with its first message, whole; so ask for few at a time.
    """

    group: str
    count: int = 100
    wait_ms: int = 0
    with_first: bool = False


class PolledChecks(msgspec.Struct, array_like=True):
    """Questions that nobody else is asked until their next check-back is due."""

    checks: list[Check]


class CheckAnswer(msgspec.Struct, array_like=True):
    """`state`: COMMITTED, ROLLED_BACK, or 0 for unknown. `check`: which one asked,
    0 for the latest."""

    transaction_id: bytes
    state: int
    check: int = 0


class AnswerChecks(msgspec.Struct, array_like=True):
    """What producers of a group say. One result each, as for `EndTransactions`; a
    transaction of another group is `wrong_producer_group`."""

    group: str
    answers: list[CheckAnswer]


class Transactions(Protocol):
    """The transaction service as its users see it. Any call may raise a CoreError.

    Each request says what its call promises. After ConnectionLost it may have
    happened; after Unavailable it has not.
    """

    async def end(self, request: EndTransactions) -> Ended: ...

    async def add(self, request: AddMessages) -> Added: ...

    async def resume(self, request: Resume) -> Transaction: ...

    async def get(self, request: GetTransaction) -> GotTransaction: ...

    async def list(self, request: ListTransactions) -> TransactionPage: ...

    async def poll_checks(self, request: PollChecks) -> PolledChecks: ...

    async def answer_checks(self, request: AnswerChecks) -> Ended: ...

    async def status(self, request: Empty) -> BrokerStatus: ...
