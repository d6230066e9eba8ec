"""The producers' own database: orders in SQLite, the truth that messages must match.

An order is inserted with the messages that tell of it, in one local transaction
beside the barrier's row, so whoever reads this file later knows exactly what must
have been delivered. Orders that failed are kept as well, so that a producer which
was killed goes on where it stopped.
"""

from collections.abc import Iterable
from pathlib import Path

import msgspec
from sqlalchemy import (
    BigInteger,
    Column,
    Engine,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    create_engine,
    event,
    func,
    insert,
    select,
)
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.orm import Session
from sqlalchemy.pool import ConnectionPoolEntry

from halfpast import barrier_table
from halfpast_loadtest.transaction_check import LocalMessage, LocalTransaction

BUSY_S = 10.0

METADATA = MetaData()
ORDERS = Table(
    "orders",
    METADATA,
    Column("number", Integer, primary_key=True),
    Column("transaction_id", String(36), nullable=False, unique=True),
    Column("placed_ms", BigInteger, nullable=False),
    Column("messages", Text, nullable=False),
)
REFUSED_ORDERS = Table(
    "refused_orders", METADATA, Column("number", Integer, primary_key=True)
)
BARRIERS = barrier_table(METADATA)


def open_book(path: Path) -> Engine:
    """The database at `path`, with its tables."""
    engine = create_engine(f"sqlite:///{path}", connect_args={"timeout": BUSY_S})
    event.listen(engine, "connect", _tune)
    METADATA.create_all(engine)
    return engine


def place_order(
    session: Session,
    number: int,
    transaction_id: str,
    placed_ms: int,
    messages: Iterable[LocalMessage],
) -> None:
    """Insert an order into the local transaction. It does not commit."""
    values = {
        "number": number,
        "transaction_id": transaction_id,
        "placed_ms": placed_ms,
        "messages": msgspec.json.encode([*messages]).decode(),
    }
    session.execute(insert(ORDERS), values)


def note_refused(session: Session, number: int) -> None:
    """This order will not be tried again. It does not commit."""
    session.execute(insert(REFUSED_ORDERS), {"number": number})


def settled_numbers(engine: Engine) -> set[int]:
    """The numbers of orders that need no further attempt."""
    with engine.connect() as connection:
        placed = connection.scalars(select(ORDERS.c.number)).all()
        refused = connection.scalars(select(REFUSED_ORDERS.c.number)).all()
    return {*placed, *refused}


def placed_transactions(path: Path) -> list[LocalTransaction]:
    """What was committed locally, in the order of its numbers."""
    engine = open_book(path)
    with engine.connect() as connection:
        rows = connection.execute(select(ORDERS).order_by(ORDERS.c.number)).all()
    engine.dispose()
    return [
        LocalTransaction(
            number=row.number,
            transaction_id=row.transaction_id,
            placed_ms=row.placed_ms,
            messages=_MESSAGES.decode(row.messages),
        )
        for row in rows
    ]


def refused_count(path: Path) -> int:
    """How many orders have failed locally for good."""
    engine = open_book(path)
    with engine.connect() as connection:
        count = connection.scalar(select(func.count()).select_from(REFUSED_ORDERS))
    engine.dispose()
    return count or 0


def _tune(connection: DBAPIConnection, _: ConnectionPoolEntry) -> None:
    """Readers do not wait for the writer; a SIGKILL loses nothing."""
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA synchronous=NORMAL")
    cursor.close()


_MESSAGES = msgspec.json.Decoder(tuple[LocalMessage, ...])
