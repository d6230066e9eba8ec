"""What RocksDB's own failures become."""

import resource
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from halfpast_core_store.errors import IndexFailed
from halfpast_core_store.rocks_index import RocksIndex

KIB = 1024
COUNT = 1_000


def opened(folder: Path) -> RocksIndex:
    return RocksIndex(folder, write_buffer=64 * KIB, cache=64 * KIB)


def key(number: int) -> bytes:
    return b"K%04d" % number


def write_all(index: RocksIndex, times: int = 1) -> None:
    for _ in range(times):
        write_once(index)


def write_once(index: RocksIndex) -> None:
    batch = index.batch()
    for number in range(COUNT):
        batch.put(key(number), bytes(100))
    index.write(batch)


@contextmanager
def files_up_to(size: int) -> Generator[None]:
    """No file of this process can grow beyond `size`."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


READS: list[Callable[[RocksIndex], object]] = [
    lambda index: index.get(key(7)),
    lambda index: index.get_many([key(7), key(8)]),
    lambda index: index.scan(b"K", b"L", COUNT),
    lambda index: index.scan_keys(b"K", b"L", COUNT),
    lambda index: index.scan_back(b"L", b"K", COUNT),
]


@pytest.mark.parametrize("read", READS)
def test_what_cannot_be_read_is_a_failure_and_not_an_end(
    tmp_path: Path, read: Callable[[RocksIndex], object]
) -> None:
    folder = tmp_path / "txn"
    index = opened(folder)
    write_all(index)
    index.flush()
    index.close()
    [table] = folder.glob("*.sst")
    with table.open("r+b") as file:
        file.write(b"\xff" * 64 * KIB)
    index = opened(folder)
    with pytest.raises(IndexFailed, match="Corruption") as caught:
        read(index)
    assert caught.value.folder == str(folder)
    index.close()


def test_a_write_after_a_failed_flush_is_a_failure(tmp_path: Path) -> None:
    index = opened(tmp_path / "txn")
    with files_up_to(32 * KIB), pytest.raises(IndexFailed, match="File too large"):
        write_all(index, 1_000)  # RocksDB flushes by itself, and tells with the next
    for call in (index.flush, index.close):
        with pytest.raises(IndexFailed):
            call()
