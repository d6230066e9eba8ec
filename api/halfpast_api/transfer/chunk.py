"""Chunks: the lines that travel in one request, the same ones in every run.

Where a chunk ends depends on the file alone: not on options, and not on what is
wrong in its lines. So a chunk's number names its content.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from halfpast_api.problems import Refusal
from halfpast_api.transfer.event_line import EventLines
from halfpast_api.transfer.line import Line, LineSource, Position

LINES_MAX: Final = 1_000
SIZE_MAX: Final = 512 * 1024
"""Bytes. The line that goes beyond it is the last one of its chunk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedLine:
    """An event that cannot be stored, and why. `raw` is its JSON, or what there is."""

    line: int
    code: str
    reason: str
    raw: bytes


@dataclass(slots=True, kw_only=True)
class Chunk:
    """Lines up to `end`. `events` are the good ones, on the lines `numbers`."""

    number: int
    end: Position
    line_count: int = 0
    events: list[bytes] = field(default_factory=list[bytes])
    numbers: list[int] = field(default_factory=list[int])
    refused: list[RefusedLine] = field(default_factory=list[RefusedLine])

    def add(self, line: Line, reader: EventLines) -> None:
        """Take one more line; blank ones hold nothing."""
        self.end = Position(line.end, line.number)
        self.line_count += 1
        raw = line.raw.strip()
        if line.fault:
            self._refuse(line, "invalid_line", line.fault)
        elif raw:
            try:
                self.events.append(reader.read(raw))
                self.numbers.append(line.number)
            except Refusal as refusal:
                self._refuse(line, refusal.code, refusal.detail)

    def _refuse(self, line: Line, code: str, reason: str) -> None:
        self.refused.append(
            RefusedLine(line=line.number, code=code, reason=reason, raw=line.raw)
        )


def chunks(
    source: LineSource, reader: EventLines, start: Position, number: int
) -> Iterator[Chunk]:
    """The rest of the file, of which `number` chunks end at `start`."""
    chunk = Chunk(number=number, end=start)
    size = 0
    for line in source.lines(start):
        chunk.add(line, reader)
        size += len(line.raw)
        if chunk.line_count == LINES_MAX or size >= SIZE_MAX:
            yield chunk
            number += 1
            chunk = Chunk(number=number, end=chunk.end)
            size = 0
    if chunk.line_count:
        yield chunk
