"""The user's database transaction, from entering a barrier to leaving it.

This module needs SQLAlchemy; `local_barrier.py` imports it when it is used.
"""

import logging

from sqlalchemy import Connection, Table
from sqlalchemy.orm import Session

from halfpast.barrier_guard import Guard, begun_by_caller
from halfpast.errors import TransactionMisuse
from halfpast.transaction import Transaction
from halfpast.transaction_model import LocalOutcome

log = logging.getLogger("halfpast")


class LocalTransaction:
    """One transaction of a Session or Connection, with the row of `tx` in it.

    `begin` first, then `finish` when the block is left. A transaction that the
    caller has begun is the caller's to end; another one is ended by `finish`.
    """

    def __init__(
        self, where: Session | Connection, tx: Transaction, table: Table
    ) -> None:
        self._where = where
        self._guard = Guard(tx, table)
        self._is_ours = not begun_by_caller(where)

    def begin(self) -> None:
        """Begin unless the caller has, and add the row if something was sent."""
        if not self._where.in_transaction():
            self._where.begin()
        try:
            self._guard.attach(self._where)
        except BaseException:
            self._roll_back()
            raise

    def finish(self, *, failed: bool) -> None:
        """End what is ours: commit, or roll back if the block failed."""
        if failed:
            self._roll_back()
            return
        try:
            self._commit()
        except BaseException:
            self._roll_back()
            raise

    def _commit(self) -> None:
        where, guard = self._where, self._guard
        if guard.state is LocalOutcome.ROLLED_BACK and where.in_transaction():
            raise TransactionMisuse(
                "after a rollback within the barrier's block there is no row",
                "let errors leave the block, or use begin_nested() for what may fail",
            )
        if isinstance(where, Session):
            where.flush()  # if this fails it is certainly no failed COMMIT
        guard.write_late(where)
        if self._is_ours and where.in_transaction():
            where.commit()
        guard.seen_to_commit()

    def _roll_back(self) -> None:
        """If it is ours. The error that brought us here is the one to be seen."""
        if not self._is_ours:
            return
        try:
            if self._where.in_transaction():
                self._where.rollback()
        except Exception as error:
            log.warning("could not roll the local transaction back: %s", error)
        finally:
            self._guard.abandon()
