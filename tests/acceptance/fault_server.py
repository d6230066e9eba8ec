"""A Halfpast whose system calls can be made to fail, and what it says of that.

Standard output and error go to files in `output` (beside the data folder, if not
told otherwise), so that tests see what a person would see.
"""

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from halfpast_loadtest.errors import ServerNotReady, WireError
from halfpast_loadtest.http_wire import WireClient
from halfpast_loadtest.patient_client import PatientClient
from halfpast_loadtest.process_tree import command_line, kill_all, tree_of
from halfpast_loadtest.server_process import HALFPAST, HOST, free_port

KIB = 1024
# Segments that are full after a few dozen events, so that tests roll them.
TINY = {
    "HALFPAST_STORE_LOG_SEGMENT_SIZE": str(64 * KIB),
    "HALFPAST_STORE_LOG_FRAME_SIZE": str(16 * KIB),
    "HALFPAST_STORE_LOG_FRAME_SIZE_MAX": str(32 * KIB),
}


def strace(call: str, what: str) -> tuple[str, ...]:
    """The command that runs the one behind it with a fault in system call `call`.

    `what` is strace's own: error=EIO:when=5, signal=SIGKILL:when=5. Every thread
    counts for itself.
    """
    inject = ("-e", f"trace={call}", "-e", f"inject={call}:{what}")
    # With a filter in the kernel only these calls are slowed down. Signals are not
    # delivered then (strace 6.1).
    quick = () if "signal=" in what else ("--seccomp-bpf",)
    return ("strace", "-f", *quick, "-qq", "-o", os.devnull, *inject)


class FaultServer:
    """`halfpast dev` or `up` on a data folder; `settings` are environment variables.

    Always the same port, so that one client can outlive many servers.
    """

    def __init__(
        self,
        data: Path,
        *,
        mode: str = "dev",
        settings: Mapping[str, str] = TINY,
        output: Path | None = None,
    ) -> None:
        self.data = data
        self.mode = mode
        self.port = free_port()
        self._output = output or data.parent
        self._settings = settings
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def stderr(self) -> str:
        """What the last start printed there."""
        return self._path("err").read_text(errors="replace")

    @property
    def stdout(self) -> str:
        """What the last start printed there."""
        return self._path("out").read_text(errors="replace")

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self, *wrapper: str) -> Self:
        """Start it, below the command `wrapper` (see `strace`); not ready yet."""
        assert not self.is_running
        with self._path("out").open("wb") as out, self._path("err").open("wb") as err:
            self._process = subprocess.Popen(
                [
                    *wrapper,
                    *HALFPAST,
                    self.mode,
                    *("--data", str(self.data), "--port", str(self.port)),
                ],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env={**os.environ, **self._settings},
                start_new_session=True,
            )
        return self

    async def wait_ready(self, timeout_s: float = 30.0) -> bool:
        """Whether it got ready; False if it ended before that."""
        deadline = time.monotonic() + timeout_s
        client = WireClient(HOST, self.port, timeout_s=2.0)
        try:
            while self.is_running:
                try:
                    if (await client.request("GET", "/readyz")).status == 200:
                        return True
                except WireError:
                    pass
                if time.monotonic() > deadline:
                    raise ServerNotReady(f"after {timeout_s} s", self.log)
                await asyncio.sleep(0.02)
        finally:
            client.close()
        return False

    async def start_ready(self) -> None:
        """Start it without any fault; raises ServerNotReady."""
        if not await self.start().wait_ready():
            raise ServerNotReady(f"ended with {self.status}", self.log)

    async def wait_end(self, timeout_s: float = 15.0) -> int:
        """Its exit status; below `strace` that of the server."""
        assert self._process is not None
        deadline = time.monotonic() + timeout_s
        while (status := self._process.poll()) is None:
            assert time.monotonic() < deadline, f"still running: {self.log}"
            await asyncio.sleep(0.01)
        return status

    @property
    def errors(self) -> list[str]:
        """The lines by which it told why it ended."""
        assert "Traceback" not in self.log, self.log
        return [line for line in self.stderr.splitlines() if line.startswith("error:")]

    @property
    def status(self) -> int | None:
        return None if self._process is None else self._process.poll()

    @property
    def log(self) -> str:
        return f"stdout:\n{self.stdout}\nstderr:\n{self.stderr}"

    def signal(self, number: signal.Signals) -> None:
        """To every process of it."""
        for pid in self.pids():
            os.kill(pid, number)

    def pids(self, service: str = "") -> list[int]:
        """All of its processes, or the ones of one service below `up`."""
        assert self._process is not None
        found = tree_of(self._process.pid)
        return [pid for pid in found if not service or service in command_line(pid)]

    async def stop(self) -> int:
        """Ask it to end, as an operator does; the exit status."""
        if self._process is None:
            return 0
        if self.is_running:
            self._process.send_signal(signal.SIGTERM)
        return await self.wait_end()

    def kill(self) -> None:
        """SIGKILL whatever of it is left; returns when all is gone."""
        if self._process is not None:
            kill_all(tree_of(self._process.pid))
            self._process.wait()

    def patient(self) -> PatientClient:
        """A client that asks until the server answers."""
        return PatientClient(HOST, self.port, patience_s=20)

    def client(self) -> WireClient:
        """A client that tells each answer as it is."""
        return WireClient(HOST, self.port, timeout_s=10)

    def _path(self, end: str) -> Path:
        return self._output / f"{self.data.name}-{self.port}.{end}"
