"""What doctor says of states that are rare in real life."""

import pytest

from halfpast_api.doctor import Finding, Level, findings_of, show_bytes
from halfpast_core_store.folder import Manifest
from halfpast_core_store.inspect import FolderReport, SegmentReport
from halfpast_txn.inspect import TxnReport

GIB = 1024**3
MANIFEST = Manifest(format_version=1, store_id="s", salt=0)


def report() -> FolderReport:
    """A folder in which all is well."""
    segment = SegmentReport(
        name="0.seg", size=GIB, frames=3, records=9, used=4096, status="tail"
    )
    return FolderReport(
        folder="d",
        manifest=MANIFEST,
        segments=[segment],
        log_end=4096,
        index_applied=4096,
        timers_applied=1024,
        free_bytes=50 * GIB,
        total_bytes=100 * GIB,
    )


TXN = TxnReport(applied=4096)


def found_in(folder: FolderReport, txn: TxnReport = TXN) -> list[Finding]:
    return list(findings_of(folder, txn))


def about(name: str, folder: FolderReport, txn: TxnReport = TXN) -> Finding:
    return next(each for each in found_in(folder, txn) if each.about == name)


def test_a_good_folder_has_only_good_news() -> None:
    found = found_in(report())
    assert {finding.level for finding in found} == {Level.OK}
    assert about("log", report()).text.startswith("1 segment, 3 frames with 9 records")
    assert "replays 3.0 KiB" in about("timers", report()).text


def test_a_problem_comes_first_with_its_advice() -> None:
    folder = report()
    folder.problems.append("the index is ahead: restore the segments")
    first = found_in(folder)[0]
    assert (first.level, first.advice) == (Level.BAD, "restore the segments")


def test_a_folder_without_a_manifest_is_not_explained_further() -> None:
    folder = FolderReport(folder="d", problems=["there is no halfpast.json: not ours"])
    assert len(found_in(folder)) == 1


def test_an_unfinished_frame_is_no_damage() -> None:
    folder = report()
    folder.segments[0].status = "torn"
    found = about("segment", folder)
    assert (found.level, "never acknowledged" in found.advice) == (Level.NOTE, True)
    folder.holder = "process 7"
    assert "look again" in about("segment", folder).advice


def test_damage_is_bad() -> None:
    folder = report()
    folder.segments[0].status = "corrupt"
    folder.segments[0].damaged_at = 512
    found = about("segment", folder)
    assert (found.level, "damaged at 512" in found.text) == (Level.BAD, True)


def test_timers_ahead_of_the_log_are_bad() -> None:
    folder = report()
    folder.timers_applied = 5000
    assert about("timers", folder).level is Level.BAD


def test_transactions_ahead_of_the_log_are_bad() -> None:
    assert about("txn", report(), TxnReport(applied=5000)).level is Level.BAD


def test_transactions_that_cannot_be_read_are_a_problem() -> None:
    txn = TxnReport(problem="the index d/txn cannot be opened: bad; move it away")
    found = found_in(report(), txn)
    assert (found[0].level, found[0].advice) == (Level.BAD, "bad; move it away")
    assert not any(each.about == "txn" for each in found)


def test_a_new_folder_has_no_transactions() -> None:
    assert "builds it from the log" in about("txn", report(), TxnReport()).text
    folder = report()
    folder.holder = "process 7"
    assert "in use" in about("txn", folder, TxnReport()).text


@pytest.mark.parametrize(
    ("name", "lost"),
    [("timers", "pending events"), ("txn", "open transactions"), ("index", "names")],
)
def test_an_index_that_is_gone_is_a_loss_once_the_log_was_cut(
    name: str, lost: str
) -> None:
    folder = report()
    folder.timers_applied = folder.index_applied = None
    assert about(name, folder, TxnReport()).level is Level.OK
    folder.log_start = 2048
    found = about(name, folder, TxnReport())
    assert (found.level, lost in found.text) == (Level.NOTE, True)
    assert "from a backup" in found.advice


def test_transactions_without_outcome_are_counted() -> None:
    txn = TxnReport(applied=4096, open_count=1200, parked_count=1)
    found = [each for each in found_in(report(), txn) if each.about == "txn"]
    assert [each.level for each in found] == [Level.OK, Level.NOTE, Level.OK]
    assert "1 transaction parked" in found[1].text
    assert "halfpast tx list" in found[1].advice
    assert "1,200 transactions without outcome" in found[2].text


def test_little_room_is_told_before_it_is_none() -> None:
    folder = report()
    folder.free_bytes = GIB
    assert about("space", folder).level is Level.NOTE


def test_many_segments_are_not_all_shown() -> None:
    folder = report()
    folder.segments *= 100
    shown = [each for each in found_in(folder) if each.about == "segment"]
    assert len(shown) == 20


def test_bytes_as_people_read_them() -> None:
    sizes = (0, 1023, 1536, GIB, 5 * 1024**4)
    assert [show_bytes(size) for size in sizes] == [
        "0 B",
        "1023 B",
        "1.5 KiB",
        "1.0 GiB",
        "5.0 TiB",
    ]
