"""The memory of a server's processes, now, and at its highest while it is watched."""

import asyncio
from typing import NamedTuple, Self

from halfpast_loadtest.process_memory import Memory, memory_of
from halfpast_loadtest.server_process import ServerProcess

INTERVAL_S = 1.0


class SuiteMemory(NamedTuple):
    """Of each process, by the name of its command, and of all together."""

    of: dict[str, Memory]
    all: Memory


class MemoryWatch:
    """Looks once a second inside the block, and at its end."""

    def __init__(self, server: ServerProcess) -> None:
        self.pss_mb_max = 0.0
        self.pss_mb_max_of: dict[str, float] = {}
        self._server = server
        self._task: asyncio.Task[None] | None = None

    @staticmethod
    def now(server: ServerProcess) -> SuiteMemory:
        """As it is at the moment."""
        of = {name: memory_of([pid]) for name, pid in server.processes().items()}
        return SuiteMemory(of, sum(of.values(), start=Memory()))

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._watch())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._look()

    async def _watch(self) -> None:
        while True:
            self._look()
            await asyncio.sleep(INTERVAL_S)

    def _look(self) -> None:
        memory = self.now(self._server)
        self.pss_mb_max = max(self.pss_mb_max, memory.all.pss_mb)
        for name, one in memory.of.items():
            highest = self.pss_mb_max_of.get(name, 0.0)
            self.pss_mb_max_of[name] = max(highest, one.pss_mb)
