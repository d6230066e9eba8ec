"""A store's log, read from outside while its broker goes on, or with no broker.

Nothing here changes the folder, and nothing needs Spark: segments may be deleted by
retention at any moment, and grow at the end. What may be read ends at the *horizon*:
how far the log is durable (see `durable_mark.py` of the store).
"""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from halfpast_core_store.folder import (
    MANIFEST,
    lock_holder,
    read_manifest,
    read_mark,
)
from halfpast_core_store.segment import SUFFIX

from .errors import NoStore
from .log_file import Chunk, Gap, LogFile


@dataclass(frozen=True, slots=True)
class SegmentFile:
    """One file of the log, as it was seen in the folder."""

    path: str
    base: int
    size: int

    @property
    def end(self) -> int:
        return self.base + self.size


@dataclass(frozen=True, slots=True, kw_only=True)
class Horizon:
    """What of the log may be read: from `start` up to before `end`. All that was stored
    before `as_of_ms` lies before `end`; `store_id` names the store."""

    store_id: str
    start: int
    end: int
    as_of_ms: int


class LogFolder:
    """The data folder of a store."""

    def __init__(self, path: str) -> None:
        """Raises NoStore, NewerFormat, ForeignFolder."""
        self.path = Path(path)
        if not (self.path / MANIFEST).is_file():
            raise NoStore(path)
        manifest = read_manifest(self.path)
        self.salt = manifest.salt
        self.store_id = manifest.store_id

    def segments(self) -> list[SegmentFile]:
        """The files that are there now, in the order of the log."""
        found: list[SegmentFile] = []
        try:
            entries = sorted(os.scandir(self.path / "log"), key=lambda it: it.name)
        except FileNotFoundError:
            return []
        for entry in entries:
            stem = entry.name.removesuffix(SUFFIX)
            if not entry.name.endswith(SUFFIX) or not stem.isdigit():
                continue
            try:
                size = entry.stat().st_size
            except FileNotFoundError:
                continue  # retention was faster
            found.append(SegmentFile(entry.path, int(stem), size))
        return found

    def horizon(self) -> Horizon:
        """How far may be read now."""
        mark = read_mark(self.path, self.salt)
        segments = self.segments()
        start = segments[0].base if segments else 0
        if mark is None:
            end, as_of_ms = self._without_mark(segments)
        else:
            end, as_of_ms = max(start, mark.position), mark.as_of_ms
            seen, seen_ms, _ = self._go_on(segments, end)
            if seen > end:  # all but the last frame are durable
                end, as_of_ms = seen, max(as_of_ms, seen_ms)
        return Horizon(store_id=self.store_id, start=start, end=end, as_of_ms=as_of_ms)

    def _go_on(
        self, segments: list[SegmentFile], position: int
    ) -> tuple[int, int, int]:
        """From frame to intact frame, as far as they follow each other: where the last
        one begins, when it was stored, and where it ends."""
        last, last_ms, end = position, 0, position
        for segment in segments:
            if segment.end <= end:
                continue
            for chunk in self._chunks_until_gap(segment, max(end, segment.base)):
                frame = chunk.frames[-1]
                last, last_ms = frame.position, frame.stored_ms
                end = frame.position + frame.length
            if end < segment.end and not self._begins(segments, segment.end):
                break
        return last, last_ms, end

    def _without_mark(self, segments: list[SegmentFile]) -> tuple[int, int]:
        """Of a log without a mark, such as a copy: all that is there, unless somebody
        writes to it, for then the last frame need not be durable yet."""
        last, last_ms, end = 0, 0, 0
        for segment in reversed(segments):
            for chunk in self._chunks(segment, segment.base):
                if isinstance(chunk, Chunk):
                    frame = chunk.frames[-1]
                    last, last_ms = frame.position, frame.stored_ms
                    end = frame.position + frame.length
            if end:
                break
        held = bool(lock_holder(self.path, "broker"))
        return (last if held else end), last_ms

    def _chunks(self, segment: SegmentFile, position: int) -> Iterator[Chunk | Gap]:
        try:
            with LogFile(segment.path, segment.base, self.salt) as file:
                yield from file.chunks(position, segment.end)
        except FileNotFoundError:
            return  # retention was faster

    def _chunks_until_gap(self, segment: SegmentFile, position: int) -> Iterator[Chunk]:
        try:
            with LogFile(segment.path, segment.base, self.salt) as file:
                yield from file.chunks_until_gap(position)
        except FileNotFoundError:
            return

    def _begins(self, segments: list[SegmentFile], base: int) -> bool:
        """Whether the segment at `base` holds a first frame."""
        for segment in segments:
            if segment.base == base:
                with (
                    contextlib.suppress(FileNotFoundError),
                    LogFile(segment.path, base, self.salt) as file,
                ):
                    return file.frame_at(base) is not None
        return False
