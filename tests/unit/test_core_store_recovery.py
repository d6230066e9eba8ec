"""Recovery keeps the longest valid prefix, and never takes damage for a tail."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halfpast_core_store.commit_log import CommitLog
from halfpast_core_store.config import LogConfig
from halfpast_core_store.errors import CorruptLog, LogBehindIndex
from halfpast_core_store.frame import (
    FLAG_END,
    HEADER_SIZE,
    draft_frame,
    frame_length,
    seal_frame,
)
from halfpast_core_store.memory_disk import SECTOR_SIZE, MemoryDisk
from halfpast_core_store.record import RecordKind, encode_record
from halfpast_core_store.segment import segment_name

SALT = 9
SEGMENT = 2048
CONFIG = LogConfig(segment_size=SEGMENT, frame_size_max=SEGMENT, reserve_size=0)
FIRST, SECOND = segment_name(0), segment_name(SEGMENT)


def recovered(disk: MemoryDisk) -> tuple[CommitLog, list[int]]:
    log = CommitLog(disk, CONFIG, SALT)
    return log, [header.position for header, _ in log.recover(log.start)]


def append(log: CommitLog, size: int = 20) -> int:
    record = encode_record(RecordKind.NORMAL, body=b"x" * size)
    draft = draft_frame(
        [(1024, 0, 0, [record])],
        position=log.next_position(frame_length(1, len(record))),
        stored_ms=1,
        epoch=1,
        flags=0,
    )
    write = log.admit(draft)
    log.write(write)
    log.complete(write)
    return draft.position


def small_log(frames: int = 4, size: int = 20) -> tuple[MemoryDisk, list[int], int]:
    """A disk, where its frames begin, and where the last one ends."""
    disk = MemoryDisk()
    log, _ = recovered(disk)
    return disk, [append(log, size) for _ in range(frames)], log.tail


def contents(disk: MemoryDisk, name: str = FIRST) -> bytes:
    return disk.open(name).read(0, SEGMENT)


def snapshot(disk: MemoryDisk) -> dict[str, bytes]:
    return {name: contents(disk, name) for name in disk.names()}


def test_the_longest_valid_prefix_is_kept_wherever_the_log_is_cut() -> None:
    original, starts, tail = small_log()
    ends = [*starts[1:], tail]
    written = contents(original)
    for cut in range(tail + 1):
        disk = original.crash(lambda _: True)
        disk.truncate(FIRST, cut)
        # The padding that ends a frame is zeroes, which a cut does not change.
        whole = [
            start
            for start, end in zip(starts, ends, strict=True)
            if cut >= end or not any(written[cut:end])
        ]
        log, found = recovered(disk)
        assert found == whole, f"cut at {cut}"
        kept = ends[len(whole) - 1] if whole else 0
        assert log.tail == log.durable_end == kept
        assert contents(disk)[kept:] == bytes(SEGMENT - kept)
        added = append(log)
        _, again = recovered(disk.crash(lambda _: False))
        assert again == [*found, added], f"cut at {cut}, then written on"


def test_damage_in_the_middle_is_refused_at_every_byte_and_changes_nothing() -> None:
    original, starts, _ = small_log()
    for byte in range(starts[3]):
        disk = original.crash(lambda _: True)
        disk.damage(FIRST, byte, 0x10)
        before = snapshot(disk)
        with pytest.raises(CorruptLog) as raised:
            recovered(disk)
        error = raised.value
        hit = max(start for start in starts if start <= byte)
        assert (error.segment, error.offset) == (FIRST, hit), f"byte {byte}"
        assert error.next_valid == starts[starts.index(hit) + 1]
        assert snapshot(disk) == before
        assert "an intact frame follows" in str(error)


def test_damage_is_refused_also_where_the_intact_frame_is_a_segment_later() -> None:
    disk, starts, _ = small_log(frames=3, size=700)
    assert starts[2] == SEGMENT
    disk.damage(FIRST, starts[1] + 60, 0x01)
    with pytest.raises(CorruptLog) as raised:
        recovered(disk)
    # The frame that ends the segment is intact, and comes first.
    assert starts[1] < raised.value.next_valid < SEGMENT
    disk.damage(FIRST, raised.value.next_valid + 8, 0x01)
    with pytest.raises(CorruptLog) as raised:
        recovered(disk)
    assert raised.value.next_valid == SEGMENT


def test_damage_is_refused_for_segments_of_any_size() -> None:
    # Positions of later segments are then no multiples of the frames' alignment.
    config = LogConfig(segment_size=2044, frame_size_max=2044, reserve_size=0)
    disk = MemoryDisk()
    log = CommitLog(disk, config, SALT)
    list(log.recover(0))
    starts = [append(log, 700) for _ in range(4)]
    assert starts[2] == 2044
    disk.damage(segment_name(2044), 60, 1)
    with pytest.raises(CorruptLog):
        list(CommitLog(disk, config, SALT).recover(0))


def test_a_damaged_last_frame_is_taken_for_a_tail() -> None:
    # Nothing tells it from a write that did not finish, and it may be one.
    disk, starts, _ = small_log()
    disk.damage(FIRST, starts[-1] + 60, 1)
    log, found = recovered(disk)
    assert found == starts[:-1]
    assert log.tail == starts[-1]


def test_a_damaged_last_frame_that_an_index_has_seen_is_not() -> None:
    disk, starts, tail = small_log()
    disk.damage(FIRST, starts[-1] + 60, 1)
    before = snapshot(disk)
    log = CommitLog(disk, CONFIG, SALT)
    with pytest.raises(LogBehindIndex) as raised:
        list(log.recover(starts[-1], tail))
    assert (raised.value.log_end, raised.value.applied) == (starts[-1], tail)
    assert snapshot(disk) == before, "it could still be mended by hand"


@given(st.data())
def test_a_torn_write_vanishes_whole(data: st.DataObject) -> None:
    disk, starts, tail = small_log(frames=2)
    log, _ = recovered(disk)
    record = encode_record(RecordKind.NORMAL, body=b"y" * 1200)
    draft = draft_frame(
        [(1024, 0, 0, [record])], position=tail, stored_ms=1, epoch=1, flags=0
    )
    log.admit(draft)
    frame = seal_frame(draft, SALT)
    disk.open(FIRST).write(tail, frame)  # and no sync
    kept = data.draw(st.sets(st.integers(0, SEGMENT // SECTOR_SIZE - 1)))
    survivor = disk.crash(lambda sector: sector in kept)
    sectors = range(tail // SECTOR_SIZE, (draft.end - 1) // SECTOR_SIZE + 1)
    log, found = recovered(survivor)
    if kept.issuperset(sectors):
        assert found == [*starts, tail]
    else:
        assert found == starts
        assert contents(survivor)[tail:] == bytes(SEGMENT - tail)
    assert survivor.sectors_at_risk == 0, "the wiping was synced"


def test_a_short_frame_over_a_torn_long_one_leaves_no_ghost() -> None:
    # Without the wiping, an intact looking frame could stand in the torn one's rest.
    disk, _, tail = small_log(frames=1)
    log, _ = recovered(disk)
    inner_at = tail + 512 - tail % 512
    inner = b"".join(
        seal_frame(
            draft_frame([], position=inner_at, stored_ms=1, epoch=1, flags=1), SALT
        )
    )
    disk.open(FIRST).write(inner_at, [inner])
    with pytest.raises(CorruptLog):  # such a frame is what must never be left
        recovered(disk.crash(lambda _: True))
    disk = disk.crash(lambda _: False)
    log, found = recovered(disk)
    append(log)
    assert len(recovered(disk)[1]) == len(found) + 1


# --- rolling ----------------------------------------------------------------


def rolled() -> tuple[MemoryDisk, list[int]]:
    """Two frames in the first segment, one in the second; the third is prepared."""
    disk, starts, _ = small_log(frames=3, size=700)
    assert starts[2] == SEGMENT
    return disk, starts


def test_an_end_frame_leads_to_the_next_segment() -> None:
    disk, starts = rolled()
    log, found = recovered(disk)
    assert found == starts
    assert log.tail > SEGMENT


def test_a_crash_behind_the_end_frame_goes_on_in_the_next_segment() -> None:
    disk, starts = rolled()
    disk.truncate(SECOND, 0)
    log, found = recovered(disk)
    assert found == starts[:2]
    assert log.tail == SEGMENT
    assert append(log, 100) == SEGMENT
    assert recovered(disk)[1] == starts


def test_a_torn_end_frame_goes_on_in_the_old_segment() -> None:
    disk, starts = rolled()
    disk.truncate(SECOND, 0)
    log, _ = recovered(disk)
    end_at = next(
        at
        for at in range(starts[1] + 8, SEGMENT, 8)
        if int.from_bytes(contents(disk)[at + 32 : at + 36], "little") & FLAG_END
    )
    disk.truncate(FIRST, end_at + 20)
    log, found = recovered(disk)
    assert found == starts[:2]
    assert log.tail == end_at
    assert append(log, 20) == end_at


def test_what_was_prepared_is_kept_and_used() -> None:
    disk, _ = rolled()
    names = disk.names()
    log, _ = recovered(disk)
    assert disk.names() == names
    assert append(log, 1500) == 2 * SEGMENT


def test_a_half_written_prepared_segment_is_wiped() -> None:
    disk, starts, _ = small_log(frames=1)
    disk.open(SECOND).write(100, [b"rubbish"])
    disk.open(SECOND).sync()
    _, found = recovered(disk)
    assert found == starts
    assert contents(disk, SECOND) == bytes(SEGMENT)


def test_more_than_one_prepared_segment_is_one_too_many() -> None:
    disk, _, _ = small_log(frames=1)
    disk.create(segment_name(2 * SEGMENT), SEGMENT)
    recovered(disk)
    assert disk.names() == [FIRST, SECOND]


def test_a_prepared_segment_of_another_size_is_made_anew() -> None:
    disk, _, tail = small_log(frames=1)
    larger = LogConfig(segment_size=2 * SEGMENT)
    log = CommitLog(disk, larger, SALT)
    list(log.recover(0))
    assert disk.open(SECOND).size == 2 * SEGMENT
    assert log.tail == tail


def test_a_missing_next_segment_is_made_anew() -> None:
    disk, starts = rolled()
    disk.delete(SECOND)
    disk.delete(segment_name(2 * SEGMENT))
    log, found = recovered(disk)
    assert found == starts[:2]
    assert log.tail == SEGMENT


def test_the_epoch_is_the_highest_ever_seen() -> None:
    disk, _, _ = small_log()
    assert recovered(disk)[0].epoch == 1


def test_recovery_may_begin_at_any_frame() -> None:
    disk, starts, tail = small_log()
    for i, start in enumerate([*starts, tail]):
        log = CommitLog(disk, CONFIG, SALT)
        assert [h.position for h, _ in log.recover(start)] == starts[i:]
        assert log.tail == tail


@given(st.lists(st.integers(0, 600), max_size=12), st.data())
def test_every_synced_frame_survives_every_crash(
    sizes: list[int], data: st.DataObject
) -> None:
    disk = MemoryDisk()
    log, _ = recovered(disk)
    expected = [append(log, size) for size in sizes]
    kept = data.draw(st.booleans())
    survivor = disk.crash(lambda _: kept)
    log, found = recovered(survivor)
    assert found == expected
    assert log.tail >= sum(HEADER_SIZE for _ in sizes)
