"""What doctor says of states that are rare in real life."""

from halfpast_api.doctor import Finding, Level, findings_of, show_bytes
from halfpast_core_store.folder import Manifest
from halfpast_core_store.inspect import FolderReport, SegmentReport

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


def about(name: str, folder: FolderReport) -> Finding:
    return next(finding for finding in findings_of(folder) if finding.about == name)


def test_a_good_folder_has_only_good_news() -> None:
    found = list(findings_of(report()))
    assert {finding.level for finding in found} == {Level.OK}
    assert about("log", report()).text.startswith("1 segment, 3 frames with 9 records")
    assert "replays 3.0 KiB" in about("timers", report()).text


def test_a_problem_comes_first_with_its_advice() -> None:
    folder = report()
    folder.problems.append("the index is ahead: restore the segments")
    first = next(findings_of(folder))
    assert (first.level, first.advice) == (Level.BAD, "restore the segments")


def test_a_folder_without_a_manifest_is_not_explained_further() -> None:
    folder = FolderReport(folder="d", problems=["there is no halfpast.json: not ours"])
    assert len(list(findings_of(folder))) == 1


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


def test_little_room_is_told_before_it_is_none() -> None:
    folder = report()
    folder.free_bytes = GIB
    assert about("space", folder).level is Level.NOTE


def test_many_segments_are_not_all_shown() -> None:
    folder = report()
    folder.segments *= 100
    shown = [finding for finding in findings_of(folder) if finding.about == "segment"]
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
