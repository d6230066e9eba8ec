"""The command `halfpast audit …` as a process, and what it takes."""

import asyncio
import os
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from halfpast_loadtest.errors import LoadtestError
from halfpast_loadtest.process_memory import memory_of
from halfpast_loadtest.process_tree import kill_all, tree_of, usage_of

PROGRAM = (sys.executable, "-m", "halfpast_api.cli", "audit")
LOOK_S = 1.0
SAID_MAX = 2_000


@dataclass(frozen=True, slots=True)
class Ended:
    """What a command printed as JSON, how long it took, and the most memory that it
    and its children, Spark's Java among them, held at one time."""

    told: dict[str, Any]
    seconds: float
    pss_mb_max: float


class AuditCommand:
    """One process, from its start; `running` also sees to its end."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
        self._process = process
        self._log = log
        self._began = time.perf_counter()
        self._pss_mb_max = 0.0

    @property
    def is_running(self) -> bool:
        return self._process.returncode is None

    def cpu_s(self) -> float:
        """What it and its children have taken so far, those that ended left out."""
        return usage_of(tree_of(self._process.pid)).cpu_s

    def terminate(self) -> None:
        """Ask it to end."""
        self._process.terminate()

    async def ended(self) -> Ended:
        """Raises LoadtestError if it fails."""
        output = asyncio.create_task(self._process.communicate())
        while not output.done():
            self._look()
            await asyncio.wait([output], timeout=LOOK_S)
        said, _ = output.result()
        if self._process.returncode != 0:
            raise self.failure()
        told = msgspec.json.decode(said, type=dict[str, Any])
        seconds = time.perf_counter() - self._began
        return Ended(told, seconds, round(self._pss_mb_max, 1))

    def failure(self) -> LoadtestError:
        """What it says."""
        said = self._log.read_text(errors="replace")[-SAID_MAX:]
        status = self._process.returncode
        return LoadtestError(f"halfpast audit ended with status {status}:\n{said}")

    def _look(self) -> None:
        pss_mb = memory_of(tree_of(self._process.pid)).pss_mb
        self._pss_mb_max = max(self._pss_mb_max, pss_mb)


@asynccontextmanager
async def running(folder: Path, *words: str) -> AsyncGenerator[AuditCommand]:
    """Started; killed at the end of the block, if it still runs. What Spark spills
    goes to `folder`."""
    log = folder / "audit.log"
    with log.open("wb") as errors:
        process = await asyncio.create_subprocess_exec(
            *PROGRAM,
            *words,
            "--json",
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
            env={**os.environ, "SPARK_LOCAL_DIRS": str(folder)},
        )
    try:
        yield AuditCommand(process, log)
    finally:
        kill_all(tree_of(process.pid))
        await process.wait()


async def run(folder: Path, *words: str) -> Ended:
    """The same, to its end. Raises LoadtestError."""
    async with running(folder, *words) as command:
        return await command.ended()
