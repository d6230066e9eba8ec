"""Open transactions that began a moment ago, kept in memory with their messages.

Most transactions end within milliseconds; these need not be read from the index for
that. What was thrown out for want of room is read when it is needed.
"""

from dataclasses import dataclass, field

from .status import Status

OVERHEAD_SIZE = 1_000  # of one transaction, beside its records


@dataclass(slots=True)
class YoungTransaction:
    """Its status, and its HALF records in order."""

    status: Status
    records: list[bytes] = field(default_factory=list[bytes])


class Young:
    """The youngest open transactions, of at most so many bytes together."""

    def __init__(self, size_max: int) -> None:
        self._size_max = size_max
        self._size = 0
        self._transactions: dict[bytes, YoungTransaction] = {}

    def get(self, transaction_id: bytes) -> YoungTransaction | None:
        """None if it must be looked for in the index."""
        return self._transactions.get(transaction_id)

    def __len__(self) -> int:
        return len(self._transactions)

    @property
    def size(self) -> int:
        """Bytes that they take, together."""
        return self._size

    def add(self, transaction_id: bytes, status: Status, records: list[bytes]) -> None:
        """A transaction has begun, with these messages."""
        self.drop(transaction_id)
        self._transactions[transaction_id] = YoungTransaction(status, records)
        self._grow(OVERHEAD_SIZE + sum(map(len, records)))

    def add_messages(self, transaction_id: bytes, records: list[bytes]) -> None:
        """More of its messages, if it is here."""
        young = self._transactions.get(transaction_id)
        if young is not None:
            young.records += records
            self._grow(sum(map(len, records)))

    def _grow(self, size: int) -> None:
        """Make room by throwing out the oldest ones."""
        self._size += size
        while self._size > self._size_max:
            self.drop(next(iter(self._transactions)))

    def drop(self, transaction_id: bytes) -> YoungTransaction | None:
        """It has ended, or there is no room for it."""
        young = self._transactions.pop(transaction_id, None)
        if young is not None:
            self._size -= sum(map(len, young.records)) + OVERHEAD_SIZE
        return young
