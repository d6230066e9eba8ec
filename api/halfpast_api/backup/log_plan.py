"""Which part of which segments belongs into a backup; decided without touching any."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from halfpast_api.backup.errors import NotAStore
from halfpast_core_store.segment import segment_name


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenSegment:
    """A segment that is held open."""

    base: int
    size: int

    @property
    def end(self) -> int:
        return self.base + self.size


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentPart:
    """The first `stored` bytes of a segment; one that is closed goes whole."""

    segment: SeenSegment
    stored: int


def plan_log(
    seen: Sequence[SeenSegment], *, kept_from: int, needed_from: int, end: int
) -> list[SegmentPart]:
    """Everything up to `end` that the log still has (`kept_from`), or that an index
    which was copied before still has to apply (`needed_from`).

    Raises NotAStore where the log has a gap or does not reach so far.
    """
    wanted = [
        segment
        for segment in sorted(seen, key=lambda it: it.base)
        if (segment.base >= kept_from or segment.end > needed_from)
        and segment.base < end
    ]
    for before, after in pairwise(wanted):
        if before.end != after.base:
            raise _missing(before.end)
    if wanted and wanted[-1].end < end:
        raise _missing(wanted[-1].end)
    if end > needed_from and (not wanted or wanted[0].base > needed_from):
        raise _missing(needed_from)
    return [
        SegmentPart(segment=it, stored=min(it.size, end - it.base)) for it in wanted
    ]


def _missing(position: int) -> NotAStore:
    return NotAStore(segment_name(position), "this part of the log is missing")
