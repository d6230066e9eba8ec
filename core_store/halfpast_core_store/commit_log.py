"""The commit log: frames, one behind the other, in preallocated segments.

A segment is a file of fixed size, named by the position of its first byte. Only
one frame at a time is on its way to the disk: the next is written when the last
one is durable. Hence an unfinished write can only be the very last frame, and a
damaged frame with an intact one behind it is never an unfinished write. That is
how recovery tells the tail, which it cuts, from corruption, which it refuses.

Life of a frame: `admit` (takes its position; event loop) → `write` (seals, writes,
syncs; any thread) → `complete` (event loop). Not thread-safe otherwise.
"""

import errno
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from .config import LogConfig
from .errors import (
    CorruptLog,
    ForeignFolder,
    LogBehindIndex,
    Overloaded,
    RequestTooLarge,
    StoreFull,
)
from .frame import (
    ALIGNMENT,
    FLAG_END,
    HEADER_SIZE,
    Draft,
    FrameHeader,
    draft_frame,
    peek_header,
    seal_frame,
)
from .ports import Disk
from .segment import (
    Segment,
    intact_frame,
    next_intact,
    open_segments,
    plausible_header,
    segment_name,
    wipe,
)

# Sealing a small frame takes less time than handing the GIL to the thread that
# writes; from here on it is the other way round.
SMALL_FRAME_SIZE = 64 * 1024
ROLL_MS = 100  # in which a next segment surely is prepared
VERIFIED_COUNT_MAX = 65_536
NO_ROOM = frozenset((errno.ENOSPC, errno.EDQUOT))
DISK_FULL = "the disk is full; free space or add a larger disk"


@dataclass(slots=True)
class LogWrite:
    """A frame and where it goes; `closes` is a segment to be ended before it.
    `parts` are its bytes if it is small; a large one is sealed when it is written."""

    draft: Draft
    segment: Segment
    closes: tuple[Segment, int] | None = None
    parts: list[bytes] | None = None


class CommitLog:
    """An append-only sequence of atomic frames that survives crashes."""

    def __init__(self, disk: Disk, config: LogConfig, salt: int) -> None:
        self._disk = disk
        self._config = config
        self._salt = salt
        self.frame_size_max = min(
            config.frame_size_max, config.segment_size - HEADER_SIZE
        )
        """No frame may be longer than this."""
        self.segments = open_segments(disk)
        self._next: Segment | None = None
        self._next_error = ""
        self._forgotten: list[Segment] = []
        self._verified: dict[int, None] = {}
        self._trusted_from = 0
        self.epoch = 0
        self.tail = 0
        """Where the next frame goes."""
        self.durable_end = 0
        """Everything before this position survives a power cut."""
        self.durable_ms = 0
        """When the last frame before that position was stored."""

    @property
    def start(self) -> int:
        """The position of the oldest byte that is still kept."""
        return self.segments[0].base if self.segments else 0

    @property
    def size(self) -> int:
        return sum(segment.file.size for segment in self.segments)

    # --- recovery -------------------------------------------------------------

    def recover(
        self, position: int, applied_end: int = 0
    ) -> Iterator[tuple[FrameHeader, bytes]]:
        """Yield every intact frame from `position` on, then be ready to append.

        `position` is where a frame begins (the log's start, or what an index has
        applied). Must be exhausted. Raises CorruptLog, changing nothing, where an
        intact frame lies behind a damaged one, and LogBehindIndex where the log
        ends before `applied_end`: then the last frame is no unfinished write.
        """
        if not self.segments:
            self.segments.append(self._must_create(position))
        self._trusted_from = position
        segment = self._segment_at(position)
        while True:
            found = intact_frame(segment, position, self._salt)
            if found is None:
                break
            header, frame = found
            self.epoch = max(self.epoch, header.epoch)
            if header.flags & FLAG_END:
                position = segment.end
                if segment is self.segments[-1]:
                    self.segments.append(self._must_create(position))
                segment = self._segment_at(position)
                continue
            yield header, frame
            self.durable_ms = header.stored_ms
            position += header.length
        self._refuse_damage(segment, position)
        if position < applied_end:
            raise LogBehindIndex(position, applied_end)
        wipe(segment, position)
        self._sync_tail(segment)
        self.tail = self.durable_end = position
        self._adopt_tail(segment)

    def _sync_tail(self, segment: Segment) -> None:
        """The process that wrote the last frame, or the END before it, may have been
        killed before it synced that: then it was not durable until now."""
        at = self.segments.index(segment)
        for written in self.segments[max(0, at - 1) : at + 1]:
            written.file.sync()

    def _refuse_damage(self, segment: Segment, position: int) -> None:
        for later in self.segments[self.segments.index(segment) :]:
            first = max(position + ALIGNMENT, later.base)
            behind = next_intact(later, first, self._salt)
            if behind is not None:
                raise CorruptLog(segment.name, position, behind)

    def _adopt_tail(self, segment: Segment) -> None:
        """Append in `segment`; what was prepared behind it is blank, keep one."""
        at = self.segments.index(segment) + 1
        spare = self.segments[at:]
        del self.segments[at:]
        for extra in spare:
            if self._next is None and extra.file.size == self._config.segment_size:
                wipe(extra, extra.base)
                self._next = extra
            else:
                extra.file.close()
                self._disk.delete(extra.name)
        self.prepare_next()

    # --- appending ------------------------------------------------------------

    def check_room(self, waiting: int, length: int, *, use_reserve: bool) -> None:
        """Raise StoreFull unless `length` more bytes than `waiting` surely fit, or
        Overloaded if they will, but not before what waits has been written.

        The promise holds because the next segment is allocated ahead: what has
        been admitted fits into the rest of this one or wholly into that one.
        """
        if length > self.frame_size_max:
            raise RequestTooLarge(length, self.frame_size_max)
        needed = waiting + length + HEADER_SIZE
        if not use_reserve:
            needed += min(self._config.reserve_size, self._config.segment_size // 8)
        room = self.segments[-1].end - self.tail
        if needed <= room:
            return
        if self._next is None and self._next_error:
            raise StoreFull(needed, self._next_error)
        if self._next is None or needed > self._next.file.size:
            raise Overloaded("log", ROLL_MS)

    def next_position(self, length: int) -> int:
        """Where a frame of `length` bytes will go."""
        if self.segments[-1].end - self.tail >= length + HEADER_SIZE:
            return self.tail
        return self.segments[-1].end

    def admit(self, draft: Draft) -> LogWrite:
        """Take the place that `next_position` told. The caller then must `write`."""
        assert draft.position == self.next_position(draft.header.length)
        segment = self.segments[-1]
        closes = None
        if draft.position != self.tail:
            assert self._next is not None, "check_room has promised a next segment"
            closes = (segment, self.tail)
            segment, self._next = self._next, None
            self.segments.append(segment)
        self.tail = draft.end
        parts = None
        if draft.header.length <= SMALL_FRAME_SIZE:
            parts = seal_frame(draft, self._salt)
        return LogWrite(draft, segment, closes, parts)

    def write(self, write: LogWrite) -> None:
        """Write and sync one frame. Blocks; raises OSError, which is fatal.

        Frames must be written one at a time, in the order they were admitted.
        """
        if write.closes is not None:
            segment, position = write.closes
            self._close_segment(segment, position, write.draft.header.stored_ms)
        parts = write.parts or seal_frame(write.draft, self._salt)
        at = write.draft.position - write.segment.base
        write.segment.file.write(at, parts)
        write.segment.file.sync()
        if write.closes is not None:
            self.prepare_next()

    def complete(self, write: LogWrite) -> None:
        """The frame is durable: readers may see it."""
        self.durable_end = write.draft.end
        self.durable_ms = write.draft.header.stored_ms

    def prepare_next(self) -> None:
        """Allocate the segment behind the last one, if the disk has room.

        A full disk is remembered and told by `check_room`; call again later.
        """
        if self._next is not None:
            return
        try:
            self._next = self._create_segment(self.segments[-1].end)
            self._next_error = ""
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            self._next_error = DISK_FULL

    @property
    def needs_next(self) -> bool:
        return self._next is None

    def _close_segment(self, segment: Segment, position: int, stored_ms: int) -> None:
        end = draft_frame(
            [],
            position=position,
            stored_ms=stored_ms,
            epoch=self.epoch,
            flags=FLAG_END,
        )
        segment.file.write(position - segment.base, seal_frame(end, self._salt))
        segment.file.sync()

    def _must_create(self, base: int) -> Segment:
        try:
            return self._create_segment(base)
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            raise StoreFull(self._config.segment_size, DISK_FULL) from error

    def _create_segment(self, base: int) -> Segment:
        name = segment_name(base)
        return Segment(base, self._disk.create(name, self._config.segment_size))

    # --- reading --------------------------------------------------------------

    def read_frame(self, position: int) -> tuple[FrameHeader, bytes]:
        """The whole frame at `position`, verified. Raises CorruptLog."""
        segment = self._segment_at(position)
        found = intact_frame(segment, position, self._salt)
        if found is None:
            raise CorruptLog(segment.name, position, -1)
        return found

    def read_header(self, position: int) -> FrameHeader:
        """The header of the frame at `position`, of which we know that it begins
        there. Raises CorruptLog if it does not look like one."""
        segment = self._segment_at(position)
        header = plausible_header(segment, position)
        if header is None:
            raise CorruptLog(segment.name, position, -1)
        return header

    def read_part(self, position: int, start: int, end: int) -> bytes:
        """Bytes `start` to `end` of the frame at `position`.

        A frame that this process has neither written nor verified yet is
        verified first: a flipped bit is reported, never returned.
        """
        if position < self._trusted_from and position not in self._verified:
            self.read_frame(position)
            if len(self._verified) >= VERIFIED_COUNT_MAX:
                self._verified.clear()
            self._verified[position] = None
        segment = self._segment_at(position)
        at = position - segment.base
        return segment.file.read(at + start, at + end)

    def frames_from(self, position: int) -> Iterator[FrameHeader]:
        """Headers of durable frames from `position` on, hopping over bodies."""
        position = max(position, self.start)
        while position < self.durable_end:
            header = self.read_header(position)
            if header.flags & FLAG_END:
                position = self._segment_at(position).end
                continue
            yield header
            position += header.length

    def _segment_at(self, position: int) -> Segment:
        segments = self.segments
        last = segments[-1]
        if position >= last.base:
            return last
        for segment in segments:
            if segment.base <= position < segment.end:
                return segment
        raise ForeignFolder(segment_name(position), "this part of the log is not kept")

    # --- retention ------------------------------------------------------------

    def expired(self, now_ms: int, keep_from: int) -> list[Segment]:
        """The oldest segments that may go: by age or size, wholly before
        `keep_from`, and never the one that is written."""
        config = self._config
        size = self.size
        gone: list[Segment] = []
        for segment, following in pairwise(self.segments):
            first = peek_header(following.file.read(0, HEADER_SIZE))
            too_old = first is not None and (
                first.stored_ms < now_ms - config.retention_ms
            )
            too_much = 0 < config.retention_size < size
            if segment.end > keep_from or not (too_old or too_much):
                break
            size -= segment.file.size
            gone.append(segment)
        return gone

    def forget(self, segments: list[Segment]) -> None:
        """Let these oldest segments be no part of the log; `delete_forgotten`
        then frees their room. Until it has, a new start finds them again."""
        for segment in segments:
            assert segment is self.segments[0]
            del self.segments[0]
            self._forgotten.append(segment)

    @property
    def has_forgotten(self) -> bool:
        return bool(self._forgotten)

    def delete_forgotten(self) -> None:
        """Delete the files of forgotten segments, oldest first. Blocks for long, as
        file systems free large files slowly; on the thread that writes."""
        while self._forgotten:
            segment = self._forgotten[0]
            self._disk.delete(segment.name)
            segment.file.close()
            del self._forgotten[0]

    def nearly_full(self) -> bool:
        """Whether the file system is past the high watermark."""
        total = self._disk.total_bytes()
        free = self._disk.free_bytes()
        return total > 0 and free < total * (1 - self._config.disk_used_max)

    def close(self) -> None:
        for segment in [*self._forgotten, *self.segments, *filter(None, [self._next])]:
            segment.file.close()
