"""The barrier: your local transaction and the check-back cannot both win.

A check-back that finds no trace of a transaction in your database cannot know whether
it failed or is merely slow. So it leaves a row that says `rolled_back`, and the
barrier adds one that says `committed` to your local transaction, under the same
primary key. Whoever comes second fails: a slow local transaction aborts with
BarrierClosed, and a late check-back finds that it was committed.

    async with client.transaction("orders") as tx:
        await tx.send("order-created", {"id": 7})
        async with halfpast.barrier(session, tx):     # begins, adds the row
            session.add(Order(id=7))                  # commits when left cleanly

Who commits. If you have begun the transaction yourself (`session.begin()`, or any
transaction of a Connection), it stays yours, but must end within the block of `tx`:

        async with session.begin(), halfpast.barrier(session, tx):
            session.add(Order(id=7))

Otherwise the barrier commits when its block is left cleanly and rolls back when an
error leaves it, together with what the Session did before.

When the row is added. At once if `tx` has sent something. A check-back then waits
for the local transaction, or hears `unknown`. Otherwise right before the commit, so
that you can send what needs a generated key; a check-back before that wins.

SQLAlchemy is imported only when one of these functions is called.
"""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from importlib.util import find_spec
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, overload

from halfpast.request_body import milliseconds
from halfpast.transaction import Transaction
from halfpast.transaction_model import CheckAnswer, TransactionCheck

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine, MetaData, Table
    from sqlalchemy.ext.asyncio import (
        AsyncConnection,
        AsyncEngine,
        AsyncSession,
        async_scoped_session,
        async_sessionmaker,
    )
    from sqlalchemy.orm import Session, scoped_session, sessionmaker

    from halfpast.local_transaction import LocalTransaction
    from halfpast.sync_transaction import SyncTransaction

    SyncPlace = Session | Connection | scoped_session[Any]
    AsyncPlace = AsyncSession | AsyncConnection | async_scoped_session[Any]

AGE_MIN = timedelta(days=1)
LOCK_WAIT = timedelta(seconds=2)


class Barrier:
    """See `barrier`."""

    def __init__(
        self,
        place: "SyncPlace | AsyncPlace",
        tx: "Transaction | SyncTransaction",
        table: "Table | None" = None,
    ) -> None:
        given: Any = place
        # A scoped session stands for one that depends on where we are.
        self._place: Any = given() if hasattr(given, "registry") else given
        self._tx = tx if isinstance(tx, Transaction) else tx.asynchronous
        self._table = table
        self._local: LocalTransaction | None = None

    def __enter__(self) -> Self:
        if self._is_async:
            raise TypeError("use 'async with' for the barrier of an asynchronous place")
        self._begin(self._place)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._finish(self._place, error is not None)

    async def __aenter__(self) -> Self:
        if self._is_async:
            await self._place.run_sync(self._begin)
        else:
            self._begin(self._place)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._is_async:
            await self._place.run_sync(self._finish, error is not None)
        else:
            self._finish(self._place, error is not None)

    @property
    def _is_async(self) -> bool:
        return hasattr(self._place, "run_sync")

    def _begin(self, place: "Session | Connection") -> None:
        from halfpast.barrier_row import DEFAULT_TABLE
        from halfpast.local_transaction import LocalTransaction

        table = DEFAULT_TABLE if self._table is None else self._table
        local = LocalTransaction(place, self._tx, table)
        local.begin()
        self._local = local

    def _finish(self, place: "Session | Connection", failed: bool) -> None:
        assert self._local is not None
        self._local.finish(failed=failed)


def barrier(
    place: "SyncPlace | AsyncPlace",
    tx: "Transaction | SyncTransaction",
    *,
    table: "Table | None" = None,
) -> Barrier:
    """Let a late local commit abort if a check-back was faster: BarrierClosed.

    `place` is a Session or Connection, asynchronous or not; `async with` works for
    all (a synchronous one then blocks the event loop), `with` for synchronous ones.
    `table` is your `barrier_table` unless it has the default name. See the module's
    text for who commits, and when.
    """
    _need_sqlalchemy()
    return Barrier(place, tx, table)


@overload
def barrier_check(
    source: "AsyncEngine | async_sessionmaker[Any]",
    *,
    table: "Table | None" = None,
    kept: timedelta | None = None,
    lock_wait: timedelta = LOCK_WAIT,
) -> Callable[[TransactionCheck], Awaitable[CheckAnswer]]: ...


@overload
def barrier_check(
    source: "Engine | sessionmaker[Any]",
    *,
    table: "Table | None" = None,
    kept: timedelta | None = None,
    lock_wait: timedelta = LOCK_WAIT,
) -> Callable[[TransactionCheck], CheckAnswer]: ...


def barrier_check(
    source: "Engine | sessionmaker[Any] | AsyncEngine | async_sessionmaker[Any]",
    *,
    table: "Table | None" = None,
    kept: timedelta | None = None,
    lock_wait: timedelta = LOCK_WAIT,
) -> (
    Callable[[TransactionCheck], CheckAnswer]
    | Callable[[TransactionCheck], Awaitable[CheckAnswer]]
):
    """A check function for a TransactionalProducer that answers from barriers' rows.

    Where there is no row it adds one that says `rolled_back`, so that a later local
    commit aborts. So every transaction of the group must use the barrier. It answers
    `unknown` while a local transaction is open; on PostgreSQL it waits `lock_wait`
    for that to end, on SQLite as long as the connection's `timeout` says.

    If you purge rows give `kept`, the age that you purge at: about an older
    transaction it never decides, since its row may be gone.
    """
    _need_sqlalchemy()
    from sqlalchemy import Engine
    from sqlalchemy.orm import Session, sessionmaker

    from halfpast.barrier_row import DEFAULT_TABLE, settle

    barriers = DEFAULT_TABLE if table is None else table
    lock_wait_ms = max(1, milliseconds(lock_wait))  # 0 would mean for ever
    if isinstance(source, Engine | sessionmaker):
        open_session = _opener(source, Session)

        def check(question: TransactionCheck) -> CheckAnswer:
            with open_session() as session:
                return settle(session, barriers, question, kept, lock_wait_ms)

        return check

    from sqlalchemy.ext.asyncio import AsyncSession

    open_async_session = _opener(source, AsyncSession)

    async def check_async(question: TransactionCheck) -> CheckAnswer:
        async with open_async_session() as session:
            answer: CheckAnswer = await session.run_sync(
                settle, barriers, question, kept, lock_wait_ms
            )
            return answer

    return check_async


def barrier_table(
    metadata: "MetaData | None" = None,
    name: str = "halfpast_barrier",
    schema: str | None = None,
) -> "Table":
    """The barriers' table, to be created in the database that your work is in.

    Give your own `metadata` (as of your declarative base), and alembic's autogenerate
    and `create_all` see it. With another name or schema, pass the table to the other
    functions here.
    """
    _need_sqlalchemy()
    from halfpast.barrier_row import make_table

    return make_table(metadata, name, schema)


def purge_barrier(
    place: "Session | Connection",
    older_than: timedelta,
    *,
    table: "Table | None" = None,
) -> int:
    """Delete old rows; returns how many. You commit.

    A row must outlive every question about its transaction, or a committed one could
    be taken for rolled back. So `older_than` must be more than the longest time that
    a transaction can be open or parked with you, and `barrier_check` must know it as
    `kept`; at least a day. With an asynchronous place: `await
    connection.run_sync(halfpast.purge_barrier, timedelta(days=30))`.
    """
    if older_than < AGE_MIN:
        raise ValueError(f"rows must be kept for {AGE_MIN} at least")
    _need_sqlalchemy()
    from halfpast.barrier_row import DEFAULT_TABLE, connection_of, delete_older

    barriers = DEFAULT_TABLE if table is None else table
    return delete_older(connection_of(place, barriers), barriers, older_than)


def _opener(source: Any, kind: type[Any]) -> Callable[[], Any]:
    """Sessions from an engine, or as the caller makes them."""
    return source if hasattr(source, "kw") else lambda: kind(source)


def _need_sqlalchemy() -> None:
    if find_spec("sqlalchemy") is None:
        raise ImportError(
            "halfpast's barrier needs SQLAlchemy 2: pip install 'sqlalchemy>=2.0.36'"
        )
