"""NDJSON: one JSON object a line, of bounded length, in a file or from a pipe."""

import io
import select
from collections.abc import Iterator
from typing import BinaryIO, Final

from halfpast_api.transfer.errors import WrongFormat
from halfpast_api.transfer.line import LINE_SIZE_MAX, Line, Position

_BUFFER_SIZE: Final = 1024 * 1024
_SHOWN_SIZE: Final = 200
_POLL_MS: Final = 100
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


class NdjsonLines:
    """The lines of `file`, up to `size`: what is appended meanwhile is left alone.

    Memory is that of one line of `line_size_max`, however long the lines are.
    """

    def __init__(
        self,
        file: BinaryIO,
        size: int | None,
        *,
        name: str,
        line_size_max: int = LINE_SIZE_MAX,
    ) -> None:
        self.size = size
        self._name = name
        self._line_size_max = line_size_max
        self._raw = _Interruptible(file)
        self._file = io.BufferedReader(self._raw, _BUFFER_SIZE)

    def stop(self) -> None:
        self._raw.is_stopped = True

    def lines(self, start: Position) -> Iterator[Line]:
        """`start` must be the beginning where the file is a pipe."""
        if start.offset:
            self._file.seek(start.offset)
        number, at = start.line, start.offset
        while self.size is None or at < self.size:
            raw = self._file.readline(self._line_size_max + 1)
            if not raw or self._raw.is_stopped:
                return
            number += 1
            at += len(raw)
            if number == 1:
                raw = self._first(raw)
            if len(raw) <= self._line_size_max or raw.endswith(b"\n"):
                yield Line(number, at, raw)
                continue
            more = self._skip()
            at += more
            yield Line(number, at, raw[:_SHOWN_SIZE], self._too_long(len(raw) + more))

    def _skip(self) -> int:
        """Go to the end of the line; how many bytes that was."""
        skipped = 0
        while piece := self._file.readline(_BUFFER_SIZE):
            skipped += len(piece)
            if piece.endswith(b"\n"):
                break
        return skipped

    def _too_long(self, size: int) -> str:
        return f"the line has {size} bytes, the limit is {self._line_size_max}"

    def _first(self, raw: bytes) -> bytes:
        """The first line, if this is NDJSON at all."""
        raw = raw.removeprefix(_BYTE_ORDER_MARK)
        if raw.startswith(b"PAR1"):
            hint = "give --format parquet"
            raise WrongFormat(self._name, "is a Parquet file", hint)
        if raw.lstrip().startswith(b"["):
            raise WrongFormat(
                self._name,
                "begins with a JSON array, but it must have one event on each line",
                f"jq -c '.[]' {self._name} | halfpast import -",
            )
        if raw.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in raw[:_SHOWN_SIZE]:
            hint = "write it in UTF-8, one JSON object on each line"
            raise WrongFormat(self._name, "is not a text in UTF-8", hint)
        return raw


class _Interruptible(io.RawIOBase):
    """A file that seems to end once it has been stopped, also while nothing comes."""

    def __init__(self, file: BinaryIO) -> None:
        self.is_stopped = False
        self._file = file
        self._is_seekable = file.seekable()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return self._is_seekable

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def readinto(self, buffer: "memoryview[int] | bytearray") -> int:  # type: ignore[override]
        if not self._is_seekable:
            waiting = select.poll()
            waiting.register(self._file, select.POLLIN)
            while not self.is_stopped and not waiting.poll(_POLL_MS):
                pass
        if self.is_stopped:
            return 0
        return self._file.readinto(buffer)  # type: ignore[attr-defined,no-any-return]
