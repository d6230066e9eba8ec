"""Where the services of `halfpast up` come from: each is a fork of this process.

Five services are made of much the same modules, and to load them takes each longer
than anything else at its start. Here they are loaded once, in the order in which the
services need them, and a service is forked off as soon as its own are there. So the
suite starts in half the time, what dies is back at once, and memory that is only read
is shared.

Nothing but loading happens here: no thread, no event loop, no file is open that a fork
could inherit by mistake. The other end is `nursery_link.py`; the packets between:

    -> {"id", "words", "environment"}, with the fd of what takes its output
    <- {"id", "pid"}            it has been started
    <- {"pid", "status"}        it has ended: an exit status, or minus a signal's number

If this process dies, so does everything that it has started; if the supervisor dies, so
does this process (`deathwatch.py`).
"""

import contextlib
import gc
import json
import os
import select
import signal
import socket
import sys
from dataclasses import dataclass
from importlib import import_module
from types import FrameType
from typing import Any

from halfpast_api.deathwatch import VARIABLE, die_with_parent, supervisor_entry

PACKET_SIZE_MAX = 256 * 1024
STAGES: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "broker",
        (
            "halfpast_api.cli_serve",
            "halfpast_api.log_output",
            "halfpast_api.processes",
            "pydantic",
            "uvloop",
            "halfpast_core_store.broker_rpc",
            "halfpast_core_store.service",
        ),
    ),
    (
        "chronos",
        (
            "halfpast_api.metadata.snapshot",
            "halfpast_api.metadata.store",
            "sqlalchemy.dialects.sqlite.aiosqlite",
            "halfpast_api.delay.topic_controls",
            "halfpast_chronos.delay_rpc",
            "halfpast_chronos.service",
        ),
    ),
    (
        "txn",
        (
            "halfpast_api.transactions.check_endpoints",
            "halfpast_txn.http_transport",
            "halfpast_txn.service",
            "halfpast_txn.txn_rpc",
        ),
    ),
    (
        "push",
        (
            "halfpast_api.push.caller",
            "halfpast_api.push.push_rpc",
            "halfpast_api.push.service",
        ),
    ),
    ("api", ("halfpast_api.app",)),
)
"""Each service, and what it is made of beyond those before it."""


@dataclass(frozen=True, slots=True)
class Birth:
    """A service to be started: its command line, what is added to the environment, and
    where its output goes."""

    id: int
    words: list[str]
    environment: dict[str, str]
    output_fd: int


class Nursery:
    """See above. `run` returns in each fork, with what that is to be."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._wanted: list[Birth] = []
        self._loaded: set[str] = set()
        self._stages = list(STAGES)
        self._ended, ended = os.pipe()
        self._fds = (self._ended, ended)
        for fd in self._fds:
            os.set_blocking(fd, False)
        signal.signal(signal.SIGCHLD, _ignore)
        signal.set_wakeup_fd(ended)

    def run(self) -> Birth:
        """Start what is asked for. Raises SystemExit when the supervisor has gone."""
        gc.disable()  # what is loaded stays, so there is nothing to collect
        while True:
            self._listen(0 if self._stages else None)
            for birth in self._wanted:
                if self._is_loaded(birth):
                    self._wanted.remove(birth)
                    if self._fork(birth):
                        return birth
                    break
            else:
                self._load_next()

    def _is_loaded(self, birth: Birth) -> bool:
        return not self._stages or birth.words[0] in self._loaded

    def _load_next(self) -> None:
        if self._stages:
            service, modules = self._stages.pop(0)
            for module in modules:
                # What cannot be loaded is for the service to complain about.
                with contextlib.suppress(ImportError):
                    import_module(module)
            self._loaded.add(service)

    def _listen(self, timeout_s: float | None) -> None:
        if timeout_s is None and self._wanted:
            timeout_s = 0
        control = self._control.fileno()
        readable, _, _ = select.select([control, self._ended], [], [], timeout_s)
        if self._ended in readable:
            os.read(self._ended, 4096)
        if control in readable:
            packet, fds, _, _ = socket.recv_fds(self._control, PACKET_SIZE_MAX, 1)
            if not packet:
                raise SystemExit
            self._wanted.append(Birth(**json.loads(packet), output_fd=fds[0]))
        self._tell_deaths()

    def _tell_deaths(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                status = os.waitstatus_to_exitcode(ended[1])
                self._tell({"pid": ended[0], "status": status})

    def _fork(self, birth: Birth) -> bool:
        """Whether this is the fork."""
        gc.freeze()  # so that no collection writes to memory that is shared
        pid = os.fork()
        if pid:
            os.close(birth.output_fd)
            self._tell({"id": birth.id, "pid": pid})
            return False
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._control.close()
        for fd in (*self._fds, *(other.output_fd for other in self._wanted)):
            os.close(fd)
        return True

    def _tell(self, packet: dict[str, Any]) -> None:
        try:
            self._control.send(json.dumps(packet).encode())
        except OSError:
            raise SystemExit from None  # the supervisor has gone


def _ignore(signal: int, frame: FrameType | None) -> None:
    """It has only to wake `select`, by the wake-up fd."""


def become(birth: Birth, pipe_fd: int, parent: int) -> None:
    """Be the process that was asked for, as if it had been started on its own."""
    os.setpgid(0, 0)  # Ctrl-C is for the supervisor alone
    os.dup2(birth.output_fd, 1)
    os.dup2(birth.output_fd, 2)
    os.close(birth.output_fd)
    os.environ.update(birth.environment)
    os.environ.update(supervisor_entry(pipe_fd, parent))
    sys.argv = ["halfpast", *birth.words]
    gc.enable()
    name_process(sys.argv)


def name_process(words: list[str]) -> None:
    """What `ps` shows: the command line, as if this had been typed."""
    from setproctitle import setproctitle

    setproctitle(" ".join(words))


def main() -> None:
    """`python -m halfpast_api.nursery CONTROL_FD`, started by a supervisor."""
    from halfpast_api.serving import load_structlog, serve

    die_with_parent(os.environ)
    pipe_fd = int(os.environ[VARIABLE].partition(":")[2])
    control = socket.socket(fileno=int(sys.argv[1]))
    name_process(["halfpast", "nursery"])
    load_structlog()
    parent = os.getpid()
    birth = Nursery(control).run()
    become(birth, pipe_fd, parent)
    serve()


if __name__ == "__main__":
    main()
