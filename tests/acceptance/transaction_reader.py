"""Somebody who types what README.md says, with a database of their own.

    python -m tests.acceptance.transaction_reader after_commit ... < snippet

runs a snippet in a process that is killed when the local transaction gets there.
"""

import argparse
import ast
import asyncio
import inspect
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from sqlalchemy import Engine, create_engine, event, select
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

import halfpast

KILLED = -signal.SIGKILL


class Base(DeclarativeBase):
    """The reader's own tables."""


class Order(Base):
    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(primary_key=True)


BARRIERS = halfpast.barrier_table(Base.metadata)


class Reader:
    """`path` is the SQLite file of the reader; sessions are async ones or not."""

    def __init__(self, address: str, path: str, *, is_async: bool) -> None:
        self.address = address
        self._path = path
        self._is_async = is_async
        self._sync_engine = create_engine(f"sqlite:///{path}")
        self.engine: Engine | AsyncEngine = self._sync_engine
        if is_async:
            self.engine = create_async_engine(f"sqlite+aiosqlite:///{path}")
        Base.metadata.create_all(self._sync_engine)

    async def run(self, snippet: str, **names: object) -> None:
        """As the body of a coroutine that has a client and a session."""
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        code = compile(snippet, "README.md", "exec", flags=flags)
        async with halfpast.Client(self.address) as client, self._session() as session:
            scope: dict[str, Any] = {
                "halfpast": halfpast,
                "timedelta": timedelta,
                "client": client,
                "session": session,
                "engine": self.engine,
                "Order": Order,
                **names,
            }
            running = eval(code, scope)
            assert inspect.isawaitable(running)
            await running

    def run_and_die(self, snippet: str, moment: str) -> int:
        """The same in a process of its own, which is killed at this event of the
        session; its exit status."""
        module = "tests.acceptance.transaction_reader"
        words = [moment, self.address, self._path, *["--async"] * self._is_async]
        done = subprocess.run(
            [sys.executable, "-m", module, *words],
            input=snippet,
            text=True,
            timeout=30,
            check=False,
        )
        return done.returncode

    def orders(self) -> list[int]:
        with Session(self._sync_engine) as session:
            return [*session.scalars(select(Order.id))]

    async def close(self) -> None:
        self._sync_engine.dispose()
        if isinstance(self.engine, AsyncEngine):
            await self.engine.dispose()

    @asynccontextmanager
    async def _session(self) -> AsyncGenerator[Session | AsyncSession]:
        if isinstance(self.engine, AsyncEngine):
            async with AsyncSession(self.engine) as session:
                yield session
        else:
            with Session(self.engine) as session:
                yield session


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("moment", choices=("before_commit", "after_commit"))
    parser.add_argument("address")
    parser.add_argument("path")
    parser.add_argument("--async", dest="is_async", action="store_true")
    given = parser.parse_args()
    reader = Reader(given.address, given.path, is_async=given.is_async)

    def die(_: Session) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    event.listen(Session, given.moment, die)
    asyncio.run(reader.run(sys.stdin.read()))


if __name__ == "__main__":
    main()
