"""Follows the user's database transaction, so that no one has to guess its end.

SQLAlchemy tells what happens to a Session or Connection. The guard writes the row
before the COMMIT if it could not do so earlier, refuses a COMMIT that would come too
late, and notes in the Transaction what became of it.

    OPEN -> COMMITTING -> COMMITTED
         |            `-> IN_DOUBT      COMMIT was sent and failed
         `-> ROLLED_BACK                COMMIT was never sent

This module needs SQLAlchemy; `local_barrier.py` imports it when it is used.
"""

from weakref import WeakKeyDictionary

from sqlalchemy import Connection, Table, event
from sqlalchemy.orm import Session, SessionTransaction, SessionTransactionOrigin

from halfpast.barrier_row import connection_of, insert_committed
from halfpast.errors import BarrierClosed, TransactionInDoubt, TransactionMisuse
from halfpast.transaction import Transaction
from halfpast.transaction_model import LocalOutcome, TransactionState


class Guard:
    """What the events of one local transaction mean for `tx`.

    It must not refer to the Session or Connection: the tables below refer to it for
    as long as those live.
    """

    def __init__(self, tx: Transaction, table: Table) -> None:
        self.state = LocalOutcome.UNWATCHED
        self._tx = tx
        self._table = table
        self._is_written = False
        self._is_joined = False  # the session committed into an outer transaction
        self._refusal: Exception | None = None
        self._retries_doubt = tx.local in (
            LocalOutcome.COMMITTING,
            LocalOutcome.IN_DOUBT,
        )
        if tx.local in (LocalOutcome.OPEN, LocalOutcome.COMMITTED):
            raise TransactionMisuse(
                "the transaction has had its barrier",
                "use one transaction and one barrier per local transaction",
            )

    def attach(self, where: Session | Connection) -> None:
        """Follow its present transaction, and add the row if something was sent."""
        connection = connection_of(where, self._table)
        _check_place(where, connection)
        _connections[connection] = self
        event.listen(connection, "commit", _on_commit)
        event.listen(connection, "rollback", _on_rollback)
        if isinstance(where, Session):
            _sessions[where] = self
            event.listen(where, "before_commit", _before_commit)
            event.listen(where, "after_commit", _after_commit)
            event.listen(where, "after_transaction_end", _after_transaction_end)
        self.note(LocalOutcome.OPEN)
        self.write_late(where)

    def note(self, state: LocalOutcome) -> None:
        self.state = self._tx.local = state

    def write_late(self, where: Session | Connection) -> None:
        """Add the row if it can be named by now, and has not been added.

        Raises BarrierClosed, and again for every later attempt to commit.
        """
        if self._refusal is not None:
            raise self._refusal
        if not self._lacks_row():
            return
        connection = connection_of(where, self._table)
        tx = self._tx
        try:
            insert_committed(connection, self._table, tx.id, tx.producer_group)
        except BarrierClosed as closed:
            self._refusal = closed
            if self._retries_doubt:  # or is it the row of our own first attempt?
                self.note(LocalOutcome.IN_DOUBT)
                why = "the COMMIT that failed before may have succeeded"
                self._refusal = TransactionInDoubt(tx.id, "barrier", 1, why)
                raise self._refusal from closed
            self.note(LocalOutcome.ROLLED_BACK)
            raise
        self._is_written = True

    def commit_begins(self) -> None:
        """Called before COMMIT is sent; what this raises keeps it from being sent."""
        if self._refusal is not None:
            raise self._refusal
        if self._lacks_row():
            raise TransactionMisuse(
                "messages were sent after the barrier's block, so their row is missing",
                "send them before, or within the block",
            )
        self.note(LocalOutcome.COMMITTING)

    def seen_to_commit(self) -> None:
        """The caller got past its commit without an error."""
        if self.state is LocalOutcome.COMMITTING:
            self.note(LocalOutcome.COMMITTED)

    def session_committed(self) -> None:
        if self.state is LocalOutcome.COMMITTING:
            self.note(LocalOutcome.COMMITTED)
        else:
            self._is_joined = True

    def session_ended(self) -> None:
        if self.state is LocalOutcome.COMMITTING:
            self.note(LocalOutcome.IN_DOUBT)
        elif self.state is LocalOutcome.OPEN and not self._is_joined:
            self.note(LocalOutcome.ROLLED_BACK)

    def abandon(self) -> None:
        """The caller must not commit any more, if COMMIT was not sent yet."""
        if self.state is LocalOutcome.COMMITTING:
            self.note(LocalOutcome.IN_DOUBT)
        elif self.state is LocalOutcome.OPEN:
            self.note(LocalOutcome.ROLLED_BACK)
            self._refusal = TransactionMisuse(
                "the barrier's block has failed", "roll back, and begin anew"
            )

    def _lacks_row(self) -> bool:
        begun = self._tx.state is not TransactionState.EMPTY
        return begun and not self._is_written and self.state is LocalOutcome.OPEN


_sessions: WeakKeyDictionary[Session, Guard] = WeakKeyDictionary()
_connections: WeakKeyDictionary[Connection, Guard] = WeakKeyDictionary()


def _check_place(where: Session | Connection, connection: Connection) -> None:
    """Raises TransactionMisuse where a row would not share the work's fate."""
    if where.in_nested_transaction():
        raise TransactionMisuse(
            "a barrier within a savepoint could be rolled back alone",
            "enter it outside of begin_nested()",
        )
    if connection.get_execution_options().get("isolation_level") == "AUTOCOMMIT":
        raise TransactionMisuse(
            "in AUTOCOMMIT every statement commits by itself",
            "use a connection with transactions",
        )
    other = _connections.get(connection)
    if other is not None and other.state is LocalOutcome.OPEN:
        raise TransactionMisuse(
            "the local transaction has a barrier already",
            "send all messages with one transaction",
        )


def begun_by_caller(where: Session | Connection) -> bool:
    """Whether the caller ends the transaction. A Session's own `begin` does not count
    if it was implicit, as with the first query."""
    if isinstance(where, Connection):
        return where.in_transaction()
    transaction = where.get_transaction()
    autobegin = SessionTransactionOrigin.AUTOBEGIN
    return transaction is not None and transaction.origin is not autobegin


def _before_commit(session: Session) -> None:
    guard = _sessions.get(session)
    if guard is not None and not session.in_nested_transaction():
        guard.write_late(session)


def _after_commit(session: Session) -> None:
    guard = _sessions.get(session)
    if guard is not None and not session.in_nested_transaction():
        guard.session_committed()


def _after_transaction_end(session: Session, transaction: SessionTransaction) -> None:
    if transaction.parent is None:
        guard = _sessions.pop(session, None)
        if guard is not None:
            guard.session_ended()


# What comes after a commit or rollback is another transaction's.


def _on_commit(connection: Connection) -> None:
    guard = _connections.pop(connection, None)
    if guard is not None:
        guard.commit_begins()


def _on_rollback(connection: Connection) -> None:
    guard = _connections.pop(connection, None)
    if guard is not None and guard.state is LocalOutcome.OPEN:
        guard.note(LocalOutcome.ROLLED_BACK)
