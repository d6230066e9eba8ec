"""How long after it was durable an event is in the live counts.

This process writes a log in real time, marks what is durable as the broker does, and
asks the database how far the stream has come; the stream is `halfpast audit stream`.
"""

import asyncio
import sqlite3
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

from halfpast_loadtest import audit_command
from halfpast_loadtest.audit_log import AuditLog
from halfpast_loadtest.errors import LoadtestError
from halfpast_loadtest.progress import Progress

FRAME_MS = 50
MARK_MS = 100  # the broker's own interval
LOOK_S = 0.005
START_TIMEOUT_S = 180.0
TABLE = "halfpast_audit_streams"


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveConfig:
    """`warmup_s` is written before what is measured."""

    rate_per_s: int
    seconds: float
    warmup_s: float
    master: str
    memory: str


@dataclass(slots=True)
class LiveSeen:
    """`behind`: frames of the measured time that were not counted in the end. `cpu_s`:
    what the stream, its Java and its workers took in that time."""

    latencies_ms: list[float] = field(default_factory=list[float])
    written: int = 0
    seconds: float = 0.0
    behind: int = 0
    cpu_s: float = 0.0
    pss_mb_max: float = 0.0


async def measure_live(folder: Path, config: LiveConfig) -> LiveSeen:
    """Raises LoadtestError."""
    data = folder / "live"
    words = [
        *("stream", "--data", str(data), "--window", "1m"),
        *("--master", config.master, "--memory", config.memory),
    ]
    with AuditLog(
        data, start_ms=_now_ms(), rate_per_s=config.rate_per_s, frame_ms=FRAME_MS
    ) as log:
        log.publish()
        async with audit_command.running(folder, *words) as command:
            watch = _Watch(data / "metadata.sqlite", log, command)
            await watch.wait_started()
            await watch.write(config.warmup_s, "warming up")
            watch.forget()
            before_s = command.cpu_s()
            await watch.write(config.seconds, "measuring")
            watch.seen.cpu_s = command.cpu_s() - before_s
            await watch.wait_counted()
            command.terminate()
            ended = await command.ended()
    watch.seen.pss_mb_max = ended.pss_mb_max
    return watch.seen


class _Watch:
    """Writes, and looks how far the stream has come."""

    def __init__(
        self, database: Path, log: AuditLog, command: audit_command.AuditCommand
    ) -> None:
        self._database = database
        self._log = log
        self._command = command
        self._durable: deque[tuple[int, float]] = deque()
        self.seen = LiveSeen()

    async def wait_started(self) -> None:
        """Until the first frame has been counted."""
        self._append()
        self._log.publish()
        await self._until_counted(START_TIMEOUT_S)
        if self._durable:
            raise LoadtestError("the stream has not counted anything")

    async def write(self, seconds: float, what: str) -> None:
        """In real time, for so long."""
        Progress("audit stream", 0).say(f"{what} for {seconds:g} s")
        began = time.perf_counter()
        next_s, marked_s = began, began
        records = self._log.load.books["records"]
        while (now := time.perf_counter()) < began + seconds:
            if now >= next_s:
                await asyncio.to_thread(self._append)
                next_s += FRAME_MS / 1000
            if now >= marked_s + MARK_MS / 1000:
                self._log.publish()
                marked_s = now
            self._look()
            await asyncio.sleep(LOOK_S)
        self._log.publish()
        self.seen.written = self._log.load.books["records"] - records
        self.seen.seconds = time.perf_counter() - began

    def forget(self) -> None:
        """What was seen so far does not count."""
        self._durable.clear()
        self.seen = LiveSeen()

    async def wait_counted(self) -> None:
        await self._until_counted(30.0)
        self.seen.behind = len(self._durable)

    async def _until_counted(self, timeout_s: float) -> None:
        give_up = time.perf_counter() + timeout_s
        while self._durable and time.perf_counter() < give_up:
            if not self._command.is_running:
                raise self._command.failure()
            self._look()
            await asyncio.sleep(LOOK_S)

    def _append(self) -> None:
        position = self._log.append(_now_ms())
        self._durable.append((position, time.perf_counter()))

    def _look(self) -> None:
        position = self._position()
        now = time.perf_counter()
        while self._durable and self._durable[0][0] <= position:
            _, durable_s = self._durable.popleft()
            self.seen.latencies_ms.append((now - durable_s) * 1000)

    def _position(self) -> int:
        """Where the last event begins that has been counted."""
        if not self._database.exists():
            return -1
        connection = sqlite3.connect(f"file:{self._database}?mode=ro", uri=True)
        try:
            row = connection.execute(
                f"SELECT max(horizon_position) FROM {TABLE}"
            ).fetchone()
        except sqlite3.OperationalError:  # locked, or no tables yet
            return -1
        finally:
            connection.close()
        return -1 if row[0] is None else int(row[0])


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
