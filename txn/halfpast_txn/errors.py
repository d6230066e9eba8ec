"""What the transaction service refuses, and why.

TransactionError
├── UnknownTransaction      no such transaction (or it is forgotten already)
├── TransactionConflict     it has the other outcome, or has one already
├── TransactionParked       checked back in vain; an operator must decide
├── WrongProducerGroup      it belongs to another producer group
├── MessagesOutOfOrder      messages were added behind a gap
└── TooManyMessages         a transaction holds so many at most
"""

from halfpast_core_store.errors import CoreError


class TransactionError(CoreError):
    """Base of the transaction service's refusals. `transaction` is an id as text."""

    code = "transaction_error"


class UnknownTransaction(TransactionError):
    """No transaction has this id. It may have been forgotten after its time."""

    code = "unknown_transaction"

    def __init__(self, transaction: str) -> None:
        super().__init__(transaction)
        self.transaction = transaction

    def __str__(self) -> str:
        return f"there is no transaction {self.transaction}"


class TransactionConflict(TransactionError):
    """Its durable outcome, `state`, is another one; it never changes."""

    code = "transaction_conflict"

    def __init__(self, transaction: str, state: str) -> None:
        super().__init__(transaction, state)
        self.transaction = transaction
        self.state = state

    def __str__(self) -> str:
        return f"transaction {self.transaction} is {self.state.replace('_', ' ')}"


class TransactionParked(TransactionError):
    """Checked back as often as allowed without an outcome: an operator decides."""

    code = "transaction_parked"

    def __init__(self, transaction: str, checks: int) -> None:
        super().__init__(transaction, checks)
        self.transaction = transaction
        self.checks = checks

    def __str__(self) -> str:
        return (
            f"transaction {self.transaction} is parked after {self.checks} check-backs "
            "without an outcome"
        )


class WrongProducerGroup(TransactionError):
    """The transaction belongs to the producer group `group`."""

    code = "wrong_producer_group"

    def __init__(self, transaction: str, group: str) -> None:
        super().__init__(transaction, group)
        self.transaction = transaction
        self.group = group

    def __str__(self) -> str:
        return f"transaction {self.transaction} belongs to the group {self.group!r}"


class MessagesOutOfOrder(TransactionError):
    """The transaction has `count` messages: add the next ones behind them."""

    code = "messages_out_of_order"

    def __init__(self, transaction: str, count: int) -> None:
        super().__init__(transaction, count)
        self.transaction = transaction
        self.count = count

    def __str__(self) -> str:
        return f"transaction {self.transaction} has {self.count} messages"


class TooManyMessages(TransactionError):
    """A transaction holds at most `count_max` messages and `size_max` bytes."""

    code = "too_many_messages"

    def __init__(self, count_max: int, size_max: int) -> None:
        super().__init__(count_max, size_max)
        self.count_max = count_max
        self.size_max = size_max

    def __str__(self) -> str:
        return (
            f"a transaction holds at most {self.count_max} messages "
            f"of {self.size_max} bytes together"
        )
