"""A real PostgreSQL for tests, started on first use and stopped at the end.

A test module says `pytest_plugins = ["tests.integration.postgres_server"]` and asks
for `postgres` (the server) or `database_url` (a new, empty database, once on SQLite
and once on PostgreSQL). The server listens on a unix socket in its own folder only,
and syncs nothing. Debian's package is installed if there is none and we are root.

PYTEST_DONT_REWRITE: tests import its names before it is a plugin.
"""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import psutil
import psycopg
import pytest

START_TIMEOUT_S = 30.0


class PostgresServer:
    """One server on a folder of its own; it may be stopped and started again."""

    def __init__(self, binaries: Path, folder: Path) -> None:
        self._binaries = binaries
        self._folder = folder
        self._url = f"postgresql://halfpast@/postgres?host={folder}"
        self._log = folder / "server.log"
        self._user = _other_user()
        self._process: subprocess.Popen[bytes] | None = None
        self._numbers = count(1)
        if self._user is not None:
            os.chown(folder, self._user.pw_uid, self._user.pw_gid)
        options = "--username=halfpast --auth=trust --encoding=UTF8 --locale=C.UTF-8"
        arguments = [*options.split(), "--no-sync", "--pgdata", str(folder / "data")]
        if self._spawn("initdb", *arguments).wait() != 0:
            raise RuntimeError(f"initdb fails:\n{self._log.read_text()}")

    def new_database(self) -> str:
        """The URL of an empty place: a schema, as a whole database takes longer."""
        name = f"test_{next(self._numbers)}"
        with self.connect() as connection:
            connection.execute(f"CREATE SCHEMA {name}".encode())
        return f"{self._url}&options=-csearch_path%3D{name}"

    def connect(self) -> psycopg.Connection:
        return psycopg.connect(self._url, autocommit=True)

    def start(self) -> None:
        """Start the server unless it runs, and wait until it answers."""
        if self._process is not None:
            return
        folder = str(self._folder)
        settings = [
            "listen_addresses=",
            "fsync=off",
            f"unix_socket_directories={folder}",
        ]
        options = [word for setting in settings for word in ("-c", setting)]
        self._process = self._spawn("postgres", "-D", f"{folder}/data", *options)
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                text = self._log.read_text()
                raise RuntimeError(f"PostgreSQL does not start:\n{text}")
            time.sleep(0.02)

    def stop(self) -> None:
        """Stop at once, as in a crash; what was committed stays."""
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(START_TIMEOUT_S)
            self._process = None

    def freeze(self) -> None:
        """Halt every process of the server; connections stay open, unanswered."""
        for process in self._processes():
            process.suspend()

    def thaw(self) -> None:
        for process in self._processes():
            process.resume()

    def _processes(self) -> list[psutil.Process]:
        assert self._process is not None
        postmaster = psutil.Process(self._process.pid)
        return [postmaster, *postmaster.children(recursive=True)]

    def _answers(self) -> bool:
        try:
            self.connect().close()
        except psycopg.OperationalError:
            return False
        return True

    def _spawn(self, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as log:
            return subprocess.Popen(
                [str(self._binaries / program), *arguments],
                cwd=self._folder,
                env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                user=self._user and self._user.pw_uid,
                group=self._user and self._user.pw_gid,
                extra_groups=self._user and [],
            )


@pytest.fixture(scope="session")
def _postgres_session() -> Iterator[PostgresServer]:
    binaries = _binaries() or _install()
    # Not pytest's own folder, which other users may not enter.
    folder = Path(tempfile.mkdtemp(prefix="halfpast-pg-"))
    try:
        server = PostgresServer(binaries, folder)
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder)


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


def _binaries() -> Path | None:
    """The folder of initdb and postgres, the newest release if there are several."""
    packaged = Path("/usr/lib/postgresql").glob("*/bin")
    newest_first = sorted(packaged, key=lambda it: float(it.parent.name), reverse=True)
    on_path = [Path(it) for it in os.environ["PATH"].split(os.pathsep)]
    for folder in [*newest_first, *on_path, Path("/usr/local/bin")]:
        if all(os.access(folder / it, os.X_OK) for it in ("initdb", "postgres")):
            return folder.resolve()
    return None


def _install() -> Path:
    """Install Debian's server; skip the test where that cannot be, fail it in CI."""
    failure = "there is no PostgreSQL, and only root can install it"
    if os.geteuid() == 0 and shutil.which("apt-get"):
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        install = ["apt-get", "install", "-y", "--no-install-recommends", "postgresql"]
        for command in (["apt-get", "update"], install):
            done = subprocess.run(
                command, env=environment, capture_output=True, text=True, check=False
            )
            failure = f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}"
        binaries = _binaries()
        if binaries is not None:
            return binaries
    if os.environ.get("CI"):
        pytest.fail(failure)
    pytest.skip(failure)


def _other_user() -> pwd.struct_passwd | None:
    """Whom the server runs as: it refuses to be root."""
    if os.geteuid() != 0:
        return None
    names = {user.pw_name for user in pwd.getpwall()}
    return pwd.getpwnam("postgres" if "postgres" in names else "nobody")
