"""The supervisor's end of a nursery: asks for services, and hears how they end."""

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import count

from halfpast_api.deathwatch import supervisor_entry
from halfpast_api.nursery import PACKET_SIZE_MAX

KILLED = -int(signal.SIGKILL)


class Nursed:
    """A service that a nursery has started. See `ChildProcess`."""

    def __init__(self, stdout: asyncio.StreamReader) -> None:
        loop = asyncio.get_running_loop()
        self.stdout: asyncio.StreamReader | None = stdout
        self.returncode: int | None = None
        self.started: asyncio.Future[int] = loop.create_future()
        self._ended: asyncio.Future[int] = loop.create_future()

    @property
    def pid(self) -> int:
        return self.started.result()

    def send_signal(self, signal: int) -> None:
        if self.returncode is not None:
            raise ProcessLookupError
        os.kill(self.pid, signal)

    async def wait(self) -> int:
        return await asyncio.shield(self._ended)

    def end(self, status: int) -> None:
        """It has ended, or never was."""
        self.returncode = status
        if not self.started.done():
            self.started.set_result(0)
        if not self._ended.done():
            self._ended.set_result(status)


class NurseryLink:
    """Starts services by a nursery, which it starts itself when it needs one.

    If the nursery dies, its services have died with it; the next start brings up
    another.
    """

    def __init__(self, pipe_fd: int) -> None:
        self._pipe_fd = pipe_fd
        self._ids = count()
        self._process: asyncio.subprocess.Process | None = None
        self._control: socket.socket | None = None
        self._starting: dict[int, Nursed] = {}
        self._running: dict[int, Nursed] = {}
        self._lock = asyncio.Lock()

    async def start(
        self, words: Sequence[str], environment: Mapping[str, str]
    ) -> Nursed:
        """Start the service whose command line, after `halfpast`, is `words`."""
        async with self._lock:
            control = self._control or await self._open()
        loop = asyncio.get_running_loop()
        ours, theirs = os.pipe()
        reader = asyncio.StreamReader()
        await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(ours, "rb")
        )
        nursed = Nursed(reader)
        id = next(self._ids)
        self._starting[id] = nursed
        request = {"id": id, "words": list(words), "environment": dict(environment)}
        try:
            socket.send_fds(control, [json.dumps(request).encode()], [theirs])
        except OSError:  # it has just gone
            del self._starting[id]
            nursed.end(KILLED)
        finally:
            os.close(theirs)
        await nursed.started
        return nursed

    async def close(self) -> None:
        """End the nursery. Its services have ended before."""
        if self._process is not None:
            self._lost()
            await self._process.wait()

    async def _open(self) -> socket.socket:
        if self._process is not None:
            await self._process.wait()
        control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        control.setblocking(False)
        with theirs:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "halfpast_api.nursery", str(theirs.fileno())),
                stdin=asyncio.subprocess.DEVNULL,
                env={
                    **os.environ,
                    **supervisor_entry(self._pipe_fd),
                    "PYTHONUNBUFFERED": "1",
                },
                pass_fds=(theirs.fileno(), self._pipe_fd),
                process_group=0,
            )
        self._control = control
        asyncio.get_running_loop().add_reader(control, self._receive, control)
        return control

    def _receive(self, control: socket.socket) -> None:
        with suppress(BlockingIOError):
            while packet := _packet(control):
                told = json.loads(packet)
                if "id" in told:
                    nursed = self._starting.pop(told["id"])
                    self._running[told["pid"]] = nursed
                    nursed.started.set_result(told["pid"])
                elif (ended := self._running.pop(told["pid"], None)) is not None:
                    ended.end(told["status"])
            self._lost()

    def _lost(self) -> None:
        """The nursery has gone, or is to go; and so is all that it has started."""
        control, self._control = self._control, None
        if control is None:
            return
        asyncio.get_running_loop().remove_reader(control)
        control.close()
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.kill()
        for nursed in (*self._starting.values(), *self._running.values()):
            nursed.end(KILLED)
        self._starting.clear()
        self._running.clear()


def _packet(control: socket.socket) -> bytes:
    """The next packet; nothing at the end. Raises BlockingIOError if none is there."""
    try:
        return control.recv(PACKET_SIZE_MAX)
    except ConnectionResetError:
        return b""
