"""Why a virtual clock cannot be used with a data folder.

ClockError
├── FolderHasRealTime      the folder lives by the machine's clock
├── FolderHasVirtualTime   the folder lives by a virtual clock
├── ClockIsAhead           its clock is further on than is asked for
└── ClockFileDamaged       its clock cannot be read
"""

from pathlib import Path

from halfpast_core_store.errors import StoreError


class ClockError(StoreError):
    """The folder and the clock do not go together."""


class FolderHasRealTime(ClockError):
    """A virtual clock would fire what waits for its real time."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.folder = folder

    def __str__(self) -> str:
        return (
            f"{self.folder} lives by the machine's clock; give a virtual one a folder "
            "of its own: --data FOLDER"
        )


class FolderHasVirtualTime(ClockError):
    """By the machine's clock, all that is in there would be in the future."""

    def __init__(self, folder: Path, now: str) -> None:
        super().__init__(folder, now)
        self.folder = folder
        self.now = now

    def __str__(self) -> str:
        return (
            f"{self.folder} lives by a virtual clock, which shows {self.now}; go on "
            "with 'halfpast dev --clock virtual', or take another folder"
        )


class ClockIsAhead(ClockError):
    """Clocks never go back."""

    def __init__(self, folder: Path, now: str) -> None:
        super().__init__(folder, now)
        self.folder = folder
        self.now = now

    def __str__(self) -> str:
        return (
            f"the clock of {self.folder} shows {self.now} already; give a later --at, "
            "none to go on there, or another --data"
        )


class ClockFileDamaged(ClockError):
    """Nobody knows what time it is in this folder."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.path = path

    def __str__(self) -> str:
        return f"{self.path} cannot be read; take another folder: --data FOLDER"
