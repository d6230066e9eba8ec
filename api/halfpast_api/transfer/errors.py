"""Why an import or export cannot go on, as one tree. `hint` says what to try.

TransferError
├── WrongFormat       the file is not what it was taken for
├── ParquetMissing    the library for Parquet is not installed
├── FileBusy          another import reads the same file
├── FileChanged       it is not the file any more that the import began with
├── OtherImport       the progress file belongs to another import
├── DamagedProgress   the progress file cannot be read
├── TooLongAgo        the server may have forgotten what it stored last
└── WouldOverwrite    a file is in the way
"""

from pathlib import Path


class TransferError(Exception):
    """Base of these errors."""

    hint = ""


class WrongFormat(TransferError):
    """The file cannot be read as NDJSON or Parquet; `why` says what is wrong."""

    def __init__(self, name: str, why: str, hint: str) -> None:
        super().__init__(name, why, hint)
        self.name = name
        self.why = why
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.name} {self.why}"


class ParquetMissing(TransferError):
    """Parquet needs a library that is not installed."""

    hint = "pip install 'halfpast[parquet]'"

    def __str__(self) -> str:
        return "Parquet files need pyarrow, which is not installed here"


class FileBusy(TransferError):
    """Another process imports this file just now."""

    hint = "wait for it, or stop it; then run this again"

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.path = path

    def __str__(self) -> str:
        return f"{self.path} is being imported by another process"


class FileChanged(TransferError):
    """The file differs from the one whose lines up to `line` were taken."""

    def __init__(self, path: Path, line: int, progress: Path) -> None:
        super().__init__(path, line, progress)
        self.path = path
        self.line = line
        self.progress = progress
        self.hint = (
            f"put the lines behind {line} into a file of their own and import that; "
            "or import this one from its beginning, the events of those lines a "
            "second time, with --restart"
        )

    def __str__(self) -> str:
        return (
            f"{self.path} has changed since lines 1 to {self.line} of it were imported"
        )


class OtherImport(TransferError):
    """The progress file was written with another `what`."""

    def __init__(self, progress: Path, what: str, then: str, now: str) -> None:
        super().__init__(progress, what, then, now)
        self.progress = progress
        self.what = what
        self.then = then
        self.now = now
        self.hint = (
            f"give the same {what} to go on there, or --restart to begin at line 1"
        )

    def __str__(self) -> str:
        return (
            f"{self.progress} is about an import with {self.what} {self.then}, "
            f"and this one has {self.now}"
        )


class DamagedProgress(TransferError):
    """The progress file cannot be read."""

    hint = (
        "remove it and run this again: what the server stored from the file within "
        "the last day is recognised there and not added again"
    )

    def __init__(self, progress: Path, why: str) -> None:
        super().__init__(progress, why)
        self.progress = progress
        self.why = why

    def __str__(self) -> str:
        return f"{self.progress} cannot be read: {self.why}"


class TooLongAgo(TransferError):
    """Interrupted so long ago that going on could add events a second time."""

    def __init__(self, path: Path, line: int, hours: int) -> None:
        super().__init__(path, line, hours)
        self.path = path
        self.line = line
        self.hours = hours
        self.hint = (
            f"look whether the event of line {line + 1} is there; if not, or if a few "
            "thousand events may be there twice, go on with --after-all"
        )

    def __str__(self) -> str:
        return (
            f"the import of {self.path} was interrupted behind line {self.line}, "
            f"{self.hours} hours ago, while events were under way; servers recognise "
            "repeated ones for a day only"
        )


class WouldOverwrite(TransferError):
    """A file is in the way, whose loss might hurt."""

    def __init__(self, path: Path, hint: str) -> None:
        super().__init__(path, hint)
        self.path = path
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.path} exists already"
