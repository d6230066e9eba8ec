"""A wall clock that a test can set, for real processes: libfaketime, preloaded.

Only the wall clock is false. Time that goes on by itself (CLOCK_MONOTONIC) stays true,
as it does when somebody sets a machine's clock; and so do the times of files.
"""

import ctypes.util
import time
from pathlib import Path

import pytest

from halfpast_loadtest.debian_packages import install

PACKAGE = "libfaketime"
PLACES = ("/usr/lib/*/faketime/libfaketime.so.1", "/usr/lib/faketime/libfaketime.so.1")


class FakeClock:
    """What processes that run with `environment` believe."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "clock"
        self._ahead_ms = 0
        self.set_ahead(0)
        self.environment = {
            "LD_PRELOAD": library(),
            "FAKETIME_TIMESTAMP_FILE": str(self._path),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "NO_FAKE_STAT": "1",
        }

    def set_ahead(self, seconds: int) -> int:
        """Set it to so much after the true time, or before; gives its time then."""
        fresh = self._path.with_suffix(".new")
        fresh.write_text(f"{seconds:+d}\n")
        fresh.rename(self._path)  # nobody reads half of it
        self._ahead_ms = seconds * 1000
        return self.now_ms()

    def now_ms(self) -> int:
        """Epoch milliseconds by this clock."""
        return time.time_ns() // 1_000_000 + self._ahead_ms


def library() -> str:
    """Where it is, installed if we may, or the test is skipped."""
    if failure := install([PACKAGE], lambda: bool(_find())):
        pytest.skip(f"needs libfaketime (Debian package {PACKAGE}): {failure}")
    return _find()


def _find() -> str:
    for place in PLACES:
        for path in Path("/").glob(place.lstrip("/")):
            return str(path)
    return ctypes.util.find_library("faketime") or ""
