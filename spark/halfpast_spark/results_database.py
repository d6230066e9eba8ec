"""The database that the results go to: the one of the metadata, by its URL.

The jobs run where nothing else of the suite is installed (`spark-submit`), so this
needs only SQLAlchemy, and psycopg for PostgreSQL. Tables are not made here: whoever
serves the API migrates the database, and so does `halfpast audit`.
"""

import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from sqlalchemy import (
    URL,
    Connection,
    Engine,
    create_engine,
    event,
    exc,
    make_url,
    select,
)
from sqlalchemy.pool import NullPool

from .job_errors import ResultsUnavailable
from .result_tables import RESULTS, runs

LOCK_WAIT_S = 30
READS_ONLY = "halfpast_reads_only"
CONNECT_TIMEOUT_S = 5


class ResultsDatabase:
    """Where results are written to and read from. One connection at a time; none is
    kept open, since a job works for minutes between two uses."""

    def __init__(self, url: str | URL, *, lock_wait_s: float = LOCK_WAIT_S) -> None:
        """Raises ResultsUnavailable for a URL that cannot be meant."""
        self.url, self._engine = _engine(url, lock_wait_s)

    def check(self) -> None:
        """Raises ResultsUnavailable if the results could not be written now: better
        before an hour's work than after it."""
        with self.transaction() as connection:
            for table in (*RESULTS, runs):
                connection.execute(select(table).limit(0))

    @contextmanager
    def snapshot(self) -> Generator[Connection, None, None]:
        """All that is read is of one moment, and nobody who writes waits for it. Raises
        ResultsUnavailable."""
        try:
            with self._engine.connect() as plain:
                connection = plain.execution_options(**{READS_ONLY: True})
                with connection.begin():
                    yield connection
        except (exc.DBAPIError, exc.TimeoutError) as error:
            raise ResultsUnavailable(self.url, _reason(error)) from error

    @contextmanager
    def transaction(self) -> Generator[Connection, None, None]:
        """All of it or nothing. The write lock is taken at once, so that what was
        read here is still so when it is written. Raises ResultsUnavailable."""
        try:
            with self._engine.begin() as connection:
                yield connection
        except exc.IntegrityError:
            raise  # two rows of one window: a defect of ours
        except (exc.DBAPIError, exc.TimeoutError) as error:
            raise ResultsUnavailable(self.url, _reason(error)) from error


def _engine(url: str | URL, lock_wait_s: float) -> tuple[str, Engine]:
    try:
        parsed = make_url(url)
    except (exc.ArgumentError, ValueError):  # not shown whole: it may hold a password
        raise ResultsUnavailable(
            f"{str(url).partition(':')[0]}:…", "this is not a URL of a database"
        ) from None
    shown = parsed.render_as_string(hide_password=True)
    if parsed.drivername in {"sqlite", "sqlite+pysqlite"} and parsed.database:
        path = Path(parsed.database).absolute()
        engine = create_engine(
            "sqlite://", creator=lambda: _sqlite(path, lock_wait_s), poolclass=NullPool
        )
        event.listen(engine, "begin", _begin)
        return shown, engine
    if parsed.drivername in {"postgresql", "postgres", "postgresql+psycopg"}:
        return shown, _postgres(shown, parsed)
    raise ResultsUnavailable(shown, "give an SQLite file, or PostgreSQL")


def _postgres(shown: str, url: URL) -> Engine:
    arguments = {
        "connect_timeout": CONNECT_TIMEOUT_S,
        "tcp_user_timeout": 30_000,
        "application_name": "halfpast-audit",
    }
    wanted = {key: it for key, it in arguments.items() if key not in url.query}
    try:
        return create_engine(
            url.set(drivername="postgresql+psycopg"),
            connect_args={**wanted, "prepare_threshold": None},
            poolclass=NullPool,
        )
    except ModuleNotFoundError as error:
        reason = f"{error.name} is missing (pip install 'halfpast[postgres]')"
        raise ResultsUnavailable(shown, reason) from error


def _sqlite(path: Path, lock_wait_s: float) -> sqlite3.Connection:
    """An existing file only; the driver's own transactions would begin too late."""
    return sqlite3.connect(
        f"file:{quote(str(path))}?mode=rw",
        uri=True,
        timeout=lock_wait_s,
        isolation_level=None,
        check_same_thread=False,
    )


def _begin(connection: Connection) -> None:
    reads_only = connection.get_execution_options().get(READS_ONLY)
    connection.exec_driver_sql("BEGIN" if reads_only else "BEGIN IMMEDIATE")


def _reason(error: Exception) -> str:
    said = error.orig if isinstance(error, exc.DBAPIError) else error
    text = " ".join(str(said).split())[:300]
    if "no such table" in text or "UndefinedTable" in type(said).__name__:
        return f"{text} (it has not been migrated: any start of Halfpast does it)"
    if "unable to open database file" in text:
        return f"{text} (there is no such file, or it may not be written)"
    return text
