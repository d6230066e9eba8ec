"""A process and all its descendants, as /proc shows them (Linux only).

A process that has ended but was not waited for yet (a zombie) counts as gone: it
holds no file, no lock and no port any more.
"""

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
TICK_S = 1 / os.sysconf("SC_CLK_TCK")
PAGE_MB = os.sysconf("SC_PAGE_SIZE") / 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeUsage:
    """Memory in MB (10^6 bytes) and CPU seconds, summed over a tree.

    `rss_mb` counts pages of mapped files too, which the kernel takes back when it
    needs them; `anonymous_mb` is what the processes hold themselves.
    """

    rss_mb: float
    anonymous_mb: float
    cpu_s: float
    process_count: int


def tree_of(pid: int) -> list[int]:
    """`pid` and its living descendants, parents first."""
    children: dict[int, list[int]] = {}
    for entry in PROC.iterdir():
        stat = _stat(int(entry.name)) if entry.name.isdigit() else None
        if stat is not None and stat[0] != "Z":
            children.setdefault(int(stat[1]), []).append(int(entry.name))
    found = [pid] if is_alive(pid) else []
    pending = [pid]
    while pending:
        below = children.get(pending.pop(), [])
        found += below
        pending += below
    return found


def is_alive(pid: int) -> bool:
    """Whether the process still runs (a zombie does not)."""
    stat = _stat(pid)
    return stat is not None and stat[0] != "Z"


def command_line(pid: int) -> list[str]:
    """The arguments that the process was started with, or says that it was, as a
    service of `up` does; empty if it is gone."""
    try:
        raw = (PROC / str(pid) / "cmdline").read_bytes()
    except OSError:
        return []
    words = [part.decode(errors="replace") for part in raw.split(b"\0") if part]
    return words[0].split() if len(words) == 1 else words


def usage_of(pids: list[int]) -> TreeUsage:
    """What these processes use now. CPU of those that ended is not in it."""
    rss_pages = anonymous_pages = 0
    ticks = 0
    count = 0
    for pid in pids:
        stat = _stat(pid)
        if stat is None or stat[0] == "Z":
            continue
        count += 1
        ticks += int(stat[11]) + int(stat[12])  # utime, stime
        rss_pages += int(stat[21])
        anonymous_pages += int(stat[21]) - _file_pages(pid)
    return TreeUsage(
        rss_mb=rss_pages * PAGE_MB,
        anonymous_mb=anonymous_pages * PAGE_MB,
        cpu_s=ticks * TICK_S,
        process_count=count,
    )


def kill_all(pids: list[int], timeout_s: float = 5.0) -> None:
    """SIGKILL these processes, parents first, and wait until all are gone."""
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    deadline = time.monotonic() + timeout_s
    while any(is_alive(pid) for pid in pids):
        if time.monotonic() > deadline:
            raise TimeoutError(f"processes {pids} survive SIGKILL")
        time.sleep(0.002)


def _file_pages(pid: int) -> int:
    """Resident pages that belong to files (the third number of statm)."""
    try:
        return int((PROC / str(pid) / "statm").read_text().split()[2])
    except OSError:
        return 0


def _stat(pid: int) -> list[str] | None:
    """Fields of /proc/PID/stat from the state on, or None if it is gone."""
    try:
        text = (PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    return text[text.rindex(")") + 2 :].split()
