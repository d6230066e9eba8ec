"""The SQL database behind the metadata: its URL, its connection, its absence.

One connection, used from one thread. Transactions that write take the write lock
as they begin, on SQLite (`BEGIN IMMEDIATE`) as on PostgreSQL (the row of
`halfpast_changes`), so they never fail half-way for a lock.
"""

import os
import socket
import sqlite3
import threading
from collections.abc import Generator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import URL, Connection, Engine, create_engine, event, exc, make_url
from sqlalchemy.pool import NullPool, QueuePool

from halfpast_api.metadata.errors import MetadataUnavailable, UnsupportedUrl

CONNECT_TIMEOUT_S = 2  # per address; libpq knows no shorter one
_WRITING = "halfpast_writing"


def parse_url(text: str) -> URL:
    """The database that `text` names: SQLite in a file, or PostgreSQL by psycopg.

    A relative SQLite path counts from the folder in which this is called.
    """
    try:
        url = make_url(text)
    except (exc.ArgumentError, ValueError):  # not shown whole: it may hold a password
        raise UnsupportedUrl(f"{text.partition(':')[0]}:…", "not a URL") from None
    if url.drivername in {"postgresql", "postgres", "postgresql+psycopg"}:
        return url.set(drivername="postgresql+psycopg")
    if url.drivername not in {"sqlite", "sqlite+pysqlite"}:
        raise UnsupportedUrl(show(url), f"{url.drivername} is not supported")
    if not url.database or url.database == ":memory:" or url.query:
        raise UnsupportedUrl(show(url), "SQLite must be a file, without options")
    return url.set(database=str(Path(url.database).absolute()))


def show(url: URL) -> str:
    """The URL for people, without passwords."""
    secrets = [name for name in url.query if "password" in name]
    return url.difference_update_query(secrets).render_as_string(hide_password=True)


def source_of(url: URL) -> str:
    """Which database it is, whoever asks and however: no user, no password."""
    anonymous = URL.create(
        url.drivername,
        host=url.host,
        port=url.port,
        database=url.database,
        query=url.query,
    )
    return show(anonymous)


def is_sqlite(url: URL) -> bool:
    return url.get_backend_name() == "sqlite"


def migration_engine(url: URL) -> Engine:
    """An engine that makes a missing SQLite file, and sets no time limits."""
    if is_sqlite(url):
        engine = create_engine(
            "sqlite://", creator=lambda: _sqlite(url, "rwc"), poolclass=NullPool
        )
        event.listen(engine, "begin", _begin_sqlite)
        return engine.execution_options(**{_WRITING: True})
    return _postgres(url, poolclass=NullPool)


def use_wal(url: URL) -> None:
    """Make the SQLite file, if it is missing, so that readers and a writer never
    block each other; the file remembers it.
    """
    try:
        with closing(_sqlite(url, "rwc")) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
    except sqlite3.Error as error:
        raise MetadataUnavailable(str(error)) from error


class Database:
    """The database in daily use. `statement_ms` bounds every wait within it."""

    def __init__(self, url: URL, *, statement_ms: int = 3000) -> None:
        self._statement_ms = statement_ms
        self._lever = _Lever()
        if is_sqlite(url):
            assert url.database is not None
            self._engine = _serving_sqlite(url, Path(url.database), statement_ms)
        else:
            self._engine = _postgres(
                url,
                poolclass=QueuePool,
                pool_size=1,
                max_overflow=0,
                pool_pre_ping=True,
            )
            event.listen(self._engine, "begin", self._begin_postgres)
            event.listen(self._engine, "connect", self._lever.hold)
            event.listen(self._engine, "close", self._lever.release)

    @contextmanager
    def reading(self) -> Generator[Connection, None, None]:
        """A transaction that changes nothing. Raises MetadataUnavailable."""
        with unavailable(), self._engine.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def writing(self) -> Generator[Connection, None, None]:
        """A transaction, committed unless an error leaves it.

        Raises MetadataUnavailable; where that came from the commit itself,
        nobody knows whether it has happened.
        """
        with unavailable(), self._engine.connect() as connection:
            connection = connection.execution_options(**{_WRITING: True})
            with connection.begin():
                yield connection

    def interrupt(self) -> None:
        """Break the connection, so that a thread that hangs on it goes on.

        For any thread. It is what helps against a server that has stopped in the
        middle of an answer; the next use connects anew.
        """
        self._lever.pull()

    def dispose(self) -> None:
        self._engine.dispose()

    def _begin_postgres(self, connection: Connection) -> None:
        # Set for each transaction, since a pooler may hand out another session.
        wait = f"SET LOCAL statement_timeout = {self._statement_ms}"
        connection.exec_driver_sql(wait)


@contextmanager
def unavailable() -> Generator[None, None, None]:
    """Raise MetadataUnavailable for what the database, not our SQL, did wrong."""
    try:
        yield
    except (exc.IntegrityError, exc.DataError):
        raise  # a bug of ours: nothing else may write these tables
    except (exc.DBAPIError, exc.TimeoutError, exc.NoResultFound) as error:
        raise MetadataUnavailable(reason_of(error)) from error


def reason_of(error: Exception) -> str:
    """What the driver said, on one line and not too long."""
    said = error.orig if isinstance(error, exc.DBAPIError) else error
    return " ".join(str(said).split())[:300]


class _Lever:
    """Our own handle on the socket of the one connection that is open.

    A duplicate, because another thread may not touch the driver's descriptor: it
    may be closed, and be another file, by then.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None

    def hold(self, connection: Any, _record: object) -> None:
        self._swap(socket.socket(fileno=os.dup(connection.fileno())))

    def release(self, _connection: object, _record: object) -> None:
        self._swap(None)

    def pull(self) -> None:
        with self._lock, suppress(OSError):
            if self._socket is not None:
                self._socket.shutdown(socket.SHUT_RDWR)

    def _swap(self, new: socket.socket | None) -> None:
        with self._lock:
            if self._socket is not None:
                self._socket.close()
            self._socket = new


def _postgres(url: URL, **options: Any) -> Engine:
    """`connect_timeout` of the URL wins. No prepared statements: for poolers."""
    arguments = {
        "connect_timeout": CONNECT_TIMEOUT_S,
        "tcp_user_timeout": 5000,
        "keepalives_idle": 5,
        "application_name": "halfpast",
    }
    wanted = {key: it for key, it in arguments.items() if key not in url.query}
    try:
        return create_engine(
            url,
            connect_args={**wanted, "prepare_threshold": None},
            hide_parameters=True,  # some are secrets, and errors are logged
            **options,
        )
    except ModuleNotFoundError as error:
        reason = f"{error.name} is missing (pip install 'halfpast[postgres]')"
        raise UnsupportedUrl(show(url), reason) from error


def _serving_sqlite(url: URL, path: Path, busy_ms: int) -> Engine:
    engine = create_engine(
        "sqlite://",
        creator=lambda: _sqlite(url, "rw", busy_ms),
        hide_parameters=True,
        poolclass=QueuePool,
        pool_size=1,
        max_overflow=0,
    )

    def identity() -> tuple[int, int] | None:
        try:
            status = os.stat(path)
        except OSError:
            return None
        return status.st_dev, status.st_ino

    def connect(_connection: object, record: Any) -> None:
        record.info["identity"] = identity()

    def checkout(_connection: object, record: Any, _proxy: object) -> None:
        # Or writes would go into a file that was deleted or replaced.
        if record.info["identity"] != identity():
            raise exc.DisconnectionError("the file is another one now")

    event.listen(engine, "begin", _begin_sqlite)
    event.listen(engine, "connect", connect)
    event.listen(engine, "checkout", checkout)
    return engine


def _sqlite(url: URL, mode: str, busy_ms: int = 30_000) -> sqlite3.Connection:
    """Without the driver's own transactions, which begin too late."""
    assert url.database is not None
    connection = sqlite3.connect(
        f"file:{quote(url.database)}?mode={mode}",
        uri=True,
        timeout=busy_ms / 1000,
        isolation_level=None,
        check_same_thread=False,  # closing may come from another one
    )
    try:
        connection.execute("PRAGMA synchronous = FULL")  # durable at commit
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _begin_sqlite(connection: Connection) -> None:
    is_writing = connection.get_execution_options().get(_WRITING, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if is_writing else "BEGIN")
