"""Which transaction an event belongs to that neither log nor Delay Server know."""

from halfpast_api.event_id import id_text
from halfpast_api.problems import Refusal
from halfpast_txn.half import transaction_of
from halfpast_txn.transactions import (
    GetTransaction,
    Transaction,
    Transactions,
    TransactionState,
)
from halfpast_txn.words import PREPARED


class OwnerLookup:
    """Asks the transaction service."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def find(self, event_id: bytes) -> Transaction | None:
        """The transaction of which this is a message; None if it is of none."""
        transaction_id = transaction_of(event_id)
        index = int.from_bytes(event_id[14:], "big") - 1
        if index < 0:
            return None
        got = await self._transactions.get(GetTransaction(transaction_id))
        owner = got.transaction
        return owner if owner is not None and index < owner.message_count else None

    async def committed(self, event_id: bytes) -> bool:
        """Whether it is a message of a committed transaction: then it is, or was, an
        event like any other. Raises Refusal while the transaction is open."""
        owner = await self.find(event_id)
        if owner is None or owner.state == TransactionState.ROLLED_BACK:
            return False
        if owner.state == TransactionState.COMMITTED:
            return True
        text = id_text(owner.transaction_id)
        raise Refusal(
            "event_in_transaction",
            f"the event {id_text(event_id)} is a message of the transaction {text}, "
            "which is still open, so there is nothing to change yet: roll that back "
            "to drop it, or commit it first",
            state=PREPARED,
        )
