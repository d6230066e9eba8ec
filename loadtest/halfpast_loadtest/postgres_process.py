"""A real PostgreSQL on a folder of its own: found or installed, started, stopped.

It listens on a unix socket in that folder only. It refuses to run as root, so root
starts it as another user, who must be able to reach the folder. Python's side of it
is psycopg, which comes with the extra `postgres`.
"""

import importlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from halfpast_loadtest import debian_packages
from halfpast_loadtest.errors import PostgresUnavailable
from halfpast_loadtest.process_tree import TreeUsage, tree_of, usage_of

if TYPE_CHECKING:
    import psycopg

START_TIMEOUT_S = 30.0
INITDB = "--username=halfpast --auth=trust --encoding=UTF8 --locale=C.UTF-8 --no-sync"
NO_DURABILITY: Mapping[str, str] = {"fsync": "off"}
SOCKET_PATH_MAX = 107 - len("/.s.PGSQL.5432")


class PostgresServer:
    """One server; it may be stopped and started again. `settings` as in its own
    configuration. Raises PostgresUnavailable if it cannot be."""

    def __init__(
        self, binaries: Path, folder: Path, settings: Mapping[str, str] = NO_DURABILITY
    ) -> None:
        _need_psycopg()
        if len(os.fsencode(folder)) > SOCKET_PATH_MAX:
            raise PostgresUnavailable(f"{folder} is too long a path for a socket")
        self._binaries = binaries
        self._folder = folder
        self._settings = dict(settings)
        self.url = f"postgresql://halfpast@/postgres?host={folder}"
        self._log = folder / "server.log"
        self._user = _other_user()
        self._process: subprocess.Popen[bytes] | None = None
        self._numbers = count(1)
        if self._user is not None:
            os.chown(folder, self._user.pw_uid, self._user.pw_gid)
        arguments = [*INITDB.split(), "--pgdata", str(folder / "data")]
        if self._spawn("initdb", *arguments).wait() != 0:
            raise PostgresUnavailable(f"initdb fails:\n{self._log.read_text()}")

    def new_database(self) -> str:
        """The URL of an empty place: a schema, as a whole database takes longer."""
        name = f"test_{next(self._numbers)}"
        with self.connect() as connection:
            connection.execute(f"CREATE SCHEMA {name}".encode())
        return f"{self.url}&options=-csearch_path%3D{name}"

    def connect(self) -> "psycopg.Connection":
        import psycopg

        return psycopg.connect(self.url, autocommit=True)

    def usage(self) -> TreeUsage:
        """Memory and CPU of the server and the processes of its connections."""
        return usage_of([] if self._process is None else tree_of(self._process.pid))

    def start(self) -> None:
        """Start the server unless it runs, and wait until it answers."""
        if self._process is not None:
            return
        settings = {
            "listen_addresses": "",
            "unix_socket_directories": str(self._folder),
            **self._settings,
        }
        options = [
            word for name, it in settings.items() for word in ("-c", f"{name}={it}")
        ]
        self._process = self._spawn("postgres", "-D", f"{self._folder}/data", *options)
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                text = self._log.read_text()
                raise PostgresUnavailable(f"PostgreSQL does not start:\n{text}")
            time.sleep(0.02)

    def stop(self) -> None:
        """Stop at once, as in a crash; what was committed stays."""
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(START_TIMEOUT_S)
            self._process = None

    def freeze(self) -> None:
        """Halt every process of the server; connections stay open, unanswered."""
        self._signal_all(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal_all(signal.SIGCONT)

    def _signal_all(self, number: signal.Signals) -> None:
        assert self._process is not None
        for pid in tree_of(self._process.pid):
            os.kill(pid, number)

    def _answers(self) -> bool:
        import psycopg

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


@contextmanager
def postgres_running(
    where: Path | None = None, settings: Mapping[str, str] = NO_DURABILITY
) -> Generator[PostgresServer]:
    """A server in a new folder below `where`, which goes with it; not started yet.

    Installs Debian's package if there is none and we are root. Raises
    PostgresUnavailable.
    """
    binaries = find_binaries() or install()
    folder = Path(tempfile.mkdtemp(prefix="halfpast-pg-", dir=where))
    try:
        server = PostgresServer(binaries, folder, settings)
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder)


def find_binaries() -> Path | None:
    """The folder of initdb and postgres, the newest release if there are several."""
    packaged = Path("/usr/lib/postgresql").glob("*/bin")
    newest_first = sorted(packaged, key=lambda it: float(it.parent.name), reverse=True)
    on_path = [Path(it) for it in os.environ["PATH"].split(os.pathsep)]
    for folder in [*newest_first, *on_path, Path("/usr/local/bin")]:
        if all(os.access(folder / it, os.X_OK) for it in ("initdb", "postgres")):
            return folder.resolve()
    return None


def install() -> Path:
    """Install Debian's server, if we are root there. Raises PostgresUnavailable."""
    failure = debian_packages.install(
        ["postgresql"], lambda: find_binaries() is not None
    )
    binaries = find_binaries()
    if binaries is None:
        raise PostgresUnavailable(failure)
    return binaries


def _need_psycopg() -> None:
    try:
        importlib.import_module("psycopg")
    except ImportError as error:
        needed = f"pip install 'halfpast[postgres]' ({error})"
        raise PostgresUnavailable(needed) from error


def _other_user() -> pwd.struct_passwd | None:
    """Whom the server runs as: it refuses to be root."""
    if os.geteuid() != 0:
        return None
    names = {user.pw_name for user in pwd.getpwall()}
    return pwd.getpwnam("postgres" if "postgres" in names else "nobody")
