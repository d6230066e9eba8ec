"""The commit log: places, segments, room, reading and retention."""

from collections.abc import Sequence
from typing import NoReturn

import pytest

from halfpast_core_store.commit_log import CommitLog, LogWrite
from halfpast_core_store.config import LogConfig
from halfpast_core_store.errors import (
    CorruptLog,
    ForeignFolder,
    Overloaded,
    RequestTooLarge,
    StoreFull,
)
from halfpast_core_store.frame import HEADER_SIZE, draft_frame, frame_length, read_runs
from halfpast_core_store.memory_disk import MemoryDisk
from halfpast_core_store.record import RecordKind, encode_record
from halfpast_core_store.segment import segment_name

SALT = 9
SEGMENT = 4096
CONFIG = LogConfig(
    segment_size=SEGMENT,
    frame_size_max=SEGMENT,
    reserve_size=256,
    retention_ms=1000,
    disk_used_max=0.9,
)


def open_log(disk: MemoryDisk, config: LogConfig = CONFIG) -> CommitLog:
    log = CommitLog(disk, config, SALT)
    list(log.recover(log.start))
    return log


def admit(log: CommitLog, size: int, stored_ms: int = 0) -> LogWrite:
    """A frame of one record whose body has `size` bytes."""
    record = encode_record(RecordKind.NORMAL, body=b"x" * size)
    draft = draft_frame(
        [(1024, 0, 0, [record])],
        position=log.next_position(frame_length(1, len(record))),
        stored_ms=stored_ms,
        epoch=1,
        flags=0,
    )
    return log.admit(draft)


def append(log: CommitLog, size: int = 100, stored_ms: int = 0) -> int:
    write = admit(log, size, stored_ms)
    log.write(write)
    log.complete(write)
    return write.draft.position


def positions(log: CommitLog) -> list[int]:
    return [header.position for header in log.frames_from(log.start)]


def fill(log: CommitLog, frames: int) -> list[int]:
    return [append(log, 1000, i) for i in range(frames)]


def test_a_new_log_is_empty_and_has_the_next_segment_ready() -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    assert (log.start, log.tail, log.durable_end) == (0, 0, 0)
    assert disk.names() == [segment_name(0), segment_name(SEGMENT)]
    assert positions(log) == []


def test_frames_stand_one_behind_the_other() -> None:
    log = open_log(MemoryDisk())
    first, second = append(log, 100), append(log, 50)
    assert (first, second) == (0, frame_length(1, 164))
    assert log.tail == log.durable_end
    assert positions(log) == [first, second]


def test_a_frame_is_seen_when_it_is_complete() -> None:
    log = open_log(MemoryDisk())
    write = admit(log, 10)
    assert log.tail > log.durable_end == 0
    log.write(write)
    assert positions(log) == []
    log.complete(write)
    assert positions(log) == [0]


def test_a_frame_that_does_not_fit_begins_the_next_segment() -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    found = fill(log, 5)
    assert found[3] == SEGMENT
    assert positions(log) == found
    assert disk.names() == [segment_name(i * SEGMENT) for i in range(3)]


def test_a_frame_may_fill_a_segment_but_for_the_end() -> None:
    log = open_log(MemoryDisk())
    largest = log.frame_size_max - frame_length(1, 64)
    log.check_room(0, log.frame_size_max, use_reserve=True)
    assert append(log, largest) == 0
    assert append(log, largest) == SEGMENT
    assert positions(log) == [0, SEGMENT]


def test_a_larger_frame_is_refused() -> None:
    log = open_log(MemoryDisk())
    with pytest.raises(RequestTooLarge) as raised:
        log.check_room(0, log.frame_size_max + 1, use_reserve=True)
    assert raised.value.size_max == log.frame_size_max


def test_headers_frames_and_parts_can_be_read() -> None:
    log = open_log(MemoryDisk())
    append(log, 100)
    position = append(log, 10)
    assert log.read_header(position).record_count == 1
    header, frame = log.read_frame(position)
    (run,) = read_runs(frame, header)
    assert log.read_part(position, run.starts[0], run.starts[1])[-10:] == b"x" * 10


def test_reading_where_no_frame_begins_is_an_error() -> None:
    log = open_log(MemoryDisk())
    append(log)
    for read in (log.read_frame, log.read_header):
        with pytest.raises(CorruptLog) as raised:
            read(8)
        assert (raised.value.offset, raised.value.next_valid) == (8, -1)


def test_damage_is_met_by_the_first_reader_after_a_restart() -> None:
    disk = MemoryDisk()
    first = append(open_log(disk))
    log = CommitLog(disk, CONFIG, SALT)
    (header,) = [header for header, _ in log.recover(first)]
    append(log)
    log = CommitLog(disk, CONFIG, SALT)
    list(log.recover(header.length))  # an index has applied the first frame
    disk.damage(segment_name(0), 100, 4)
    with pytest.raises(CorruptLog):
        log.read_part(first, HEADER_SIZE, HEADER_SIZE + 10)


# --- room -------------------------------------------------------------------


def test_a_full_disk_is_told_before_anything_is_promised() -> None:
    disk = MemoryDisk(space=SEGMENT)
    log = open_log(disk)
    assert log.needs_next
    fill(log, 3)
    with pytest.raises(StoreFull, match="the disk is full"):
        log.check_room(0, 1000, use_reserve=True)
    assert disk.names() == [segment_name(0)]


def test_the_log_goes_on_when_there_is_room_again() -> None:
    disk = MemoryDisk(space=SEGMENT)
    log = open_log(disk)
    fill(log, 3)
    disk.space = 2 * SEGMENT
    log.prepare_next()
    log.check_room(0, 1000, use_reserve=True)
    assert append(log, 1000) == SEGMENT


def test_another_error_at_creation_is_no_full_disk() -> None:
    class Broken(MemoryDisk):
        def create(self, name: str, size: int) -> NoReturn:
            raise PermissionError(13, "not yours")

    with pytest.raises(PermissionError):
        open_log(Broken())


def test_sends_leave_a_reserve_for_acknowledgements() -> None:
    log = open_log(MemoryDisk(space=SEGMENT))
    fill(log, 3)
    left = SEGMENT - log.tail - HEADER_SIZE
    with pytest.raises(StoreFull):
        log.check_room(0, left, use_reserve=False)
    with pytest.raises(StoreFull):
        log.check_room(0, left - CONFIG.reserve_size + 1, use_reserve=False)
    log.check_room(0, left - CONFIG.reserve_size, use_reserve=False)
    log.check_room(0, left, use_reserve=True)


@pytest.mark.parametrize("sizes", [[1500, 1500], [900] * 4, [3900], [700] * 5])
def test_what_was_admitted_while_waiting_has_room(sizes: Sequence[int]) -> None:
    log = open_log(MemoryDisk(space=2 * SEGMENT))
    append(log, 1000)
    waiting: list[int] = []
    for size in sizes:
        length = frame_length(1, 64 + size)
        try:
            log.check_room(sum(waiting), length, use_reserve=True)
        except Overloaded:  # it will have room when what waits has been written
            continue
        waiting.append(length)
    assert waiting
    for length in waiting:
        append(log, length - frame_length(1, 64))


def test_a_disk_beyond_the_high_watermark_is_nearly_full() -> None:
    disk = MemoryDisk(space=10 * SEGMENT)
    log = open_log(disk)
    assert not log.nearly_full()
    disk.create("other", 7 * SEGMENT + 1)
    assert log.nearly_full()


def test_a_disk_without_limit_is_never_nearly_full() -> None:
    assert not open_log(MemoryDisk()).nearly_full()


# --- files that do not belong -------------------------------------------------


def test_a_missing_segment_is_told_by_name() -> None:
    disk = MemoryDisk()
    fill(open_log(disk), 7)
    disk.delete(segment_name(SEGMENT))
    with pytest.raises(ForeignFolder, match=f"{SEGMENT:020d}.seg is missing"):
        open_log(disk)


@pytest.mark.parametrize("name", ["notes.txt", "x.seg", "1.seg.bak", ".seg"])
def test_a_strange_file_is_refused(name: str) -> None:
    disk = MemoryDisk()
    disk.create(name, 10)
    with pytest.raises(ForeignFolder):
        open_log(disk)


# --- retention ----------------------------------------------------------------


def bases(log: CommitLog) -> list[int]:
    return [segment.base for segment in log.segments]


def forget(log: CommitLog, now_ms: int, keep_from: int) -> None:
    log.forget(log.expired(now_ms, keep_from))
    log.delete_forgotten()


def test_segments_go_when_all_in_them_is_old() -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    fill(log, 7)  # stored at 0 to 6; segments begin at 0, 3 and 6
    assert log.expired(1003, log.tail) == []
    forget(log, 1004, log.tail)
    assert bases(log) == [SEGMENT, 2 * SEGMENT]
    assert segment_name(0) not in disk.names()
    assert log.start == SEGMENT
    assert positions(log)[0] == SEGMENT


def test_what_is_held_stays() -> None:
    log = open_log(MemoryDisk())
    fill(log, 7)
    assert log.expired(99_999, SEGMENT - 1) == []
    assert [s.base for s in log.expired(99_999, SEGMENT)] == [0]
    assert [s.base for s in log.expired(99_999, log.tail)] == [0, SEGMENT]


def test_the_segment_that_is_written_stays() -> None:
    log = open_log(MemoryDisk())
    fill(log, 3)
    assert log.expired(99_999, log.tail) == []


def test_the_oldest_go_when_there_is_too_much() -> None:
    config = LogConfig(
        segment_size=SEGMENT,
        frame_size_max=SEGMENT,
        retention_ms=10**9,
        retention_size=2 * SEGMENT,
    )
    log = open_log(MemoryDisk(), config)
    fill(log, 10)
    assert bases(log) == [i * SEGMENT for i in range(4)]
    forget(log, 0, log.tail)
    assert bases(log) == [2 * SEGMENT, 3 * SEGMENT]


def test_a_forgotten_segment_that_was_not_deleted_is_found_again() -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    fill(log, 7)
    log.forget(log.expired(99_999, log.tail))
    assert log.has_forgotten
    assert log.start == 2 * SEGMENT
    assert open_log(disk).start == 0


def test_a_part_that_is_gone_cannot_be_read() -> None:
    log = open_log(MemoryDisk())
    fill(log, 7)
    forget(log, 99_999, SEGMENT)
    with pytest.raises(ForeignFolder, match="not kept"):
        log.read_frame(0)
    assert next(log.frames_from(0)).position == SEGMENT


def test_an_end_frame_does_not_look_old() -> None:
    # The segment in use is empty and of an older, smaller size; the next frame does
    # not fit, so it holds nothing but its end.
    disk = MemoryDisk()
    fill(open_log(disk), 4)
    disk.truncate(segment_name(SEGMENT), 0)
    larger = LogConfig(
        segment_size=2 * SEGMENT, frame_size_max=2 * SEGMENT, retention_ms=1000
    )
    log = open_log(disk, larger)
    assert append(log, 5000, stored_ms=500) == 2 * SEGMENT
    assert log.expired(1200, log.tail) == []
