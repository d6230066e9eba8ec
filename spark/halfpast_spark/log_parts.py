"""Which parts of the log to read, each for one task.

Parts begin where frames do, so that what is missing between two intact frames is told
by exactly one of them. A long segment is cut near multiples of `split_bytes`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from .log_file import DELETED, MISSING, LogFile
from .log_folder import Horizon, LogFolder, SegmentFile
from .log_reader import LogPart
from .options import EARLIEST, Bound
from .row_filter import FOREVER_MS, RowFilter


def position_of(bound: Bound, horizon: Horizon) -> int | None:
    """The position that a bound names; None for a time. It may be one that is deleted:
    the rows then tell of that gap."""
    if bound.position is not None:
        return min(bound.position, horizon.end)
    if bound.time_ms is not None:
        return None
    return horizon.start if bound.word == EARLIEST else horizon.end


def begin_before(folder: LogFolder, time_ms: int) -> int | None:
    """Where the last segment begins that has a beginning before a time; None if the
    log that is there is younger."""
    found: int | None = None
    for segment in folder.segments():
        try:
            with LogFile(segment.path, segment.base, folder.salt) as file:
                frame = file.frame_at(segment.base)
        except FileNotFoundError:
            continue
        if frame is not None and frame.stored_ms < time_ms:
            found = segment.base
    return found


def plan_parts(
    folder: LogFolder, start: int, end: int, split_bytes: int
) -> list[LogPart]:
    """Parts that together are the log from `start` up to before `end`, in order."""
    parts: list[LogPart] = []
    segments = folder.segments()
    at = start
    for segment in segments:
        if segment.end <= at or segment.base >= end:
            continue
        if at < segment.base:
            why = MISSING if segment is not segments[0] else DELETED
            parts.append(absent(folder, at, segment.base, why))
            at = segment.base
        until = min(end, segment.end)
        parts += segment_parts(folder, segment, at, until, split_bytes)
        at = until
    if at < end:
        is_before_all = all(segment.base >= end for segment in segments)
        why = DELETED if segments and is_before_all else MISSING
        parts.append(absent(folder, at, end, why))
        parts[-1] = replace(parts[-1], stored_ms=_first_ms(folder, segments, end))
    return parts


def _first_ms(folder: LogFolder, segments: Sequence[SegmentFile], position: int) -> int:
    """When the first segment from a position on begins; 0 if there is none."""
    for segment in segments:
        if segment.base >= position:
            try:
                with LogFile(segment.path, segment.base, folder.salt) as file:
                    frame = file.frame_at(segment.base)
            except FileNotFoundError:
                continue
            return 0 if frame is None else frame.stored_ms
    return 0


def absent(folder: LogFolder, start: int, end: int, why: str) -> LogPart:
    """A part of the log that is not there."""
    return LogPart("", start, start, end, 0, folder.salt, why)


def segment_parts(
    folder: LogFolder, segment: SegmentFile, start: int, end: int, split_bytes: int
) -> Iterator[LogPart]:
    """The parts of one segment between two positions."""
    cuts = [start]
    times: dict[int, int] = {}
    try:
        with LogFile(segment.path, segment.base, folder.salt) as file:
            first = (start - segment.base) // split_bytes + 1
            for wanted in range(segment.base + first * split_bytes, end, split_bytes):
                if wanted <= cuts[-1]:
                    continue
                cut = file.next_frame(wanted)
                if cut is None or cut >= end:
                    break
                cuts.append(cut)
            for cut in cuts:
                frame = file.frame_at(cut)
                times[cut] = 0 if frame is None else frame.stored_ms
    except FileNotFoundError:
        pass  # its reader tells
    for cut, following in pairwise([*cuts, end]):
        time_ms = times.get(cut, 0)
        yield LogPart(segment.path, segment.base, cut, following, time_ms, folder.salt)


def within_times(parts: Sequence[LogPart], wanted: RowFilter) -> list[LogPart]:
    """The parts that may have frames of the wanted time; frames are in its order.
    Those of unknown time are among them, with that of their neighbours."""
    kept: list[LogPart] = []
    known_ms = [part.stored_ms for part in parts]
    following_ms = FOREVER_MS
    for i in reversed(range(len(parts))):
        is_over = following_ms < wanted.start_ms
        is_ahead = known_ms[i] and known_ms[i] >= wanted.end_ms
        if not is_over and not is_ahead:
            kept.append(parts[i])
        following_ms = known_ms[i] or following_ms
    return dated(kept[::-1])


def dated(parts: list[LogPart]) -> list[LogPart]:
    """The same, but with the time of the next part for those of unknown time; the last
    ones get that of the part before."""
    known_ms = 0
    for order in (range(len(parts))[::-1], range(len(parts))):
        for i in order:
            known_ms = parts[i].stored_ms or known_ms
            parts[i] = replace(parts[i], stored_ms=known_ms)
    return parts
