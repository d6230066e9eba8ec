"""A supervised process ends when its supervisor does, even if that is killed.

Two ways, since neither is sure alone. The kernel's parent-death signal is at once,
but is lost if the supervisor died before it was asked for, and exists on Linux
only. The end of a pipe that the supervisor holds is always seen, by a thread.

The end is SIGKILL: a start recovers from anything, and a successor must not find
the data folder held by a process that is still tidying up.
"""

import ctypes
import os
import signal
import sys
import threading
from collections.abc import Mapping

VARIABLE = "HALFPAST_SUPERVISOR"
_PR_SET_PDEATHSIG = 1


def supervisor_entry(pipe_fd: int, parent: int | None = None) -> dict[str, str]:
    """What a supervisor adds to a child's environment; `pipe_fd` is inherited. `parent`
    is the child's parent, if that is not the supervisor itself."""
    return {VARIABLE: f"{parent or os.getpid()}:{pipe_fd}"}


def die_with_supervisor(environment: Mapping[str, str]) -> None:
    """To be called first thing by a process that may be supervised."""
    entry = environment.get(VARIABLE)
    if entry is None:
        return
    die_with_parent(environment)
    pipe_fd = entry.partition(":")[2]
    watch = threading.Thread(
        target=_watch, args=(int(pipe_fd),), name="deathwatch", daemon=True
    )
    watch.start()


def die_with_parent(environment: Mapping[str, str]) -> None:
    """The first of the two ways alone, which needs no thread."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != int(environment[VARIABLE].partition(":")[0]):
            _die()  # it died before we asked


def _watch(pipe_fd: int) -> None:
    try:
        os.read(pipe_fd, 1)  # nobody writes: this returns at its end
    finally:
        _die()


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
