"""The least lateness that a durable delivery can have here: sleep, write, fdatasync.

One thread that sleeps until each due time, writes what is due then into a
preallocated file and syncs it. No network, no index, no other timers.
"""

import os
import tempfile
import time
from pathlib import Path

from halfpast_loadtest.latency import Latency, summarise

FILE_SIZE = 64 * 1024 * 1024
RECORD_BYTES = 400


def durable_timer_lateness(
    folder: Path, rate_per_s: int, seconds: float = 3.0
) -> Latency:
    """Lateness of `rate_per_s` deliveries a second, evenly spread, once synced."""
    interval_ns = 10**9 // rate_per_s
    record = os.urandom(RECORD_BYTES)
    late_ms: list[float] = []
    with tempfile.TemporaryFile(dir=folder) as file:
        fd = file.fileno()
        os.posix_fallocate(fd, 0, FILE_SIZE)
        os.fsync(fd)
        at = 0
        due_ns = time.monotonic_ns() + 10_000_000
        end_ns = due_ns + int(seconds * 1e9)
        while due_ns < end_ns:
            time.sleep(max(due_ns - time.monotonic_ns(), 0) / 1e9)
            count = (time.monotonic_ns() - due_ns) // interval_ns + 1
            if at + count * RECORD_BYTES > FILE_SIZE:
                at = 0
            os.pwrite(fd, record * count, at)
            os.fdatasync(fd)
            at += count * RECORD_BYTES
            now_ns = time.monotonic_ns()
            late_ms += ((now_ns - due_ns - n * interval_ns) / 1e6 for n in range(count))
            due_ns += count * interval_ns
    return summarise(late_ms)
