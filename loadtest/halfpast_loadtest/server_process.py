"""A Halfpast of its own on a temporary folder, started, killed and started again.

It runs `halfpast dev` or `halfpast up` as any user would, in a session of its own,
so that SIGKILL reaches it and everything that it has started.
"""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from halfpast_loadtest.errors import LoadtestError, ServerNotReady, WireError
from halfpast_loadtest.http_wire import WireClient
from halfpast_loadtest.process_tree import (
    TreeUsage,
    command_line,
    is_alive,
    kill_all,
    tree_of,
    usage_of,
)

HOST = "127.0.0.1"
HALFPAST = (sys.executable, "-m", "halfpast_api.cli")
SERVICES = frozenset(
    {"dev", "up", "nursery", "broker", "chronos", "txn", "push", "api"}
)


def echo_program(answer_bytes: int) -> tuple[str, ...]:
    """The echo server of `echo_server.py`, as a program for ServerProcess."""
    module = "halfpast_loadtest.echo_server"
    return (sys.executable, "-m", module, "--answer-bytes", str(answer_bytes))


def free_port() -> int:
    """A port that nobody listens on at the moment."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port = probe.getsockname()[1]
        assert isinstance(port, int)
        return port


class ServerProcess:
    """One Halfpast. `mode` is dev (one process) or up (supervised services).

    What it prints goes to `log_path`, beside the data folder. `program` is the
    command in front of the mode; tests put other servers there. `settings` are
    environment variables that it gets beside those of this process, `options` words
    behind its others.
    """

    def __init__(
        self,
        folder: Path,
        *,
        mode: str = "dev",
        port: int | None = None,
        program: Sequence[str] = HALFPAST,
        settings: Mapping[str, str] | None = None,
        options: Sequence[str] = (),
    ) -> None:
        self.folder = folder
        self.mode = mode
        self.host = HOST
        self.port = port or free_port()
        self.log_path = folder.parent / f"{folder.name}.log"
        self._program = tuple(program)
        self._settings = dict(settings or {})
        self._options = tuple(options)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"http://{self.host}:{self.port}"

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the process; it is not ready yet."""
        assert not self.is_running
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *self._program,
                    self.mode,
                    *("--data", str(self.folder), "--port", str(self.port)),
                    *self._options,
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, **self._settings},
            )

    async def wait_ready(self, timeout_s: float = 30.0) -> float:
        """Seconds until /readyz answered 200. Raises ServerNotReady."""
        began = time.monotonic()
        client = WireClient(self.host, self.port, timeout_s=2.0)
        reason = "no answer"
        try:
            while time.monotonic() - began < timeout_s:
                if not self.is_running:
                    raise ServerNotReady(self._ending(), self.log_tail())
                try:
                    answer = await client.request("GET", "/readyz")
                    if answer.status == 200:
                        return time.monotonic() - began
                    reason = f"/readyz says {answer.status} {answer.body[:200]!r}"
                except WireError as error:
                    reason = str(error)
                await asyncio.sleep(0.02)
        finally:
            client.close()
        raise ServerNotReady(f"{reason} after {timeout_s} s", self.log_tail())

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Started and ready inside the block, killed at its end.

        What goes wrong inside gets the server's last lines as a note.
        """
        self.start()
        try:
            await self.wait_ready()
            yield
        except LoadtestError as error:
            if not isinstance(error, ServerNotReady):
                error.add_note(f"the server's last lines:\n{self.log_tail()}")
            raise
        finally:
            self.kill()

    def kill(self) -> None:
        """SIGKILL it and all its children at once; returns when they are gone."""
        if self._process is None:
            return
        kill_all(tree_of(self._process.pid))
        self._process.wait()
        self._process = None

    def kill_service(self, name: str) -> bool:
        """SIGKILL one service below `up`, by its name; False if it is absent."""
        if self._process is None:
            return False
        for pid in tree_of(self._process.pid)[1:]:
            if name in command_line(pid):
                kill_all([pid])
                return True
        return False

    def stop(self, timeout_s: float = 15.0) -> int:
        """Ask it to end with SIGTERM, kill it if it does not; the exit status."""
        if self._process is None:
            return 0
        process = self._process
        pids = tree_of(process.pid)
        process.send_signal(signal.SIGTERM)
        try:
            status = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            status = -signal.SIGKILL
        kill_all([pid for pid in pids if is_alive(pid)])
        process.wait()
        self._process = None
        return status

    def usage(self) -> TreeUsage:
        """Memory and CPU of the process and its children."""
        if self._process is None:
            return usage_of([])
        return usage_of(tree_of(self._process.pid))

    def usage_by_service(self) -> dict[str, TreeUsage]:
        """The same for each process by itself, under the name of its command."""
        return {name: usage_of([pid]) for name, pid in self.processes().items()}

    def processes(self) -> dict[str, int]:
        """The id of every process, under the name of its command, parents first."""
        if self._process is None:
            return {}
        found: dict[str, int] = {}
        for pid in tree_of(self._process.pid):
            words = command_line(pid)
            named = next((word for word in words if word in SERVICES), str(pid))
            found[named] = pid
        return found

    def log_tail(self, line_count: int = 30) -> str:
        """The last lines that the server printed."""
        try:
            lines = self.log_path.read_text(errors="replace").splitlines()
        except OSError:
            return ""
        return "\n".join(lines[-line_count:])

    def _ending(self) -> str:
        status = self._process.poll() if self._process is not None else None
        return f"the process ended with status {status}"
