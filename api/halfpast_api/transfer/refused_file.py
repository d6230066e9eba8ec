"""The events that were refused, as NDJSON: mended there, the file can be imported.

Each is as it was, with a member `refused` that tells where it came from and why:

    {"refused":{"line":12,"code":"event_too_large","reason":"…"},"topic":"t","data":…}

What is not even a JSON object stands in it as `text`.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, Final, Self

import msgspec

from halfpast_api.transfer.chunk import RefusedLine
from halfpast_api.transfer.errors import WouldOverwrite

SUFFIX: Final = ".refused.ndjson"
_encode: Final = msgspec.json.Encoder().encode


class RefusedFile:
    """Appends to the file, which is made when there is something to write.

    `count` is how many events were added by this run.
    """

    def __init__(self, path: Path, size: int) -> None:
        """Goes on behind `size` bytes; more may be there from a run that was killed
        before it had noted so. Raises WouldOverwrite."""
        self.path = path
        self.size = size
        self.count = 0
        self._file: BinaryIO | None = None
        if size:
            os.truncate(path, size)
        elif path.exists() and path.stat().st_size:
            raise WouldOverwrite(
                path, "it has refused events of an earlier import: import or remove it"
            )

    @classmethod
    def beside(cls, path: Path, size: int) -> Self:
        """The one that belongs to an imported file."""
        return cls(cls.path_beside(path), size)

    @staticmethod
    def path_beside(path: Path) -> Path:
        return path.with_name(path.name + SUFFIX)

    def add(self, refused: Sequence[RefusedLine]) -> None:
        """Write them, in their order."""
        if not refused:
            return
        if self._file is None:
            self._file = self.path.open("ab")
        text = b"".join(render_refused(line) for line in refused)
        self._file.write(text)
        self._file.flush()
        self.size += len(text)
        self.count += len(refused)

    def close(self) -> None:
        if self._file is not None:
            os.fsync(self._file.fileno())
            self._file.close()


def render_refused(line: RefusedLine) -> bytes:
    """As a line of the file."""
    why = {"line": line.line, "code": line.code, "reason": line.reason}
    try:
        event = msgspec.json.decode(line.raw, type=dict[str, msgspec.Raw])
        line.raw.decode()
    except ValueError:
        text = line.raw.decode(errors="replace").rstrip("\r\n")
        return _encode({"refused": {**why, "text": text}}) + b"\n"
    rendered = _encode({"refused": why} | event | {"refused": why})
    if b"\n" in rendered or b"\r" in rendered:  # in data from a Parquet file
        rendered = msgspec.json.format(rendered, indent=-1)
    return rendered + b"\n"
