"""Looking at a folder of transactions that nobody holds."""

from pathlib import Path

import pytest

from halfpast_core_store.folder import FolderLock
from halfpast_core_store.rocks_index import RocksIndex
from halfpast_txn import keys
from halfpast_txn.inspect import TxnReport, inspect_transactions

MIB = 1024 * 1024


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A data folder with three open transactions, one of them parked."""
    index = RocksIndex(tmp_path / "txn", write_buffer=MIB, cache=MIB)
    batch = index.batch()
    batch.put(keys.APPLIED, keys.U64.pack(4711))
    for number in range(3):
        transaction = bytes((number,)) * 16
        batch.put(b"S" + transaction, b"status")
        batch.put(keys.message(transaction, 0), b"half")
    batch.put(b"P" + bytes(16), b"")
    batch.put(b"O" + b"\x09" * 16, b"ended")
    index.write(batch)
    index.flush()
    index.close()
    return tmp_path


def test_open_and_parked_ones_are_counted(folder: Path) -> None:
    assert inspect_transactions(folder) == TxnReport(
        applied=4711, open_count=3, parked_count=1
    )


def test_nothing_is_changed(folder: Path) -> None:
    def files() -> dict[str, bytes]:
        found = (path for path in sorted(folder.rglob("*")) if path.is_file())
        return {str(path): path.read_bytes() for path in found}

    before = files()
    inspect_transactions(folder)
    assert files() == before


def test_what_a_running_service_holds_is_left_alone(folder: Path) -> None:
    lock = FolderLock(folder, "txn")
    assert inspect_transactions(folder) == TxnReport()
    lock.close()
    assert inspect_transactions(folder).open_count == 3


def test_a_folder_without_transactions(tmp_path: Path) -> None:
    assert inspect_transactions(tmp_path) == TxnReport()
    assert list(tmp_path.iterdir()) == []


def test_a_broken_index_is_told(folder: Path) -> None:
    (folder / "txn" / "CURRENT").write_text("nonsense")
    report = inspect_transactions(folder)
    assert report.applied is None
    assert f"the index {folder / 'txn'} cannot be opened" in report.problem
