"""A folder of backups: what comes in, what is swept, who may write."""

import os
from pathlib import Path

import pytest

from halfpast_api.backup.errors import BackupBusy, DamagedBackup, NoBackup, OtherStore
from halfpast_api.backup.manifest import BackedUpFile, BackupManifest, Metadata
from halfpast_api.backup.shelf import Shelf
from halfpast_api.backup.watch import Unwatched

STORE = "0123456789abcdef"
WATCH = Unwatched()


def brought(shelf: Shelf, path: str, data: bytes, size: int = 0) -> BackedUpFile:
    """A file with this content, as it stands in a list."""
    original = shelf.incoming / "original"
    original.write_bytes(data)
    sha256 = shelf.pool.put_file(original, len(data), WATCH)
    return BackedUpFile(
        path=path, size=size or len(data), stored=len(data), sha256=sha256
    )


def finished(shelf: Shelf, taken_ms: int, *files: BackedUpFile) -> str:
    manifest = BackupManifest(
        name=shelf.free_name(taken_ms),
        store_id=STORE,
        taken_ms=taken_ms,
        log_start=0,
        log_end=0,
        applied={},
        metadata=Metadata.NONE,
        files=files,
    )
    shelf.finish(manifest)
    return manifest.name


def test_equal_contents_lie_there_once(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    with shelf.writing(STORE):
        one = brought(shelf, "a", b"same")
        other = brought(shelf, "b", b"same")
    assert one.sha256 == other.sha256
    assert len(list((tmp_path / "files").rglob("*"))) == 2  # a folder and a file


def test_a_taken_file_has_its_zeroes(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "b")
    content = b"x" + bytes(3_000_000) + b"y"
    with shelf.writing(STORE):
        file = brought(shelf, "a", content, size=5_000_000)
    target = tmp_path / "a"
    assert shelf.pool.take(file, target, WATCH)
    assert target.read_bytes() == content + bytes(5_000_000 - len(content))
    assert target.stat().st_blocks * 512 >= 5_000_000  # none is a hole


def test_damage_of_the_same_length_is_seen(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "b")
    with shelf.writing(STORE):
        file = brought(shelf, "a", b"right")
        assert shelf.pool.is_intact(file, WATCH)
        shelf.pool.path(file.sha256).write_bytes(b"wrong")
        assert not shelf.pool.is_intact(file, WATCH)
        assert not shelf.pool.take(file, tmp_path / "a", WATCH)
        assert brought(shelf, "a", b"right") == file  # copying anew mends it
        assert shelf.pool.is_intact(file, WATCH)


def test_only_what_no_backup_needs_is_swept(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    with shelf.writing(STORE):
        shared = brought(shelf, "a", b"shared")
        old = brought(shelf, "b", b"old")
        new = brought(shelf, "b", b"new!")
        left = brought(shelf, "c", b"left by a run that was killed")
        first = finished(shelf, 1000, shared, old)
        second = finished(shelf, 2000, shared, new)
        assert shelf.keep(None) == left.stored
        assert shelf.names() == [first, second]
        assert shelf.keep(1) == old.stored
        assert shelf.names() == [second]
        assert shelf.pool.holds(shared)
        assert shelf.pool.holds(new)


def test_nothing_is_swept_while_a_list_is_damaged(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    with shelf.writing(STORE):
        first = finished(shelf, 1000, brought(shelf, "a", b"a"))
        file = brought(shelf, "b", b"b")
        second = finished(shelf, 2000, file)
        (tmp_path / "backups" / f"{second}.json").write_text("{}")
        with pytest.raises(DamagedBackup):
            shelf.keep(1)
        assert shelf.names() == [first, second]
        assert shelf.pool.holds(file)


def test_names_sort_by_the_moment_and_never_meet(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    with shelf.writing(STORE):
        names = [finished(shelf, 1_795_168_800_999) for _ in range(3)]
    assert names == sorted(set(names))
    assert names[0] == "20261120T100000.999Z"
    assert shelf.choose(None).name == names[-1]
    assert shelf.choose(names[0]).name == names[0]


def test_one_store_one_writer(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    with shelf.writing(STORE):
        with pytest.raises(BackupBusy), Shelf(tmp_path).writing(STORE):
            pass
        with pytest.raises(BackupBusy), Shelf(tmp_path).reading():
            pass
    with pytest.raises(OtherStore), shelf.writing("fedcba9876543210"):
        pass
    with shelf.reading(), Shelf(tmp_path).reading():
        pass


def test_a_folder_of_something_else_has_no_backup(tmp_path: Path) -> None:
    with pytest.raises(NoBackup), Shelf(tmp_path).reading():
        pass
    with Shelf(tmp_path).writing(STORE):
        pass
    with pytest.raises(NoBackup):
        Shelf(tmp_path).choose(None)
    with pytest.raises(NoBackup):
        Shelf(tmp_path).choose("20261120T100000.000Z")


def test_what_a_killed_run_left_is_cleared(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    with shelf.writing(STORE):
        pass
    (shelf.incoming / "file").write_bytes(b"half")
    (shelf.incoming / "index-0").mkdir()
    (shelf.incoming / "index-0" / "CURRENT").write_bytes(b"half")
    with shelf.writing(STORE):
        assert os.listdir(shelf.incoming) == []
