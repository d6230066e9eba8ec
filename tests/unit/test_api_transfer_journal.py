"""Going on where an import ended, or saying why that is not safe."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from halfpast_api.transfer.chunk import Chunk, RefusedLine
from halfpast_api.transfer.delivery import Delivered
from halfpast_api.transfer.errors import (
    DamagedProgress,
    FileBusy,
    FileChanged,
    OtherImport,
    TooLongAgo,
    TransferError,
)
from halfpast_api.transfer.journal import ImportOptions, Journal
from halfpast_api.transfer.line import Position
from halfpast_api.transfer.progress import Counts, Progress, ProgressFile

OPTIONS = ImportOptions(server="http://a", topic=None, format="ndjson")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "events.ndjson"
    path.write_bytes(b"{}\n" * 10)
    return path


def opened(path: Path, options: ImportOptions = OPTIONS) -> Journal:
    with path.open("rb") as file:
        return Journal.of_file(path, file, options)


def chunk(number: int, line: int) -> Chunk:
    return Chunk(number=number, end=Position(3 * line, line), line_count=5)


def done() -> Delivered:
    return Delivered(Counts(lines=5, stored=5))


def saved(path: Path) -> Progress:
    progress = ProgressFile.beside(path).load()
    assert progress is not None
    return progress


def rewritten(path: Path, progress: Progress, saved_at: datetime) -> None:
    """As if it had been saved at that time."""
    progress.saved_at = saved_at
    ProgressFile.beside(path).path.write_bytes(msgspec.json.encode(progress))


def test_a_second_run_goes_on(path: Path) -> None:
    first = opened(path)
    first.begin()
    first.commit(chunk(0, 5), done())
    first.note_apart(1, [2, 3])
    second = opened(path)
    assert second.progress.position == Position(15, 5)
    assert (second.progress.chunk, second.progress.counts.stored) == (1, 5)
    assert (second.apart(1), second.apart(2)) == ([2, 3], [])
    assert second.key_prefix == first.key_prefix
    second.commit(chunk(1, 10), done())
    second.end(is_settled=True, is_complete=True)
    assert saved(path).apart == {}
    assert opened(path).progress.is_complete


def test_keys_belong_to_the_file_and_the_topic(path: Path) -> None:
    first = opened(path).key_prefix
    other = ImportOptions(server="http://a", topic="t", format="ndjson")
    assert opened(path, other).key_prefix != first
    elsewhere = ImportOptions(server="http://b", topic=None, format="ndjson")
    assert opened(path, elsewhere).key_prefix == first
    path.write_bytes(b"{}\n" * 11)
    assert opened(path).key_prefix != first


def test_a_file_that_changed_is_not_taken_for_the_old_one(path: Path) -> None:
    journal = opened(path)
    journal.begin()
    journal.commit(chunk(0, 5), done())
    path.write_bytes(b"{ }\n" * 10)
    with pytest.raises(FileChanged):
        journal.end(is_settled=True, is_complete=True)
    with pytest.raises(FileChanged) as caught:
        opened(path)
    assert caught.value.line == 5
    again = ImportOptions(server="http://a", topic=None, format="ndjson", restarts=True)
    assert opened(path, again).progress.position == Position()


def test_progress_that_stored_nothing_does_not_keep_from_mending(path: Path) -> None:
    journal = opened(path)
    journal.begin()
    bad = RefusedLine(line=1, code="c", reason="r", raw=b"?")
    journal.commit(chunk(0, 5), Delivered(Counts(lines=5, refused=1), [bad]))
    journal.end(is_settled=True, is_complete=False)
    assert journal.refused.path.exists()
    path.write_bytes(b"{ }\n" * 10)
    assert opened(path).progress.position == Position()
    assert not journal.refused.path.exists()


@pytest.mark.parametrize(
    ("options", "what"),
    [
        (ImportOptions(server="http://b", topic=None, format="ndjson"), "--server"),
        (ImportOptions(server="http://a", topic="t", format="ndjson"), "--topic"),
        (ImportOptions(server="http://a", topic=None, format="parquet"), "--format"),
    ],
)
def test_another_import_does_not_go_on_there(
    path: Path, options: ImportOptions, what: str
) -> None:
    opened(path).begin()
    with pytest.raises(OtherImport) as caught:
        opened(path, options)
    assert caught.value.what == what


def test_after_a_day_an_open_import_is_not_repeated_blindly(path: Path) -> None:
    opened(path).begin()
    old = datetime.now(UTC) - timedelta(hours=23, minutes=1)
    rewritten(path, saved(path), old)
    with pytest.raises(TooLongAgo) as caught:
        opened(path)
    assert caught.value.hours == 23
    after_all = ImportOptions(
        server="http://a", topic=None, format="ndjson", goes_on_after_all=True
    )
    opened(path, after_all)
    rewritten(path, saved(path), old + timedelta(minutes=2))
    opened(path)
    settled = saved(path)
    settled.is_settled = True
    rewritten(path, settled, old)
    opened(path)


def test_a_damaged_progress_file_is_told(path: Path) -> None:
    ProgressFile.beside(path).path.write_bytes(b'{"file":')
    with pytest.raises(DamagedProgress):
        opened(path)


def test_one_import_of_a_file_at_a_time(path: Path) -> None:
    with path.open("rb") as file:
        Journal.of_file(path, file, OPTIONS)
        with pytest.raises(FileBusy):
            opened(path)
    opened(path)


def test_every_error_says_what_to_try(path: Path) -> None:
    errors = [
        FileBusy(path),
        FileChanged(path, 1, path),
        OtherImport(path, "--topic", "a", "b"),
        DamagedProgress(path, "why"),
        TooLongAgo(path, 1, 25),
    ]
    for error in errors:
        assert isinstance(error, TransferError)
        assert str(error)
        assert error.hint
