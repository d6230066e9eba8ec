"""Brings the metadata database to the schema of this release, once, at start.

Any number of processes may start at the same time: one upgrades, in one
transaction, while the others wait and then find nothing to do. On PostgreSQL they
wait for an advisory lock; on SQLite for the file `metadata.sqlite.lock` beside the
database, since its switch to WAL fails at once ("database is locked", seen once in
60 starts of six processes) where the rest of it would wait.
"""

import fcntl
import io
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from sqlalchemy import URL, Connection, Engine

from halfpast_api.metadata.database import (
    is_sqlite,
    migration_engine,
    parse_url,
    unavailable,
    use_wal,
)
from halfpast_api.metadata.errors import MetadataUnavailable, MigrationsMissing
from halfpast_api.metadata.revisions import read_revisions, revision_of

LOCK_KEY = 7_308_604_828_165_337_956  # any number will do if nobody else has it

# Alembic keeps the running migration in module globals (`alembic.op`), so a
# process runs one at a time, whatever the database.
_ALEMBIC = threading.Lock()


def migrate(
    url: str | URL, *, lock_wait_s: float = 30.0, scripts: Path | None = None
) -> str:
    """Upgrade the database to the newest revision, make it if it is missing.

    Returns the revision. Blocks while another process upgrades, for `lock_wait_s`
    at most. Raises MetadataUnavailable, NewerSchema and MigrationFailed; after each
    of them the database is as it was. `scripts` is for tests.
    """
    where = parse_url(url) if isinstance(url, str) else url
    folder = scripts or scripts_folder()
    engine = migration_engine(where)
    try:
        with _ALEMBIC, _connected(engine, where, lock_wait_s) as connection:
            return _bring_up(connection, where, folder)
    finally:
        engine.dispose()


def scripts_folder() -> Path:
    """Where the alembic scripts are: in the package, or in the repository."""
    package = Path(__file__).parent.parent
    places = (package / "_migrations", package.parent.parent / "migrations")
    for place in places:
        if (place / "env.py").is_file():
            return place
    raise MigrationsMissing(tuple(map(str, places)))


def _bring_up(connection: Connection, url: URL, scripts: Path) -> str:
    newest = read_revisions(scripts).newest
    if newest and revision_of(connection) == newest:
        return newest
    from halfpast_api.metadata.upgrade import upgrade  # alembic: see `revisions.py`

    return upgrade(connection, url, scripts)


@contextmanager
def _connected(
    engine: Engine, url: URL, lock_wait_s: float
) -> Generator[Connection, None, None]:
    """A transaction that no other process has at the same time."""
    if is_sqlite(url):
        with _file_lock(Path(f"{url.database}.lock"), lock_wait_s):
            use_wal(url)
            with unavailable(), engine.begin() as connection:
                yield connection
    else:
        with unavailable(), engine.begin() as connection:
            wait_ms = int(lock_wait_s * 1000)
            connection.exec_driver_sql(f"SET LOCAL lock_timeout = {wait_ms}")
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({LOCK_KEY})")
            yield connection


@contextmanager
def _file_lock(path: Path, wait_s: float) -> Generator[None, None, None]:
    """Held by one process at a time; the kernel frees it when that one dies."""
    try:
        lock = path.open("ab")
    except OSError as error:
        raise MetadataUnavailable(f"{path}: {error.strerror}") from error
    with lock:
        deadline = time.monotonic() + wait_s
        while not _try_lock(lock):
            if time.monotonic() > deadline:
                raise MetadataUnavailable(f"another process holds {path}")
            time.sleep(0.02)
        yield


def _try_lock(lock: io.BufferedWriter) -> bool:
    with suppress(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False
