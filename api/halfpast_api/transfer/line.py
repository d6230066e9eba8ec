"""What an import reads: events as JSON, one by one, and where each of them ends."""

from collections.abc import Iterator
from typing import Final, Protocol

import msgspec

from halfpast_api.config import BodyLimits

LINE_SIZE_MAX: Final = BodyLimits().single_max
"""Bytes: the largest body as base64, and room for the rest."""


class Position(msgspec.Struct, frozen=True):
    """A place between two lines: `line` of them and `offset` bytes are before it.

    In a Parquet file both count rows.
    """

    offset: int = 0
    line: int = 0


class Line(msgspec.Struct, gc=False):
    """One event. If `fault` says why it cannot be read, `raw` is its beginning."""

    number: int
    end: int
    raw: bytes
    fault: str = ""


class LineSource(Protocol):
    """A file. `size` is the offset of its end, None if nobody knows yet."""

    size: int | None

    def lines(self, start: Position) -> Iterator[Line]:
        """From a place on, always the same ones. May raise a TransferError."""
        ...

    def stop(self) -> None:
        """Make `lines` end soon, from another thread."""
        ...
