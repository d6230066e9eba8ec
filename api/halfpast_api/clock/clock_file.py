"""What a data folder knows of its virtual clock: `virtual-clock.json`.

Such a folder and one that lives by the machine's clock are never mistaken for each
other: who is a month ahead would have a month's events overdue, or none for a month.
"""

import time
from pathlib import Path
from typing import Final, Self

import msgspec

from halfpast_api.clock.errors import (
    ClockFileDamaged,
    ClockIsAhead,
    FolderHasRealTime,
    FolderHasVirtualTime,
)
from halfpast_api.times import render_instant

NAME: Final = "virtual-clock.json"
_MANIFEST: Final = "halfpast.json"


class _Content(msgspec.Struct):
    now_ms: int
    now: str = ""


class ClockFile:
    """Where the clock stands, for the next start."""

    def __init__(self, path: Path, now_ms: int) -> None:
        self._path = path
        self.now_ms = now_ms

    @classmethod
    def open(cls, folder: Path, at_ms: int | None) -> Self:
        """The clock of a folder, set to `at_ms` or else where it stood; that of a new
        folder to the machine's time. Raises ClockError."""
        path = folder / NAME
        kept_ms = _read(path)
        if kept_ms is None:
            if (folder / _MANIFEST).exists():
                raise FolderHasRealTime(folder)
            now_ms = time.time_ns() // 1_000_000 if at_ms is None else at_ms
        elif at_ms is not None and at_ms < kept_ms:
            raise ClockIsAhead(folder, render_instant(kept_ms))
        else:
            now_ms = kept_ms if at_ms is None else at_ms
        file = cls(path, now_ms)
        folder.mkdir(parents=True, exist_ok=True)
        file.keep(now_ms)
        return file

    def keep(self, now_ms: int) -> None:
        """Note where the clock stands, or is going to."""
        self.now_ms = now_ms
        fresh = self._path.with_suffix(".new")
        content = _Content(now_ms, render_instant(now_ms))
        fresh.write_bytes(msgspec.json.encode(content) + b"\n")
        fresh.replace(self._path)


def refuse_virtual(folder: Path) -> None:
    """For whoever goes by the machine's clock. Raises FolderHasVirtualTime."""
    kept_ms = _read(folder / NAME)
    if kept_ms is not None:
        raise FolderHasVirtualTime(folder, render_instant(kept_ms))


def _read(path: Path) -> int | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Content).now_ms
    except FileNotFoundError:
        return None
    except msgspec.DecodeError:
        raise ClockFileDamaged(path) from None
