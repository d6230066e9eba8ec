"""The wall clock of the metadata, for time stamps only."""

import time


def system_now_ms() -> int:
    return time.time_ns() // 1_000_000
