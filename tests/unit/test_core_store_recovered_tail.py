"""What a start finds and tells others as durable is durable from then on."""

import errno

import pytest

from halfpast_core_store.commit_log import CommitLog, LogWrite
from halfpast_core_store.config import LogConfig
from halfpast_core_store.frame import draft_frame, frame_length, seal_frame
from halfpast_core_store.memory_disk import MemoryDisk
from halfpast_core_store.record import RecordKind, encode_record

SALT = 9
CONFIG = LogConfig(segment_size=4096, frame_size_max=4096, reserve_size=256)


def open_log(disk: MemoryDisk) -> CommitLog:
    log = CommitLog(disk, CONFIG, SALT)
    list(log.recover(log.start))
    return log


def admit(log: CommitLog, size: int, stored_ms: int) -> LogWrite:
    record = encode_record(RecordKind.NORMAL, body=b"x" * size)
    length = frame_length(1, len(record))
    draft = draft_frame(
        [(1024, 0, 0, [record])],
        position=log.next_position(length),
        stored_ms=stored_ms,
        epoch=1,
        flags=0,
    )
    return log.admit(draft)


def write_killed(write: LogWrite) -> None:
    """Write as the store does, and be killed before the sync."""
    segment = write.segment
    at = write.draft.position - segment.base
    segment.file.write(at, write.parts or seal_frame(write.draft, SALT))


def append(log: CommitLog, size: int, stored_ms: int) -> int:
    write = admit(log, size, stored_ms)
    log.write(write)
    log.complete(write)
    return write.draft.end


def test_a_frame_that_a_start_found_outlives_a_power_cut() -> None:
    disk = MemoryDisk()
    killed = open_log(disk)
    append(killed, 100, 1)
    last = admit(killed, 100, 2)
    write_killed(last)
    assert disk.sectors_at_risk > 0
    found = open_log(disk)  # the process was killed, the machine goes on
    assert (found.durable_end, found.durable_ms) == (last.draft.end, 2)
    assert disk.sectors_at_risk == 0
    survivor = disk.crash(lambda _: False)
    assert open_log(survivor).durable_end == last.draft.end


def test_so_does_the_end_of_the_segment_before_it() -> None:
    """Else the next frame, which is synced, would stand behind one that is missing."""
    disk = MemoryDisk()
    killed = open_log(disk)
    append(killed, 3000, 1)
    full = killed.segments[0]
    write = admit(killed, 3000, 2)
    assert write.closes is not None
    end_at = write.closes[1]
    end = draft_frame([], position=end_at, stored_ms=2, epoch=1, flags=1 << 31)
    full.file.write(end_at, seal_frame(end, SALT))  # killed before its sync
    found = open_log(disk)
    assert disk.sectors_at_risk == 0
    behind = append(found, 3000, 3)
    survivor = open_log(disk.crash(lambda _: False))
    assert survivor.durable_end == behind


def test_a_tail_that_cannot_be_synced_is_no_start() -> None:
    disk = MemoryDisk()
    append(open_log(disk), 100, 1)
    disk.sync_failures = 1
    with pytest.raises(OSError, match=r".*") as caught:
        open_log(disk)
    assert caught.value.errno == errno.EIO
