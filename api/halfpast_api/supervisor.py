"""Keeps a few processes running on one host: `halfpast up`.

They start together: whoever needs another one waits for it (`awaited.py`), and loads
meanwhile what he is made of. They stop in reverse order, one by one. One that dies is
started again: at once the first time, then with growing pauses. One that dies again
and again before it answers makes the supervisor give up, for then waiting helps
nobody; so does one that has never answered and says by its status that another start
cannot help. If the supervisor itself dies, so do its children (see `deathwatch.py`).
"""

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from halfpast_api.child_process import ChildProcess, execute
from halfpast_api.cli_output import FOLDER_UNUSABLE, USAGE
from halfpast_api.deathwatch import supervisor_entry
from halfpast_api.nursery_link import NurseryLink
from halfpast_api.shutdown import Asked

_LINE_SIZE_MAX = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A process to be kept. `is_ready` asks it; it may raise OSError for 'no'.

    Secrets go into `environment`: a command line can be read by everybody. What is
    `nursed` is one of the suite's own services; `command` is then what follows
    `halfpast`, and it comes from the nursery.
    """

    name: str
    command: Sequence[str]
    is_ready: Callable[[], Awaitable[bool]]
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    nursed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartPolicy:
    """How often to start what dies. In seconds.

    A process that was ready for `healthy_s` begins with a clean record. `hopeless`
    are statuses after which a first start is not tried again.
    """

    pause_initial_s: float = 0.1
    pause_max_s: float = 3.0
    healthy_s: float = 3.0
    unready_max: int = 5
    hopeless: frozenset[int] = frozenset({USAGE, FOLDER_UNUSABLE})
    stop_s: float = 25.0
    probe_s: float = 0.02

    def pause_s(self, deaths: int) -> float:
        """Before the next start, after so many deaths in a row."""
        if deaths <= 1:
            return 0.0
        return min(self.pause_max_s, self.pause_initial_s * 2.0 ** min(deaths - 2, 30))


class GaveUp(Exception):
    """A service never answered. `status` is how its last process ended."""

    def __init__(self, name: str, status: int) -> None:
        super().__init__(name, status)
        self.name = name
        self.status = status

    def __str__(self) -> str:
        return f"{self.name} does not start: it {ending(self.status)}"


class Supervisor:
    """Runs services until `stop`. `write` gets each line for people to read."""

    def __init__(
        self,
        services: Sequence[Service],
        write: Callable[[str], None],
        policy: RestartPolicy | None = None,
    ) -> None:
        policy = policy or RestartPolicy()
        width = max(len(service.name) for service in services)
        # Its read end goes to the children, its write end only ends with us.
        self._pipe = os.pipe()
        self._nursery = NurseryLink(self._pipe[0])
        self._kept = [
            _Kept(service, policy, self._start, width, write) for service in services
        ]
        self._stopping = asyncio.Event()
        self._asked = Asked(time.monotonic)

    async def run(self, ready: Callable[[], None]) -> None:
        """Keep the services; calls `ready` when all of them answer.

        Returns after `stop`, when all have ended. Raises GaveUp, likewise.
        """
        stopping = asyncio.create_task(self._stopping.wait())
        tasks = [asyncio.create_task(kept.keep()) for kept in self._kept]
        try:
            answering = asyncio.create_task(self._all_answer())
            try:
                await _first(stopping, answering, *tasks)
            finally:
                answering.cancel()
            if self._stopping.is_set():
                return
            ready()
            await _first(stopping, *tasks)
        finally:
            stopping.cancel()
            for kept in self._kept:
                kept.stopping = True
            for kept, task in reversed(list(zip(self._kept, tasks, strict=True))):
                await kept.stop(task)
            await self._nursery.close()
            for fd in self._pipe:
                os.close(fd)

    async def _all_answer(self) -> None:
        for kept in self._kept:
            await kept.ready.wait()

    async def _start(self, service: Service) -> ChildProcess:
        if service.nursed:
            return await self._nursery.start(service.command, service.environment)
        environment = {
            **service.environment,
            **supervisor_entry(self._pipe[0]),
            "PYTHONUNBUFFERED": "1",
        }
        return await execute(service.command, environment, self._pipe[0])

    def stop(self) -> None:
        """End all services gracefully; asked again, at once."""
        if self._asked.again():
            for kept in self._kept:
                kept.signal(signal.SIGKILL)
        self._stopping.set()

    def pid_of(self, name: str) -> int | None:
        """The process that now is this service, if there is one."""
        return next((k.pid for k in self._kept if k.service.name == name), None)


class _Kept:
    """One service and the process that presently is it."""

    def __init__(
        self,
        service: Service,
        policy: RestartPolicy,
        start: Callable[[Service], Awaitable[ChildProcess]],
        width: int,
        write: Callable[[str], None],
    ) -> None:
        self.service = service
        self.ready = asyncio.Event()
        self._policy = policy
        self._start = start
        self._prefix = f"{service.name:<{width}} | "
        self._write = write
        self._process: ChildProcess | None = None
        self.stopping = False

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    async def keep(self) -> None:
        deaths = unready = 0
        was_ready = False
        while True:
            ready_for_s, status = await self._run_once()
            if self.stopping:
                return
            unready = unready + 1 if ready_for_s is None else 0
            was_ready = was_ready or unready == 0
            is_hopeless = not was_ready and status in self._policy.hopeless
            if is_hopeless or unready == self._policy.unready_max:
                raise GaveUp(self.service.name, status)
            healthy = (ready_for_s or 0.0) >= self._policy.healthy_s
            deaths = 1 if healthy else deaths + 1
            pause_s = self._policy.pause_s(deaths)
            when = f"in {pause_s:g} s" if pause_s else "now"
            self._write(f"{self._prefix}{ending(status)}; starting it again {when}")
            await asyncio.sleep(pause_s)

    async def stop(self, task: "asyncio.Task[None]") -> None:
        """End the process, gracefully if it can, and see its last line."""
        self.signal(signal.SIGTERM)
        if self._process is None:
            task.cancel()  # it pauses before a start
        _, late = await asyncio.wait((task,), timeout=self._policy.stop_s)
        if late:
            self._write(f"{self._prefix}does not end; killing it")
            self.signal(signal.SIGKILL)
            await asyncio.wait((task,))

    def signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.send_signal(number)

    async def _run_once(self) -> tuple[float | None, int]:
        """How long it was ready, or None if it never was; and how it ended."""
        loop = asyncio.get_running_loop()
        self._process = process = await self._start(self.service)
        if self.stopping:
            self.signal(signal.SIGTERM)
        assert process.stdout is not None
        probing = asyncio.create_task(self._probe())
        try:
            await self._copy(process.stdout)
            status = await process.wait()
        finally:
            probing.cancel()
            self.ready.clear()
            self._process = None
        since_s = probing.result() if probing.done() else None
        return None if since_s is None else loop.time() - since_s, status

    async def _probe(self) -> float:
        """Ask until it answers; gives the time of that."""
        while True:
            with suppress(OSError, TimeoutError):
                if await self.service.is_ready():
                    self.ready.set()
                    return asyncio.get_running_loop().time()
            await asyncio.sleep(self._policy.probe_s)

    async def _copy(self, output: asyncio.StreamReader) -> None:
        """Its lines become ours, with its name in front."""
        rest = b""
        while data := await output.read(_LINE_SIZE_MAX):
            *lines, rest = (rest + data).split(b"\n")
            if len(rest) > _LINE_SIZE_MAX:
                lines.append(rest)
                rest = b""
            for line in lines:
                self._write(self._prefix + line.decode(errors="replace"))
        if rest:
            self._write(self._prefix + rest.decode(errors="replace"))


def ending(status: int) -> str:
    """How a process ended, in words."""
    if status >= 0:
        return f"ended with status {status}"
    return f"was ended by {signal.Signals(-status).name}"


async def _first(*tasks: "asyncio.Task[object]") -> None:
    """Until one of them is done; raises what it raises."""
    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in done:
        task.result()
