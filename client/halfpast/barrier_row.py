"""The row that says how a transaction ended, in the user's own database.

    transaction_id (primary key) | outcome | producer_group | created_at

The local transaction inserts `committed`, a check-back that finds nothing inserts
`rolled_back`. There is room for one of them: the primary key decides which, and
whoever comes second learns it. No one looks first and inserts then.

This module needs SQLAlchemy; `local_barrier.py` imports it when it is used.
"""

from datetime import UTC, datetime, timedelta
from uuid import UUID

from sqlalchemy import (
    Column,
    Connection,
    CursorResult,
    DateTime,
    MetaData,
    String,
    Table,
    delete,
    insert,
    select,
    text,
)
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.orm import Session

from halfpast.errors import BarrierClosed
from halfpast.transaction_model import CheckAnswer, TransactionCheck

TABLE_NAME = "halfpast_barrier"
CLOCKS_APART = timedelta(hours=1)  # at most, the server's clock and ours


def make_table(
    metadata: MetaData | None = None,
    name: str = TABLE_NAME,
    schema: str | None = None,
) -> Table:
    """The table, or the one that `metadata` has by that name already."""
    metadata = MetaData() if metadata is None else metadata
    known = metadata.tables.get(f"{schema}.{name}" if schema else name)
    if known is not None:
        return known
    return Table(
        name,
        metadata,
        Column("transaction_id", String(36), primary_key=True),
        Column("outcome", String(16), nullable=False),
        Column("producer_group", String(255), nullable=False),
        Column("created_at", DateTime(timezone=True), nullable=False),
        schema=schema,
    )


DEFAULT_TABLE = make_table()


def connection_of(where: Session | Connection, table: Table) -> Connection:
    """The connection that the table is on."""
    if isinstance(where, Connection):
        return where
    return where.connection(bind_arguments={"clause": table})


def insert_committed(
    connection: Connection, table: Table, transaction_id: str, producer_group: str
) -> None:
    """Add the row to the local transaction. Raises BarrierClosed if there is one."""
    try:
        _insert(
            connection, table, transaction_id, CheckAnswer.COMMITTED, producer_group
        )
    except IntegrityError as error:
        raise BarrierClosed(transaction_id) from error


def settle(
    session: Session,
    table: Table,
    check: TransactionCheck,
    kept: timedelta | None,
    lock_wait_ms: int,
) -> CheckAnswer:
    """How the local transaction ended; if it did not yet, it cannot any more.

    UNKNOWN if the database does not say, such as while the local transaction is
    open, or if rows of that age may have been purged. Ends the session's transaction.
    """
    if kept is not None and _is_older(check, kept):
        return _look(session, table, check.id)
    try:
        with session.begin():
            connection = connection_of(session, table)
            if connection.dialect.name == "postgresql":
                connection.execute(text(f"SET LOCAL lock_timeout = {lock_wait_ms}"))
            outcome = CheckAnswer.ROLLED_BACK
            _insert(connection, table, check.id, outcome, check.producer_group)
    except IntegrityError:  # there is a row, and it is committed
        return _look(session, table, check.id)
    except DBAPIError as error:
        if _is_waiting(error):
            return CheckAnswer.UNKNOWN
        raise
    return CheckAnswer.ROLLED_BACK


def delete_older(connection: Connection, table: Table, age: timedelta) -> int:
    """Delete the rows of transactions older than `age`; returns how many.

    Ids begin with the time of their transaction, so the primary key finds them.
    """
    limit = datetime.now(UTC) - age - CLOCKS_APART
    milliseconds = int(limit.timestamp() * 1000)
    first_later_id = str(UUID(int=milliseconds << 80))
    statement = delete(table).where(
        table.c.transaction_id < first_later_id, table.c.created_at < limit
    )
    result: CursorResult[object] = connection.execute(statement)
    return result.rowcount


def _is_older(check: TransactionCheck, age: timedelta) -> bool:
    return check.begun_at is not None and check.begun_at < datetime.now(UTC) - age


def _insert(
    connection: Connection,
    table: Table,
    transaction_id: str,
    outcome: CheckAnswer,
    producer_group: str,
) -> None:
    values = {
        "transaction_id": transaction_id,
        "outcome": outcome.value,
        "producer_group": producer_group,
        "created_at": datetime.now(UTC),
    }
    connection.execute(insert(table), values)


def _look(session: Session, table: Table, transaction_id: str) -> CheckAnswer:
    with session.begin():
        connection = connection_of(session, table)
        found = connection.scalar(
            select(table.c.outcome).where(table.c.transaction_id == transaction_id)
        )
    return CheckAnswer.UNKNOWN if found is None else CheckAnswer(found)


def _is_waiting(error: DBAPIError) -> bool:
    """Whether another transaction is in the way, for now."""
    state = getattr(error.orig, "sqlstate", None)
    return state in _WAITING_STATES or "database is locked" in str(error.orig)


# lock_timeout; serialization failure; deadlock
_WAITING_STATES = {"55P03", "40001", "40P01"}
