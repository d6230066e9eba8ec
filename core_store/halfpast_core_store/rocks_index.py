"""RocksDB behind the `Index` port, and the one place that touches rocksdict.

What must be known of it (measured in version 0.3.29):
- Everything lies in one column family, so a flush keeps a prefix of all batches.
- The WAL is off: the commit log is the WAL. `flush` makes things durable.
- `write` holds the GIL, also through a write stall, so memtables and level-0
  limits are sized so that stalls do not happen at the rated load.
- An iterator without a bound passes over all that was deleted behind its range
  before it can tell that this is over: 70 ms for 400,000 timers. So going forward it
  is given one, in a `ReadOptions` that somebody keeps a reference to (or it reads
  freed memory). Going back there is none: `set_iterate_lower_bound` sets another.
- An iterator ends silently on an error, so its status is asked at the end.
"""

import errno
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar, cast

from rocksdict import (
    AccessType,
    BlockBasedIndexType,
    BlockBasedOptions,
    Cache,
    DBCompressionType,
    Options,
    Rdict,
    RdictIter,
    ReadOptions,
    WriteBatch,
    WriteOptions,
)

from .commit_log import DISK_FULL
from .errors import BrokenIndex, IndexFailed, StoreFull
from .ports import IndexBatch
from .real_disk import room_on_disk

MIB = 1024 * 1024
Found = TypeVar("Found")
FLUSH_ROOM_BUFFERS = 2  # what is flushed, and a compaction that follows


class RocksBatch:
    """See `ports.IndexBatch`."""

    def __init__(self) -> None:
        self.inner = WriteBatch(raw_mode=True)
        self.put: Callable[[bytes, bytes], None] = self.inner.put
        self.delete: Callable[[bytes], None] = self.inner.delete


class RocksIndex:
    """See `ports.Index`."""

    def __init__(self, folder: Path, *, write_buffer: int, cache: int) -> None:
        self._folder = folder
        self._flush_room = FLUSH_ROOM_BUFFERS * write_buffer
        self._db = open_database(folder, options_for(write_buffer, cache))
        self._write_options = WriteOptions()
        # The stub calls this a method; it is a property.
        setattr(self._write_options, "disable_wal", True)  # noqa: B010

    def get(self, key: bytes) -> bytes | None:
        try:
            value: bytes | None = self._db.get(key)
        except Exception as error:
            raise self._failed(error) from error
        return value

    def get_many(self, keys: Sequence[bytes]) -> Sequence[bytes | None]:
        try:
            return cast(list[bytes | None], self._db.get(list(keys)))
        except Exception as error:
            raise self._failed(error) from error

    def scan(self, start: bytes, end: bytes, limit: int) -> list[tuple[bytes, bytes]]:
        found: list[tuple[bytes, bytes]] = []
        try:
            options = ReadOptions()  # lives as long as the iterator
            options.set_iterate_upper_bound(end)
            iterator = self._db.iter(options)
            iterator.seek(start)
            while len(found) < limit and iterator.valid():
                found.append((iterator.key(), iterator.value()))
                iterator.next()
            return checked(iterator, found)
        except Exception as error:
            raise self._failed(error) from error

    def scan_keys(self, start: bytes, end: bytes, limit: int) -> list[bytes]:
        found: list[bytes] = []
        try:
            options = ReadOptions()  # lives as long as the iterator
            options.set_iterate_upper_bound(end)
            iterator = self._db.iter(options)
            iterator.seek(start)
            while len(found) < limit and iterator.valid():
                found.append(iterator.key())
                iterator.next()
            return checked(iterator, found)
        except Exception as error:
            raise self._failed(error) from error

    def scan_back(
        self, start: bytes, floor: bytes, limit: int
    ) -> list[tuple[bytes, bytes]]:
        found: list[tuple[bytes, bytes]] = []
        try:
            iterator = self._db.iter()
            iterator.seek_for_prev(start)
            while len(found) < limit and iterator.valid():
                key = iterator.key()
                if key < floor:
                    return found
                found.append((key, iterator.value()))
                iterator.prev()
            return checked(iterator, found)
        except Exception as error:
            raise self._failed(error) from error

    def batch(self) -> IndexBatch:
        return cast(IndexBatch, RocksBatch())  # its methods are rocksdict's own

    def write(self, batch: IndexBatch) -> None:
        assert isinstance(batch, RocksBatch)
        try:
            self._db.write(batch.inner, self._write_options)
        except Exception as error:
            raise self._failed(error) from error

    def _failed(self, error: Exception) -> IndexFailed:
        """RocksDB's errors have no type of their own."""
        return IndexFailed(str(self._folder), str(error))

    def flush(self) -> None:
        if room_on_disk(self._folder)[0] < self._flush_room:
            # RocksDB takes no more writes once one of its own has failed.
            raise StoreFull(self._flush_room, "the disk is too full to flush an index")
        try:
            self._db.flush()
        except Exception as error:
            raise self._failed(error) from error

    def close(self) -> None:
        try:
            self._db.close()
        except Exception as error:
            raise self._failed(error) from error


def open_database(folder: Path, options: Options) -> Rdict:
    """Open or create. Raises StoreFull, and BrokenIndex for whatever else is wrong."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return Rdict(str(folder), options, access_type=AccessType.read_write())
    except Exception as error:  # RocksDB's have no type of their own
        if os.strerror(errno.ENOSPC) in str(error):
            raise StoreFull(MIB, DISK_FULL) from error
        raise BrokenIndex(str(folder), str(error)) from error


def checked(iterator: RdictIter, found: list[Found]) -> list[Found]:
    """`found`, after making sure that the iterator did not end on an error."""
    if not iterator.valid():
        iterator.status()  # raises
    return found


def options_for(write_buffer: int, cache: int) -> Options:
    """Options under which memory is bounded and writes do not stall."""
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_write_buffer_size(write_buffer)
    options.set_max_write_buffer_number(4)
    options.set_level_zero_file_num_compaction_trigger(8)
    options.set_level_zero_slowdown_writes_trigger(40)
    options.set_level_zero_stop_writes_trigger(80)
    options.set_soft_pending_compaction_bytes_limit(64 * 1024 * MIB)
    options.set_hard_pending_compaction_bytes_limit(256 * 1024 * MIB)
    options.set_max_background_jobs(2)
    options.set_compression_type(DBCompressionType.none())
    options.set_keep_log_file_num(2)
    options.set_max_open_files(256)
    options.set_max_total_wal_size(0)
    table = BlockBasedOptions()
    table.set_block_cache(Cache(cache))
    table.set_block_size(16 * 1024)
    table.set_cache_index_and_filter_blocks(True)
    table.set_pin_l0_filter_and_index_blocks_in_cache(True)
    table.set_bloom_filter(10, False)
    # In parts: a whole filter over small entries is larger than a shard of the cache,
    # which then never keeps it, and each look-up reads it anew (78 us in place of 8).
    table.set_index_type(BlockBasedIndexType.two_level_index_search())
    table.set_partition_filters(True)
    table.set_pin_top_level_index_and_filter(True)
    options.set_block_based_table_factory(table)
    return options
