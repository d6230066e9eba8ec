"""A process that a supervisor has started, and how it starts one."""

import asyncio
import os
from collections.abc import Mapping, Sequence
from typing import Protocol, cast


class ChildProcess(Protocol):
    """What a supervisor must know of a process. `asyncio`'s own is one."""

    @property
    def pid(self) -> int: ...

    @property
    def returncode(self) -> int | None:
        """None while it runs; then its exit status, or minus a signal's number."""
        ...

    @property
    def stdout(self) -> asyncio.StreamReader | None:
        """All that it writes, to standard output or to standard error."""
        ...

    def send_signal(self, signal: int) -> None:
        """Raises ProcessLookupError if it has ended."""
        ...

    async def wait(self) -> int:
        """Until it has ended; gives `returncode`."""
        ...


async def execute(
    command: Sequence[str], environment: Mapping[str, str], pipe_fd: int
) -> ChildProcess:
    """Start a program, which inherits `pipe_fd`."""
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, **environment},
        pass_fds=(pipe_fd,),
        # Ctrl-C is for the supervisor alone, which then keeps the order.
        process_group=0,
    )
    return cast(ChildProcess, process)
