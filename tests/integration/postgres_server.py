"""A real PostgreSQL for tests, started on first use and stopped at the end.

A test module says `pytest_plugins = ["tests.integration.postgres_server"]` and asks
for `postgres` (the server) or `database_url` (a new, empty database, once on SQLite
and once on PostgreSQL). The server listens on a unix socket in its own folder only,
and syncs nothing. Debian's package is installed if there is none and we are root.

PYTEST_DONT_REWRITE: tests import its names before it is a plugin.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.unavailable import unavailable

from halfpast_loadtest.errors import PostgresUnavailable
from halfpast_loadtest.postgres_process import (
    PostgresServer,
    find_binaries,
    install,
    postgres_running,
)

__all__ = ["PostgresServer"]


@pytest.fixture(scope="session")
def _postgres_session() -> Iterator[PostgresServer]:
    if find_binaries() is None:
        _install()
    # Not in pytest's own folder, which other users may not enter.
    with postgres_running() as server:
        yield server


@pytest.fixture
def postgres(_postgres_session: PostgresServer) -> PostgresServer:
    """The server, running, whatever an earlier test has done to it."""
    _postgres_session.start()
    return _postgres_session


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database, or a place for one."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/metadata.sqlite"
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.new_database()


def _install() -> None:
    """Skip the test where there is none and none can be had; fail it in CI."""
    try:
        install()
    except PostgresUnavailable as error:
        unavailable(str(error))
