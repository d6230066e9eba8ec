"""`send_flood.py` in a process of its own, beside a broker."""

import asyncio
import sys
from typing import Self

import msgspec

from halfpast_loadtest.errors import LoadtestError, ServerNotReady
from halfpast_loadtest.process_tree import kill_all
from halfpast_loadtest.send_flood import FULL, FloodReport

START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 20.0


class FloodProcess:
    """Inside its block the send lane of the broker at that address is full."""

    def __init__(
        self,
        broker: str,
        *,
        outstanding: int,
        records: int,
        body_bytes: int,
        pause_s: float,
    ) -> None:
        self._program = (
            sys.executable,
            "-m",
            "halfpast_loadtest.send_flood",
            *("--broker", broker),
            *("--outstanding", str(outstanding), "--records", str(records)),
            *("--body-bytes", str(body_bytes), "--pause-s", str(pause_s)),
        )
        self._process: asyncio.subprocess.Process | None = None

    async def __aenter__(self) -> Self:
        self._process = await asyncio.create_subprocess_exec(
            *self._program, stdout=asyncio.subprocess.PIPE
        )
        try:
            line = await self._line(START_TIMEOUT_S)
        except BaseException:
            await self.__aexit__()
            raise
        if line != FULL:
            await self.__aexit__()
            raise ServerNotReady("the flood could not begin", line)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._process is not None and self._process.returncode is None:
            kill_all([self._process.pid])
            await self._process.wait()

    async def stop(self) -> FloodReport:
        """Let the lane run empty; what was offered and taken."""
        assert self._process is not None
        self._process.terminate()
        line = await self._line(STOP_TIMEOUT_S)
        await self._process.wait()
        try:
            return msgspec.json.decode(line, type=FloodReport)
        except msgspec.DecodeError as error:
            raise ServerNotReady("the flood ended without a report", line) from error

    async def _line(self, timeout_s: float) -> str:
        assert self._process is not None
        assert self._process.stdout is not None
        try:
            async with asyncio.timeout(timeout_s):
                return (await self._process.stdout.readline()).decode().strip()
        except TimeoutError:
            raise LoadtestError("the flood does not answer") from None
