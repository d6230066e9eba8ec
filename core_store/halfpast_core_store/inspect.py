"""Looking at a data folder without changing it: what `halfpast doctor` reports.

Safe beside a running broker: files are opened for reading only, and the index is
left alone while somebody holds the folder's lock.
"""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from rocksdict import AccessType, Options, Rdict

from . import keys
from .errors import BrokenIndex, ForeignFolder, StoreError
from .folder import MANIFEST, Manifest, lock_holder, read_manifest
from .frame import FLAG_END
from .real_disk import RealFile, room_on_disk
from .segment import SUFFIX, Segment, find_magic, intact_frame, next_intact


@dataclass(slots=True, kw_only=True)
class SegmentReport:
    """One file of the log. Times are epoch ms, 0 where there is no frame.

    `status`: `full` (closed by an END frame), `tail` (where the log ends), `blank`
    (prepared, nothing in it), `torn` (ends in an unfinished frame, which recovery
    cuts off) or `corrupt` (damaged in the middle, at `damaged_at`).
    """

    name: str
    size: int
    frames: int = 0
    records: int = 0
    first_ms: int = 0
    last_ms: int = 0
    used: int = 0
    status: str = "blank"
    damaged_at: int = -1


@dataclass(slots=True, kw_only=True)
class FolderReport:
    """What a data folder holds, and what to do about it."""

    folder: str
    manifest: Manifest | None = None
    holder: str = ""
    """Who holds the broker's lock; empty if nobody does."""
    segments: list[SegmentReport] = field(default_factory=lambda: [])
    log_start: int = 0
    """Where the log that is kept begins: 0 until retention has cut it."""
    log_end: int = 0
    index_applied: int | None = None
    timers_applied: int | None = None
    free_bytes: int = 0
    total_bytes: int = 0
    broken: list[str] = field(default_factory=lambda: [])
    """Names of the folders of indexes that cannot be opened."""
    problems: list[str] = field(default_factory=lambda: [])

    @property
    def healthy(self) -> bool:
        return not self.problems


def inspect_folder(folder: Path) -> FolderReport:
    """Read all of a data folder and verify every frame. Changes nothing.

    Takes about a second per GiB of log. Raises OSError if it may not be read.
    """
    report = FolderReport(folder=str(folder))
    if not folder.is_dir():
        report.problems.append("there is no such folder; 'halfpast dev' makes one")
        return report
    report.free_bytes, report.total_bytes = room_on_disk(folder)
    if not (folder / MANIFEST).exists():
        report.problems.append(f"there is no {MANIFEST}: this is not a data folder")
        return report
    try:
        report.manifest = read_manifest(folder)
    except StoreError as error:
        report.problems.append(str(error))
        return report
    report.holder = lock_holder(folder, "broker")
    inspect_log(folder, report)
    if not report.holder:
        report.index_applied = inspect_index(folder / "index", report)
        compare_index(report)
    if not lock_holder(folder, "chronos"):
        report.timers_applied = inspect_index(folder / "chronos", report)
    if report.free_bytes < report.total_bytes // 20:
        report.problems.append(
            "the disk is more than 95 % full: sends are refused until there is room"
        )
    return report


def inspect_log(folder: Path, report: FolderReport) -> None:
    """Verify all segments in their order."""
    names = sorted(path.name for path in (folder / "log").glob(f"*{SUFFIX}"))
    end = -1
    last: SegmentReport | None = None  # where the log ends, as far as we can see
    for name in names:
        base = int(name[: -len(SUFFIX)])
        if end >= 0 and base != end:
            missing = ForeignFolder(name, f"the segment at {end} is missing")
            report.problems.append(str(missing))
            return
        found = SegmentReport(name=name, size=(folder / "log" / name).stat().st_size)
        end = base + found.size
        if not report.segments:
            report.log_start = base
        report.segments.append(found)
        if found.size == 0:
            continue
        segment = Segment(base, RealFile(folder / "log" / name, writable=False))
        try:
            log_end = inspect_segment(segment, found, report)
        finally:
            segment.file.close()
        if found.frames == 0 and last is not None:
            continue  # prepared for what comes behind the end
        if last is not None and not report.holder:  # a running one has gone on since
            damage(last, report, report.log_end, base)
        report.log_end = log_end
        last = None if log_end == end else found


def inspect_segment(
    segment: Segment, found: SegmentReport, report: FolderReport
) -> int:
    """Walk the frames of one segment; gives the position where that ends."""
    assert report.manifest is not None
    salt = report.manifest.salt
    position = segment.base
    while True:
        intact = intact_frame(segment, position, salt)
        if intact is None:
            behind = next_intact(segment, position, salt)
            if behind is None:
                break
            damage(found, report, position, behind)
            position = behind
            continue
        header, _ = intact
        position += header.length
        if header.flags & FLAG_END:
            found.used = position - segment.base
            found.status = found.status if found.damaged_at >= 0 else "full"
            return segment.end
        found.frames += 1
        found.records += header.record_count
        found.first_ms = found.first_ms or header.stored_ms
        found.last_ms = header.stored_ms
    found.used = position - segment.base
    if found.damaged_at < 0:
        found.status = "tail" if found.frames else "blank"
        if next(find_magic(segment, position), None) is not None:
            found.status = "torn"
    return position


def damage(
    found: SegmentReport, report: FolderReport, position: int, behind: int
) -> None:
    """Note the first place in a segment that should hold an intact frame, since
    one follows at `behind`."""
    if found.damaged_at >= 0:
        return
    found.damaged_at = position
    found.status = "corrupt"
    report.problems.append(
        f"segment {found.name} is damaged at {position}, and intact frames follow at "
        f"{behind}: restore it from a backup. What is damaged is refused when it is "
        "read, and a start that has to replay it fails, since it would have to cut off "
        "acknowledged data"
    )


def inspect_index(folder: Path, report: FolderReport) -> int | None:
    """How far an index has come; a broken one is noted."""
    try:
        return applied_of(folder)
    except BrokenIndex as error:
        report.problems.append(str(error))
        report.broken.append(folder.name)
        return None


def applied_of(folder: Path) -> int | None:
    """Up to which position an index has applied the log; None if there is none.

    Raises BrokenIndex.
    """
    if not (folder / "CURRENT").exists():
        return None
    with reading(folder) as database:
        value: bytes | None = database.get(keys.APPLIED)
    if value is None:
        return 0
    if len(value) == keys.PROGRESS.size:
        return int(keys.PROGRESS.unpack(value)[1])
    return keys.read_u64(value)


def count_keys(folder: Path, family: bytes) -> int:
    """How many keys of an index begin so. Takes about a second per million.

    Raises BrokenIndex.
    """
    count = 0
    with reading(folder) as database:
        iterator = database.iter()
        iterator.seek(family)
        while iterator.valid() and iterator.key().startswith(family):
            count += 1
            iterator.next()
        iterator.status()  # raises if an error ended it
    return count


@contextmanager
def reading(folder: Path) -> Generator[Rdict]:
    """An index that nobody holds; what was not flushed is not in it."""
    try:
        database = Rdict(
            str(folder),
            Options(raw_mode=True),
            access_type=AccessType.read_only(error_if_log_file_exist=False),
        )
        try:
            yield database
        finally:
            database.close()
    except Exception as error:  # RocksDB's have no type of their own
        raise BrokenIndex(str(folder), str(error)) from error


def compare_index(report: FolderReport) -> None:
    """An index may be behind the log, never ahead of it."""
    applied = report.index_applied
    if applied is not None and applied > report.log_end:
        report.problems.append(
            f"the index has applied the log up to {applied}, but the log ends at "
            f"{report.log_end}: acknowledged data is missing; restore the segments, "
            "or delete the folder index/ to accept the loss"
        )
