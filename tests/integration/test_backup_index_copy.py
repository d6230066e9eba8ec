"""Copying a RocksDB folder while it is written, flushed and compacted."""

import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from halfpast_api.backup.copier import Copier
from halfpast_api.backup.errors import IndexMoves
from halfpast_api.backup.former import Former
from halfpast_api.backup.index_copy import IndexCopy, copy_index
from halfpast_api.backup.manifest import BackupManifest, Metadata
from halfpast_api.backup.shelf import Shelf
from halfpast_api.backup.watch import Unwatched
from halfpast_core_store import keys
from halfpast_core_store.rocks_index import RocksIndex

KEYS = 200
COPIES = 12
VALUE_SIZE = 400
STORE = "0123456789abcdef"


class Writer:
    """Batch n sets one key to n, and how far it is applied to n: so what an index
    with n applied must hold is known."""

    def __init__(self, folder: Path) -> None:
        self.index = RocksIndex(folder, write_buffer=64 * 1024, cache=1024 * 1024)
        self._applied = 0
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def step(self) -> None:
        self._applied += 1
        batch = self.index.batch()
        batch.put(key_of(self._applied), value_of(self._applied))
        batch.put(keys.APPLIED, keys.U64.pack(self._applied))
        self.index.write(batch)
        if self._applied % 50 == 0:
            self.index.flush()

    @contextmanager
    def running(self) -> Generator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self._ends.set()
            self._thread.join()

    def _run(self) -> None:
        while not self._ends.is_set():
            self.step()


def key_of(number: int) -> bytes:
    return b"K%06d" % (number % KEYS)


def value_of(number: int) -> bytes:
    return keys.U64.pack(number) + bytes(VALUE_SIZE)


def restored(shelf: Shelf, copy: IndexCopy, folder: Path) -> RocksIndex:
    (folder / "index").mkdir(parents=True)
    for file in copy.files:
        assert shelf.pool.take(file, folder / file.path, Unwatched())
    return RocksIndex(folder / "index", write_buffer=1 << 20, cache=1 << 20)


def former(shelf: Shelf, *copies: IndexCopy) -> Former:
    manifests = [
        BackupManifest(
            name="x",
            store_id=STORE,
            taken_ms=0,
            log_start=0,
            log_end=0,
            applied={},
            metadata=Metadata.NONE,
            files=copy.files,
        )
        for copy in copies
    ]
    return Former(manifests, shelf.pool)


def copier(shelf: Shelf, *copies: IndexCopy) -> Copier:
    known = former(shelf, *copies)
    return Copier(shelf.pool, known, Unwatched(), shelf.incoming)


def test_every_copy_is_of_one_moment(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "index")
    for _ in range(100):
        writer.step()
    shelf = Shelf(tmp_path / "b")
    copies: list[IndexCopy] = []
    with shelf.writing(STORE):
        with writer.running():
            for _ in range(COPIES):
                copy = copy_index(tmp_path / "index", copier(shelf, *copies))
                assert copy is not None
                copies.append(copy)
        writer.index.close()
        for number, copy in enumerate(copies):
            index = restored(shelf, copy, tmp_path / f"r{number}")
            assert index.get(keys.APPLIED) == keys.U64.pack(copy.applied)
            first = max(1, copy.applied - KEYS + 1)
            for at in range(first, copy.applied + 1):
                assert index.get(key_of(at)) == value_of(at)
            assert len(index.scan(b"K", b"L", KEYS + 1)) == min(KEYS, copy.applied)
            index.close()
    applied = [copy.applied for copy in copies]
    assert applied == sorted(applied)
    assert applied[0] >= 100
    assert applied[0] < applied[-1]  # it was written meanwhile


def test_tables_are_copied_once(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "index")
    for _ in range(100):
        writer.step()
    shelf = Shelf(tmp_path / "b")
    with shelf.writing(STORE):
        first = copy_index(tmp_path / "index", copier(shelf))
        assert first is not None
        tables = [file for file in first.files if file.path.endswith(".sst")]
        before = shelf.pool.copied_size
        assert before > 100 * VALUE_SIZE
        for _ in range(50):
            writer.step()
        second = copy_index(tmp_path / "index", copier(shelf, first))
    writer.index.close()
    assert second is not None
    assert set(tables) < set(second.files)
    assert second.applied == 150
    again = sum(file.stored for file in set(second.files) - set(tables))
    assert shelf.pool.copied_size - before <= again


def test_a_table_that_is_not_to_be_had_is_no_backup(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "index")
    for _ in range(100):
        writer.step()
    writer.index.close()
    for table in (tmp_path / "index").glob("*.sst"):
        table.unlink()
    shelf = Shelf(tmp_path / "b")
    with shelf.writing(STORE):
        with pytest.raises(IndexMoves, match=r"\.sst"):
            copy_index(tmp_path / "index", copier(shelf), tries=2)
        assert list(shelf.incoming.iterdir()) == []


def test_no_index_is_no_copy(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "b")
    with shelf.writing(STORE):
        assert copy_index(tmp_path / "index", copier(shelf)) is None
