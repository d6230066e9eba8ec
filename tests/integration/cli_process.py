"""The command `halfpast` as a process, as a user runs it."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

PROGRAM = (sys.executable, "-m", "halfpast_api.cli")
# Small files, so that a test costs no gigabytes.
SMALL = {
    "HALFPAST_STORE_LOG_SEGMENT_SIZE": str(16 * 1024 * 1024),
    "HALFPAST_STORE_LOG_FRAME_SIZE_MAX": str(8 * 1024 * 1024),
}


def halfpast(
    *words: str, stdin: bytes = b"", server: str = "", timeout_s: float = 30.0
) -> subprocess.CompletedProcess[str]:
    """Run one command to its end."""
    environment = {**os.environ, **SMALL}
    if server:
        environment["HALFPAST_URL"] = server
    return subprocess.run(
        [*PROGRAM, *words],
        input=stdin.decode(),
        capture_output=True,
        text=True,
        env=environment,
        timeout=timeout_s,
        check=False,
    )


class Suite:
    """`halfpast dev`, `up` or another service that tells when it is ready.

    `ready` is what it then prints as JSON; `lines` is everything else.
    """

    def __init__(self, mode: str, data: Path, *options: str, **env: str) -> None:
        self.lines: list[str] = []
        self.ready: dict[str, Any] = {}
        self._told = threading.Event()
        self._process = subprocess.Popen(
            [*PROGRAM, mode, "--json", "--data", str(data), *options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, **SMALL, **env},
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def address(self) -> str:
        address = self.ready["address"]
        assert isinstance(address, str)
        return address

    def wait_ready(self) -> Self:
        assert self._told.wait(30), self.lines
        assert self.ready, self.lines
        return self

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal, wait for the end, and give the status."""
        if self._process.poll() is None:
            self._process.send_signal(number)
        return self.wait()

    def wait(self) -> int:
        status = self._process.wait(40)
        self._reader.join(10)
        assert self._process.stdout is not None
        self._process.stdout.close()
        return status

    def __enter__(self) -> Self:
        return self.wait_ready()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        status = self.stop()
        assert status == 0, (status, self.lines)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if not self.ready and line.startswith('{"ready":true'):
                self.ready = json.loads(line)
                self._told.set()
            else:
                self.lines.append(line.rstrip("\n"))
        self._told.set()


def until(condition: Callable[[], bool], timeout_s: float = 20.0) -> None:
    """Wait until something that another process does has happened."""
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.01)


def children_of(pid: int) -> dict[str, int]:
    """The services below `up`, by name."""
    found: dict[str, int] = {}
    pending = [pid]
    while pending:
        parent = pending.pop()
        path = Path(f"/proc/{parent}/task/{parent}/children")
        for child in map(int, path.read_text().split()):
            pending.append(child)
            words = Path(f"/proc/{child}/cmdline").read_text().split("\0")[0].split()
            if words[:1] == ["halfpast"] and words[1] != "nursery":
                found[words[1]] = child
    return found


def is_alive(pid: int) -> bool:
    """Whether the process still runs; a zombie does not."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return text[text.rindex(")") + 2] != "Z"
