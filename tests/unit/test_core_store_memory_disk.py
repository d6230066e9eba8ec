"""The model disk loses what a real one may lose, and nothing else."""

import errno

import pytest

from halfpast_core_store.memory_disk import SECTOR_SIZE, MemoryDisk

A = b"a" * SECTOR_SIZE
B = b"b" * SECTOR_SIZE
C = b"c" * SECTOR_SIZE


def disk_with(*parts: bytes) -> MemoryDisk:
    disk = MemoryDisk()
    disk.create("f", 4 * SECTOR_SIZE).write(0, parts)
    return disk


def after(disk: MemoryDisk) -> bytes:
    return disk.open("f").read(0, 4 * SECTOR_SIZE)


def test_what_was_synced_survives() -> None:
    disk = disk_with(A, B)
    disk.open("f").sync()
    assert disk.sectors_at_risk == 0
    assert after(disk.crash(lambda _: False)) == A + B + bytes(2 * SECTOR_SIZE)


def test_any_subset_of_the_rest_may_survive() -> None:
    disk = disk_with(A, B, C)
    assert disk.sectors_at_risk == 3
    survivor = disk.crash(lambda sector: sector == 1)
    assert after(survivor) == bytes(SECTOR_SIZE) + B + bytes(2 * SECTOR_SIZE)
    assert after(disk) == A + B + C + bytes(SECTOR_SIZE)  # it has a copy of its own


def test_an_overwritten_sector_is_the_old_or_the_new_one() -> None:
    disk = disk_with(A)
    disk.open("f").sync()
    disk.open("f").write(10, [b"zz"])
    assert after(disk.crash(lambda _: False))[:SECTOR_SIZE] == A
    assert after(disk.crash(lambda _: True))[:SECTOR_SIZE] == A[:10] + b"zz" + A[12:]


def test_a_second_crash_loses_no_more() -> None:
    survivor = disk_with(A, B).crash(lambda sector: sector == 0)
    assert after(survivor.crash(lambda _: False)) == after(survivor)


def test_a_failed_sync_is_never_made_good_by_a_later_one() -> None:
    disk = disk_with(A)
    disk.sync_failures = 1
    file = disk.open("f")
    with pytest.raises(OSError, match="Input/output error"):
        file.sync()
    file.sync()
    assert after(disk) == A + bytes(3 * SECTOR_SIZE)
    assert after(disk.crash(lambda _: False)) == bytes(4 * SECTOR_SIZE)
    assert after(disk.crash(lambda _: True)) == after(disk)


def test_names_and_sizes_are_durable_at_once() -> None:
    disk = MemoryDisk()
    disk.create("b", 10)
    disk.create("a", 20)
    disk.create("c", 30)
    disk.delete("c")
    survivor = disk.crash(lambda _: False)
    assert survivor.names() == ["a", "b"]
    assert survivor.open("a").size == 20


def test_no_room_is_an_error_and_leaves_nothing() -> None:
    disk = MemoryDisk(space=1000)
    disk.create("a", 600)
    assert (disk.free_bytes(), disk.total_bytes()) == (400, 1000)
    with pytest.raises(OSError, match="No space") as raised:
        disk.create("b", 401)
    assert raised.value.errno == errno.ENOSPC
    assert disk.names() == ["a"]
    disk.delete("a")
    disk.create("b", 401)


def test_an_open_file_outlives_its_name() -> None:
    disk = disk_with(A)
    file = disk.open("f")
    disk.delete("f")
    assert file.read(0, SECTOR_SIZE) == A
    with pytest.raises(FileNotFoundError):
        disk.open("f")


def test_next_data_skips_zeroes_only() -> None:
    disk = MemoryDisk()
    file = disk.create("f", 100_000)
    assert file.next_data(0) is None
    file.write(50_000, [b"x"])
    found = file.next_data(0)
    assert found is not None
    assert 0 <= found <= 50_000
    assert file.next_data(50_000) == 50_000
    assert file.next_data(50_001) is None


def test_damage_is_durable() -> None:
    disk = disk_with(A)
    disk.open("f").sync()
    disk.damage("f", 3, 1)
    assert after(disk)[:5] == b"aaa`a"
    assert after(disk.crash(lambda _: False))[:5] == b"aaa`a"
