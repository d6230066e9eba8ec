"""Files that cannot go away any more, since we have them open.

Retention deletes segments, and RocksDB its files, while we copy. What is open stays
readable all the same, and nothing has to be written into the data folder.
"""

import os
import resource
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self


class HeldFiles:
    """All files of a folder whose names end so. Used inside `with`."""

    def __init__(self, folder: Path, suffix: str) -> None:
        self._folder = folder
        self._suffix = suffix
        self._held: dict[str, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for fd in self._held.values():
            os.close(fd)

    def look(self) -> set[str]:
        """Hold what has come; gives the names that are there now."""
        try:
            there = {it for it in os.listdir(self._folder) if it.endswith(self._suffix)}
        except FileNotFoundError:
            return set()
        for name in sorted(there - self._held.keys()):
            try:
                fd = os.open(self._folder / name, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                there.discard(name)  # gone again
                continue
            self._held[name] = fd
        return there

    @property
    def names(self) -> list[str]:
        return sorted(self._held)

    def fd(self, name: str) -> int:
        return self._held[name]

    def stat(self, name: str) -> os.stat_result:
        return os.fstat(self._held[name])


@contextmanager
def many_files() -> Generator[None]:
    """Open as many as the machine allows: an index has one for every few megabytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
