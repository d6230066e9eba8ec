"""Databases, and the four places in them that a barrier can stand at.

A test says what happens when, and each place does it in its own way.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from uuid import UUID

from sqlalchemy import Connection, Engine, create_engine, func, insert, make_url, select
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

import halfpast
from halfpast.transaction_body import BeginBody, BegunBody
from halfpast.transaction_calls import TransactionCalls
from halfpast.transport import Transport

Step = Callable[[], Awaitable[object]]
Local = Callable[["Database", halfpast.Transaction, Step], Awaitable[None]]
LOCK_WAIT = timedelta(milliseconds=200)


class Base(DeclarativeBase):
    """The user's own tables."""


class Order(Base):
    __tablename__ = "orders"
    id: Mapped[str] = mapped_column(primary_key=True)


BARRIERS = halfpast.barrier_table(Base.metadata)


class Database:
    """One database, with a synchronous and an asynchronous engine."""

    def __init__(self, url: str) -> None:
        parsed = make_url(url)
        self.is_sqlite = parsed.drivername == "sqlite"
        names = ("sqlite", "sqlite+aiosqlite")
        if not self.is_sqlite:
            names = ("postgresql+psycopg", "postgresql+psycopg")
        wait = {"timeout": LOCK_WAIT.total_seconds()} if self.is_sqlite else {}
        self.engine: Engine = create_engine(
            parsed.set(drivername=names[0]), connect_args=wait
        )
        self.async_engine: AsyncEngine = create_async_engine(
            parsed.set(drivername=names[1]), connect_args=wait
        )
        self.check = halfpast.barrier_check(self.engine, lock_wait=LOCK_WAIT)
        self.check_async = halfpast.barrier_check(
            self.async_engine, lock_wait=LOCK_WAIT
        )

    def orders(self) -> int:
        with self.engine.connect() as connection:
            return connection.scalar(select(func.count()).select_from(Order)) or 0

    def has_order(self, transaction_id: str) -> bool:
        with self.engine.connect() as connection:
            found = connection.scalar(
                select(Order.id).where(Order.id == transaction_id)
            )
        return found is not None

    def row(self, transaction_id: str) -> str | None:
        """What the barrier's row says."""
        wanted = BARRIERS.c.transaction_id == transaction_id
        with self.engine.connect() as connection:
            return connection.scalar(select(BARRIERS.c.outcome).where(wanted))

    async def close(self) -> None:
        self.engine.dispose()
        await self.async_engine.dispose()


@asynccontextmanager
async def opened(url: str) -> AsyncGenerator[Database]:
    database = Database(url)
    Base.metadata.create_all(database.engine)
    try:
        yield database
    finally:
        await database.close()


class Ledger(TransactionCalls):
    """The server's part: one outcome for each transaction, the first one given."""

    def __init__(self) -> None:
        super().__init__(Transport("http://x", halfpast.RetryPolicy()), None)
        self.states: dict[str, str] = {}

    def transaction(self) -> halfpast.Transaction:
        return halfpast.Transaction(self, BeginBody(producer_group="orders"))

    async def begun(self) -> halfpast.Transaction:
        tx = self.transaction()
        await tx.send("t", 1)
        return tx

    def answer(self, transaction_id: str, answer: halfpast.CheckAnswer) -> None:
        """A check-back's answer; one against the outcome is a broken promise."""
        if answer is not halfpast.CheckAnswer.UNKNOWN:
            self._decide(transaction_id, answer.value)

    async def begin(self, body: BeginBody, messages: Sequence[bytes]) -> BegunBody:
        name = str(UUID(int=(0x01936F1E8C007ABC << 64) + (len(self.states) + 1 << 16)))
        self.states[name] = "prepared"
        return BegunBody(name)

    async def end(self, transaction_id: str, state: halfpast.TransactionState) -> None:
        self._decide(transaction_id, state.value)

    def _decide(self, transaction_id: str, state: str) -> None:
        assert self.states[transaction_id] in ("prepared", state)
        self.states[transaction_id] = state


def asked(tx: halfpast.Transaction) -> halfpast.TransactionCheck:
    return halfpast.TransactionCheck(id=tx.id, producer_group="orders")


def order(tx: halfpast.Transaction) -> Order:
    return Order(id=tx.id)


async def in_session(db: Database, tx: halfpast.Transaction, step: Step) -> None:
    with Session(db.engine) as session, halfpast.barrier(session, tx):
        await step()
        session.add(order(tx))


async def in_begun_session(db: Database, tx: halfpast.Transaction, step: Step) -> None:
    with (
        Session(db.engine) as session,
        session.begin(),
        halfpast.barrier(session, tx),
    ):
        await step()
        session.add(order(tx))


async def in_connection(db: Database, tx: halfpast.Transaction, step: Step) -> None:
    with db.engine.connect() as connection:
        async with halfpast.barrier(connection, tx):  # it may be, also for these
            await step()
            _insert(connection, tx)


async def in_begun_connection(
    db: Database, tx: halfpast.Transaction, step: Step
) -> None:
    with db.engine.begin() as connection, halfpast.barrier(connection, tx):
        await step()
        _insert(connection, tx)


async def in_async_session(db: Database, tx: halfpast.Transaction, step: Step) -> None:
    async with (
        AsyncSession(db.async_engine) as session,
        halfpast.barrier(session, tx),
    ):
        await step()
        session.add(order(tx))


async def in_begun_async_session(
    db: Database, tx: halfpast.Transaction, step: Step
) -> None:
    async with (
        AsyncSession(db.async_engine) as session,
        session.begin(),
        halfpast.barrier(session, tx),
    ):
        await step()
        session.add(order(tx))


async def in_async_connection(
    db: Database, tx: halfpast.Transaction, step: Step
) -> None:
    async with (
        db.async_engine.connect() as connection,
        halfpast.barrier(connection, tx),
    ):
        await step()
        await connection.run_sync(_insert, tx)


async def in_begun_async_connection(
    db: Database, tx: halfpast.Transaction, step: Step
) -> None:
    async with (
        db.async_engine.begin() as connection,
        halfpast.barrier(connection, tx),
    ):
        await step()
        await connection.run_sync(_insert, tx)


PLACES: tuple[Local, ...] = (
    in_session,
    in_begun_session,
    in_connection,
    in_begun_connection,
    in_async_session,
    in_begun_async_session,
    in_async_connection,
    in_begun_async_connection,
)


def _insert(connection: Connection, tx: halfpast.Transaction) -> None:
    connection.execute(insert(Order), {"id": tx.id})
