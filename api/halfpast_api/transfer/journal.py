"""What an import has done, kept so that a later run goes on where this one ended."""

import fcntl
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, Final
from uuid import uuid4

from halfpast_api.transfer.chunk import Chunk
from halfpast_api.transfer.delivery import Delivered
from halfpast_api.transfer.errors import (
    FileBusy,
    FileChanged,
    OtherImport,
    TooLongAgo,
)
from halfpast_api.transfer.file_identity import FileIdentity
from halfpast_api.transfer.progress import KEYS_KNOWN, Progress, ProgressFile
from halfpast_api.transfer.refused_file import RefusedFile

_SAVE_S: Final = 0.1
STDIN_REFUSED: Final = Path("stdin.refused.ndjson")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOptions:
    """What an import is about, beside its file."""

    server: str
    topic: str | None
    format: str
    restarts: bool = False
    goes_on_after_all: bool = False


class Journal:
    """Progress and refused events of one import.

    `file` None means that there is nothing to go on with another time, as for a pipe.
    """

    def __init__(
        self,
        progress: Progress,
        refused: RefusedFile,
        key_prefix: str,
        path: Path | None,
        file: ProgressFile | None,
    ) -> None:
        self.progress = progress
        self.refused = refused
        self.key_prefix = key_prefix
        self._path = path
        self._file = file
        self._saved_s = 0.0
        self.is_resumed = progress.position.line > 0

    @classmethod
    def of_file(cls, path: Path, file: BinaryIO, options: ImportOptions) -> "Journal":
        """Go on where the last run ended, or begin. Raises a TransferError.

        The file is locked as long as it is open.
        """
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FileBusy(path) from None
        identity = FileIdentity.of(file)
        store = ProgressFile.beside(path)
        progress = None if options.restarts else store.load()
        if progress is not None and _is_worthless(progress, identity):
            _remove_refused(RefusedFile.path_beside(path), progress.refused_size)
            progress = None
        if progress is None:
            progress = _fresh(identity, options)
        else:
            _check(progress, identity, path, store.path, options)
        prefix = identity.key_prefix(options.format, options.topic or "")
        refused = RefusedFile.beside(path, progress.refused_size)
        return cls(progress, refused, prefix, path, store)

    @classmethod
    def of_pipe(cls, options: ImportOptions) -> "Journal":
        """Begin with something that cannot be read again. Raises WouldOverwrite."""
        progress = _fresh(FileIdentity(0, 0, ""), options)
        prefix = f"import-{uuid4().hex}"
        return cls(progress, RefusedFile(STDIN_REFUSED, 0), prefix, None, None)

    def begin(self) -> None:
        """Before anything is sent."""
        self.progress.is_settled = False
        self._save()

    def apart(self, chunk: int) -> list[int]:
        """What goes apart from the rest of this chunk."""
        return self.progress.apart.get(chunk, [])

    def note_apart(self, chunk: int, indexes: list[int]) -> None:
        self.progress.apart[chunk] = indexes
        self._save(sync=True)

    def commit(self, chunk: Chunk, done: Delivered) -> None:
        """The chunk is settled, and so are all before it. Raises FileChanged."""
        self.refused.add(done.refused)
        progress = self.progress
        progress.counts.add(done.counts)
        progress.position = chunk.end
        progress.chunk = chunk.number + 1
        progress.refused_size = self.refused.size
        progress.apart.pop(chunk.number, None)
        if time.monotonic() - self._saved_s >= _SAVE_S:
            self._save()
            self._check_unchanged()

    def end(self, *, is_settled: bool, is_complete: bool) -> None:
        """Nothing more will be sent by this run. Raises FileChanged."""
        self.progress.is_settled = is_settled
        self.progress.is_complete = is_complete
        self.refused.close()
        self._save(sync=True)
        if is_complete:
            self._check_unchanged()

    def _save(self, *, sync: bool = False) -> None:
        if self._file is not None:
            self._file.save(self.progress, sync=sync)
            self._saved_s = time.monotonic()

    def _check_unchanged(self) -> None:
        if self._path is None or self._file is None:
            return
        if not self.progress.file.still_holds(self._path):
            line = self.progress.position.line
            raise FileChanged(self._path, line, self._file.path)


def _fresh(identity: FileIdentity, options: ImportOptions) -> Progress:
    return Progress(
        file=identity,
        server=options.server,
        topic=options.topic,
        format=options.format,
    )


def _is_worthless(progress: Progress, identity: FileIdentity) -> bool:
    """Whether it is about another file, of which nothing has come to the server."""
    return (
        progress.file != identity and progress.is_settled and not progress.counts.taken
    )


def _remove_refused(path: Path, size: int) -> None:
    """Their file has been mended and is imported as a whole; unless they were."""
    with suppress(FileNotFoundError):
        if path.stat().st_size == size:
            path.unlink()


def _check(
    progress: Progress,
    identity: FileIdentity,
    path: Path,
    store: Path,
    options: ImportOptions,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> None:
    """Raise a TransferError unless it is safe to go on with `progress`."""
    line = progress.position.line
    if progress.file != identity:
        raise FileChanged(path, line, store)
    for what, then, this in (
        ("--server", progress.server, options.server),
        ("--topic", progress.topic or "none", options.topic or "none"),
        ("--format", progress.format, options.format),
    ):
        if then != this:
            raise OtherImport(store, what, then, this)
    age = progress.age(now())
    is_open = not progress.is_settled and not progress.is_complete
    if is_open and age > KEYS_KNOWN and not options.goes_on_after_all:
        raise TooLongAgo(path, line, round(age.total_seconds() / 3600))
