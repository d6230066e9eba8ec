"""`order_producer.py` in a process of its own, to be killed and started again."""

import asyncio
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

from halfpast_loadtest.errors import LoadtestError
from halfpast_loadtest.order_producer import DONE, STOPPED
from halfpast_loadtest.process_tree import kill_all


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerConfig:
    """What every producer of a load is told. `workers` orders are under way at once
    in each process. The check-backs come often, so that a load does not take long."""

    seed: int = 1
    workers: int = 8
    check_after_ms: int = 1000
    check_interval_ms: int = 300
    check_max: int = 1000
    delay_ms_max: int = 2000


class ProducerProcess:
    """One producer. It keeps its database, and so its place, through every kill."""

    def __init__(
        self,
        folder: Path,
        address: str,
        config: ProducerConfig,
        *,
        name: str,
        group: str,
        count: int,
        stop_at: tuple[int, ...] = (),
    ) -> None:
        self.name = name
        self.group = group
        self.count = count
        self.book = folder / f"{name}.sqlite"
        self.log_path = folder / f"{name}.log"
        self.kill_count = 0
        self.is_done = asyncio.Event()
        self.is_stopped = asyncio.Event()  # between local commit and second phase
        self._program = (
            *(sys.executable, "-m", "halfpast_loadtest.order_producer"),
            *("--address", address, "--book", str(self.book)),
            *("--name", name, "--group", group, "--count", str(count)),
            *("--seed", str(config.seed), "--workers", str(config.workers)),
            *("--check-after-ms", str(config.check_after_ms)),
            *("--check-interval-ms", str(config.check_interval_ms)),
            *("--check-max", str(config.check_max)),
            *("--delay-ms-max", str(config.delay_ms_max)),
            *("--stop-at", *map(str, stop_at)),
        )
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    async def start(self) -> None:
        """Start it. What it says of itself goes to `log_path`."""
        assert not self.is_running
        self.is_stopped.clear()
        with self.log_path.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self._program,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
            )
        self._reading = asyncio.create_task(self._read(self._process))

    async def kill(self) -> None:
        """SIGKILL it; it is gone when this returns."""
        if self.is_running:
            assert self._process is not None
            kill_all([self._process.pid])
            self.kill_count += 1
        await self._ended()

    async def stop(self, timeout_s: float = 20.0) -> int:
        """Ask it to end with SIGTERM, kill it if it does not; the exit status."""
        process = self._process
        if process is None:
            return 0
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(timeout_s):
                status = await process.wait()
        except TimeoutError:
            process.kill()
            status = await process.wait()
        await self._ended()
        return status

    async def wait_done(self, timeout_s: float) -> None:
        """Return when every order is settled in its database.

        Raises LoadtestError if it takes longer, or if the process has ended.
        """
        await self._wait(self.is_done, timeout_s, "its orders are not done")

    async def wait_stopped(self, timeout_s: float) -> None:
        """Return when it stands between a local commit and its second phase."""
        await self._wait(self.is_stopped, timeout_s, "it did not stop")

    def log_tail(self, line_count: int = 30) -> str:
        """The last lines that it wrote to its log."""
        try:
            lines = self.log_path.read_text(errors="replace").splitlines()
        except OSError:
            return ""
        return "\n".join(lines[-line_count:])

    async def _wait(self, event: asyncio.Event, timeout_s: float, what: str) -> None:
        assert self._reading is not None
        waiting = asyncio.create_task(event.wait())
        await asyncio.wait(
            (waiting, self._reading),
            timeout=timeout_s,
            return_when=asyncio.FIRST_COMPLETED,
        )
        waiting.cancel()
        if not event.is_set():
            error = LoadtestError(f"producer {self.name}: {what}")
            error.add_note(f"its last lines:\n{self.log_tail()}")
            raise error

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        while line := await process.stdout.readline():
            word = line.split()[0].decode()
            if word == DONE:
                self.is_done.set()
            elif word == STOPPED:
                self.is_stopped.set()

    async def _ended(self) -> None:
        if self._process is not None:
            await self._process.wait()
            self._process = None
        if self._reading is not None:
            await self._reading
            self._reading = None
