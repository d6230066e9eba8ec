"""The barrier's rules: who commits, what is refused, what is left to the check-back."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import pytest
import pytest_asyncio
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import MetaData, create_engine, insert, select
from sqlalchemy.exc import IntegrityError, OperationalError
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker
from sqlalchemy.orm import Session, scoped_session, sessionmaker
from sqlalchemy.pool import PoolProxiedConnection
from tests.integration.client_barrier_places import (
    BARRIERS,
    Base,
    Database,
    Ledger,
    Order,
    asked,
    opened,
    order,
)

import halfpast

pytest_plugins = ["tests.integration.postgres_server"]
pytestmark = pytest.mark.asyncio
Answer = halfpast.CheckAnswer
Misuse = halfpast.TransactionMisuse
LocalOutcome = halfpast.LocalOutcome


@pytest_asyncio.fixture
async def db(tmp_path: Path) -> AsyncIterator[Database]:
    async with opened(f"sqlite:///{tmp_path}/orders.sqlite") as database:
        yield database


@pytest_asyncio.fixture
async def either(database_url: str) -> AsyncIterator[Database]:
    """SQLite, and PostgreSQL too."""
    async with opened(database_url) as database:
        yield database


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()


async def test_a_session_that_has_only_read_is_committed_by_the_barrier(
    either: Database, ledger: Ledger
) -> None:
    with Session(either.engine) as session:
        async with await ledger.begun() as tx:
            assert session.scalars(select(Order)).all() == []
            with halfpast.barrier(session, tx):
                session.add(order(tx))
            assert not session.in_transaction()
    assert (either.orders(), ledger.states[tx.id]) == (1, "committed")


async def test_a_session_without_autobegin_will_do(
    db: Database, ledger: Ledger
) -> None:
    async with await ledger.begun() as tx:
        session = Session(db.engine, autobegin=False)
        with session, halfpast.barrier(session, tx):
            session.add(order(tx))
    assert (db.orders(), ledger.states[tx.id]) == (1, "committed")


async def test_a_scoped_session_will_do(db: Database, ledger: Ledger) -> None:
    session = scoped_session(sessionmaker(db.engine))
    async with await ledger.begun() as tx:
        with halfpast.barrier(session, tx):
            session.add(order(tx))
    session.remove()
    assert (db.orders(), ledger.states[tx.id]) == (1, "committed")


async def test_the_local_transaction_must_end_within_the_block(
    either: Database, ledger: Ledger
) -> None:
    tx = await ledger.begun()

    async def produce() -> None:
        with Session(either.engine) as session, session.begin():
            async with tx:
                with halfpast.barrier(session, tx):
                    session.add(order(tx))

    with pytest.raises(Misuse, match="open still; commit it first"):
        await produce()
    assert (either.orders(), ledger.states[tx.id]) == (0, "prepared")
    assert either.check(asked(tx)) is Answer.ROLLED_BACK


@pytest.mark.parametrize("sends_late", [False, True])
async def test_the_caller_may_commit_within_the_barrier(
    either: Database, ledger: Ledger, sends_late: bool
) -> None:
    async with ledger.transaction() as tx:
        if not sends_late:
            await tx.send("t", 1)
        session = AsyncSession(either.async_engine)
        async with session, halfpast.barrier(session, tx):
            if sends_late:
                await tx.send("t", 1)
            session.add(order(tx))
            await session.commit()
            assert tx.local is LocalOutcome.COMMITTED
    assert (either.row(tx.id), ledger.states[tx.id]) == ("committed", "committed")


async def test_an_error_after_the_local_commit_does_not_roll_back(
    either: Database, ledger: Ledger
) -> None:
    tx = await ledger.begun()

    async def produce() -> None:
        async with tx:
            with Session(either.engine) as session, halfpast.barrier(session, tx):
                session.add(order(tx))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await produce()
    assert (either.orders(), ledger.states[tx.id]) == (1, "committed")


async def test_after_a_rollback_within_the_barrier_nothing_is_committed(
    db: Database, ledger: Ledger
) -> None:
    tx = await ledger.begun()

    async def produce() -> None:
        async with tx:
            with Session(db.engine) as session, halfpast.barrier(session, tx):
                session.rollback()
                session.add(order(tx))
                session.flush()

    with pytest.raises(Misuse, match="there is no row"):
        await produce()
    assert (db.orders(), ledger.states[tx.id]) == (0, "rolled_back")


async def test_a_local_transaction_may_be_tried_again(
    either: Database, ledger: Ledger
) -> None:
    async with await ledger.begun() as tx:
        for attempt in range(2):
            try:
                with Session(either.engine) as session, halfpast.barrier(session, tx):
                    session.add(order(tx))
                    session.flush()
                    if attempt == 0:
                        raise ZeroDivisionError
            except ZeroDivisionError:
                assert tx.local is LocalOutcome.ROLLED_BACK
    assert (either.orders(), ledger.states[tx.id]) == (1, "committed")


async def test_a_failed_flush_is_a_certain_rollback(
    either: Database, ledger: Ledger
) -> None:
    tx = await ledger.begun()

    async def produce() -> None:
        async with tx:
            with Session(either.engine) as session, halfpast.barrier(session, tx):
                session.execute(insert(Order), {"id": tx.id})
                session.add(order(tx))

    with pytest.raises(IntegrityError):
        await produce()
    assert (either.orders(), ledger.states[tx.id]) == (0, "rolled_back")


@pytest.mark.parametrize("in_session", [True, False])
async def test_a_closed_barrier_cannot_be_ignored(
    either: Database, ledger: Ledger, in_session: bool
) -> None:
    tx = await ledger.begun()
    either.check(asked(tx))

    def ignore_it() -> None:
        place = Session(either.engine) if in_session else either.engine.connect()
        with place, place.begin():
            with pytest.raises(halfpast.BarrierClosed):
                halfpast.barrier(place, tx).__enter__()
            if either.is_sqlite:  # PostgreSQL's transaction is lost already
                place.execute(insert(Order), {"id": tx.id})

    with pytest.raises(halfpast.BarrierClosed):
        ignore_it()
    assert either.orders() == 0
    assert tx.local is LocalOutcome.ROLLED_BACK
    # The engine is as good as new.
    async with await ledger.begun() as tx:
        with either.engine.connect() as connection, halfpast.barrier(connection, tx):
            connection.execute(insert(Order), {"id": tx.id})
    assert either.orders() == 1


async def test_a_later_transaction_of_the_same_connection_is_its_own(
    db: Database, ledger: Ledger
) -> None:
    with db.engine.connect() as connection:
        tx = await ledger.begun()
        with connection.begin() as local, halfpast.barrier(connection, tx):
            local.rollback()
        assert tx.local is LocalOutcome.ROLLED_BACK
        with connection.begin():
            connection.execute(insert(Order), {"id": "other"})
        assert tx.local is LocalOutcome.ROLLED_BACK
        tx = await ledger.begun()
        with connection.begin(), halfpast.barrier(connection, tx):
            connection.execute(insert(Order), {"id": tx.id})
        connection.execute(select(Order))
        connection.rollback()
        assert tx.local is LocalOutcome.COMMITTING  # nobody has seen its answer
        await tx.commit()


async def test_messages_after_the_barrier_need_a_row(
    db: Database, ledger: Ledger
) -> None:
    tx = ledger.transaction()

    async def produce() -> None:
        async with tx:
            with db.engine.begin() as connection:
                with halfpast.barrier(connection, tx):
                    connection.execute(insert(Order), {"id": "1"})
                await tx.send("t", 1)

    with pytest.raises(Misuse, match="within the block"):
        await produce()
    assert db.orders() == 0
    tx = ledger.transaction()
    async with tx:
        with Session(db.engine) as session, session.begin():
            with halfpast.barrier(session, tx):
                session.add(Order(id="1"))
            await tx.send("t", 1)  # a session tells before it commits
    assert (db.row(tx.id), ledger.states[tx.id]) == ("committed", "committed")


@pytest.mark.parametrize("happened", [True, False])
async def test_a_commit_that_fails_is_left_to_the_check(
    either: Database, ledger: Ledger, happened: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    tx = await ledger.begun()
    commit = either.engine.dialect.do_commit

    def lose(connection: PoolProxiedConnection) -> None:
        if happened:
            commit(connection)
        raise OperationalError("COMMIT", None, OSError("connection lost"))

    async def produce() -> None:
        async with tx:
            with Session(either.engine) as session, halfpast.barrier(session, tx):
                session.add(order(tx))

    with monkeypatch.context() as patch:
        patch.setattr(either.engine.dialect, "do_commit", lose)
        with pytest.raises(OperationalError, match="connection lost"):
            await produce()
    assert (tx.local, ledger.states[tx.id]) == (LocalOutcome.IN_DOUBT, "prepared")
    if happened:  # trying again must not take our own row for a check-back's
        with pytest.raises(halfpast.TransactionInDoubt):
            await produce()
        assert ledger.states[tx.id] == "prepared"
    answer = Answer.COMMITTED if happened else Answer.ROLLED_BACK
    assert either.check(asked(tx)) is answer
    assert either.orders() == happened


@pytest.mark.parametrize("flushes", [False, True])
async def test_a_cancelled_local_transaction_is_rolled_back(
    either: Database, ledger: Ledger, flushes: bool
) -> None:
    tx = await ledger.begun()
    working = asyncio.Event()

    async def produce() -> None:
        session = AsyncSession(either.async_engine)
        async with tx, session, halfpast.barrier(session, tx):
            session.add(order(tx))
            if flushes:
                await session.flush()
            working.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(produce())
    await working.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (either.orders(), ledger.states[tx.id]) == (0, "rolled_back")


async def test_a_cancelled_commit_is_left_to_the_check(
    either: Database, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """COMMIT has been sent and its answer is awaited when the task is cancelled."""
    tx = await ledger.begun()
    dialect = either.async_engine.sync_engine.dialect
    commit = dialect.do_commit

    def commit_and_be_cancelled(connection: PoolProxiedConnection) -> None:
        commit(connection)
        raise asyncio.CancelledError

    async def produce() -> None:
        session = AsyncSession(either.async_engine)
        async with tx, session, halfpast.barrier(session, tx):
            session.add(order(tx))

    with monkeypatch.context() as patch:
        patch.setattr(dialect, "do_commit", commit_and_be_cancelled)
        with pytest.raises(asyncio.CancelledError):
            await asyncio.create_task(produce())
    assert (tx.local, ledger.states[tx.id]) == (LocalOutcome.IN_DOUBT, "prepared")
    assert await either.check_async(asked(tx)) is Answer.COMMITTED


async def test_a_session_in_an_outer_transaction_has_not_committed(
    db: Database, ledger: Ledger
) -> None:
    tx = await ledger.begun()
    with db.engine.connect() as connection:
        with connection.begin():
            with Session(connection) as session, halfpast.barrier(session, tx):
                session.add(order(tx))
            with pytest.raises(Misuse, match="open still"):
                await tx.commit()
        assert tx.local is LocalOutcome.COMMITTING
        await tx.commit()
    assert db.orders() == 1


async def test_what_a_barrier_cannot_hold_is_refused(
    db: Database, ledger: Ledger
) -> None:
    tx = await ledger.begun()
    with Session(db.engine) as session:
        with (
            session.begin(),
            session.begin_nested(),
            pytest.raises(Misuse, match="savepoint"),
        ):
            halfpast.barrier(session, tx).__enter__()
        with halfpast.barrier(session, tx):
            with pytest.raises(Misuse, match="has a barrier already"):
                halfpast.barrier(session, await ledger.begun()).__enter__()
            with pytest.raises(Misuse, match="has had its barrier"):
                halfpast.barrier(session, tx).__enter__()
            with pytest.raises(Misuse):
                await tx.rollback()
        with pytest.raises(Misuse, match="has had its barrier"):
            halfpast.barrier(session, tx).__enter__()
    automatic = db.engine.execution_options(isolation_level="AUTOCOMMIT")
    with automatic.connect() as connection, pytest.raises(Misuse, match="AUTOCOMMIT"):
        halfpast.barrier(connection, await ledger.begun()).__enter__()
    async with AsyncSession(db.async_engine) as asynchronous:
        with pytest.raises(TypeError, match="async with"):
            halfpast.barrier(asynchronous, tx).__enter__()


async def test_checks_take_engines_and_makers_of_sessions(
    either: Database, ledger: Ledger
) -> None:
    tx = await ledger.begun()
    maker = sessionmaker(either.engine, autobegin=False)
    assert halfpast.barrier_check(maker)(asked(tx)) is Answer.ROLLED_BACK
    async_maker = async_sessionmaker(either.async_engine)
    assert await halfpast.barrier_check(async_maker)(asked(tx)) is Answer.ROLLED_BACK
    assert either.row(tx.id) == "rolled_back"


async def test_a_database_that_is_not_there_is_no_answer(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path}/no/such/folder.sqlite")
    with pytest.raises(OperationalError):
        halfpast.barrier_check(engine)(halfpast.TransactionCheck(id="x"))


async def test_the_table_suits_alembic(db: Database) -> None:
    metadata = MetaData()
    table = halfpast.barrier_table(metadata, "sent", "main")
    assert halfpast.barrier_table(metadata, "sent", "main") is table
    assert halfpast.barrier_table().name == "halfpast_barrier"
    with db.engine.connect() as connection:
        context = MigrationContext.configure(connection)
        assert compare_metadata(context, Base.metadata) == []
        changes = compare_metadata(context, metadata)
        assert [c[1].name for c in changes if c[0] == "add_table"] == ["sent"]


async def test_the_table_may_have_another_name(db: Database, ledger: Ledger) -> None:
    metadata = MetaData()
    table = halfpast.barrier_table(metadata, "sent")
    metadata.create_all(db.engine)
    async with await ledger.begun() as tx:
        session = Session(db.engine)
        with session, halfpast.barrier(session, tx, table=table):
            session.add(order(tx))
    assert db.row(tx.id) is None
    check = halfpast.barrier_check(db.engine, table=table)
    assert check(asked(tx)) is Answer.COMMITTED


async def test_old_rows_are_purged_and_then_nothing_is_decided_about_them(
    either: Database,
) -> None:
    now = datetime.now(UTC)
    ids: dict[int, str] = {}
    with either.engine.begin() as connection:
        for age in (1, 29, 31, 400):
            began = now - timedelta(days=age)
            ids[age] = str(UUID(int=int(began.timestamp() * 1000) << 80 | age))
            row = {
                "transaction_id": ids[age],
                "outcome": "committed",
                "producer_group": "orders",
                "created_at": began,
            }
            connection.execute(BARRIERS.insert(), row)
        month = timedelta(days=30)
        assert halfpast.purge_barrier(connection, month) == 2
        assert halfpast.purge_barrier(connection, month) == 0
        with pytest.raises(ValueError, match="1 day"):
            halfpast.purge_barrier(connection, timedelta(hours=1))
    check = halfpast.barrier_check(either.engine, kept=month)
    answers = {
        age: check(
            halfpast.TransactionCheck(id=name, begun_at=now - timedelta(days=age))
        )
        for age, name in ids.items()
    }
    assert answers == {
        1: Answer.COMMITTED,
        29: Answer.COMMITTED,
        31: Answer.UNKNOWN,
        400: Answer.UNKNOWN,
    }
    assert either.row(ids[400]) is None
