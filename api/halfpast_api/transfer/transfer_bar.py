"""What people see while events move: a bar on a terminal, nothing in a pipe."""

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    SpinnerColumn,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)


class TransferBar:
    """On stderr. `total` is in whatever `move` counts, None if nobody knows it."""

    def __init__(self, what: str, total: int | None, start: int = 0) -> None:
        console = Console(stderr=True)
        columns = [SpinnerColumn(), TextColumn("{task.description}")]
        if total is not None:
            columns += [BarColumn(), TaskProgressColumn(), TimeRemainingColumn()]
        self._bar = Progress(
            *columns,
            TextColumn("{task.fields[note]}"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task(what, total=total, completed=start, note="")

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

    def move(self, completed: int, note: str) -> None:
        """How far it is now."""
        self._bar.update(self._task, completed=completed, note=note)

    def tell(self, text: str) -> None:
        """A line above the bar; on stderr where there is none."""
        self._bar.console.print(text, markup=False, highlight=False, soft_wrap=True)
