"""Who is told how many bytes there are to move, and how many have been."""

from types import TracebackType
from typing import Protocol, Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)


class Watch(Protocol):
    """Told by whoever copies or reads files."""

    def expect(self, size: int) -> None:
        """So many more bytes are to be moved."""
        ...

    def moved(self, size: int) -> None:
        """So many more bytes have been moved."""
        ...


class Unwatched:
    """Nobody looks."""

    def expect(self, size: int) -> None:
        """Not shown."""

    def moved(self, size: int) -> None:
        """Not shown."""


class WatchBar:
    """A bar on stderr where that is a terminal, nothing elsewhere."""

    def __init__(self, what: str) -> None:
        console = Console(stderr=True)
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(binary_units=True),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._total = 0
        self._task = self._bar.add_task(what, total=None)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def expect(self, size: int) -> None:
        self._total += size
        self._bar.update(self._task, total=self._total)

    def moved(self, size: int) -> None:
        self._bar.advance(self._task, size)
