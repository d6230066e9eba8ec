"""What a data folder's state means, and what to do about it.

The store tells the facts (`halfpast_core_store.inspect`), this module explains
them. Nothing is changed, also beside a running suite.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from urllib.parse import quote

from halfpast_api.cli_times import show_moment
from halfpast_core_store.errors import ONLY_THERE
from halfpast_core_store.inspect import FolderReport, SegmentReport, inspect_folder
from halfpast_txn.inspect import TxnReport, inspect_transactions

_FREE_SEGMENTS_MIN = 2
_SHOWN_MAX = 20


class Level(StrEnum):
    """How bad it is. BAD: data is at risk, or the suite will not start."""

    OK = "ok"
    NOTE = "note"
    BAD = "bad"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was looked at. `advice` is what to do, where there is."""

    level: Level
    about: str
    text: str
    advice: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """All that was found in a folder."""

    folder: Path
    healthy: bool
    findings: tuple[Finding, ...]


def diagnose(folder: Path) -> Diagnosis:
    """Look at everything in a data folder. Takes a second per GiB of log.

    Raises OSError if it may not be read.
    """
    folder = folder.absolute()
    report = inspect_folder(folder)
    txn = TxnReport()
    if report.manifest is not None:
        txn = inspect_transactions(folder)
    metadata = _metadata(folder / "metadata.sqlite")
    findings = tuple([*findings_of(report, txn), *metadata])
    healthy = all(finding.level is not Level.BAD for finding in findings)
    return Diagnosis(folder=folder, healthy=healthy, findings=findings)


def findings_of(report: FolderReport, txn: TxnReport) -> Iterator[Finding]:
    """The facts about store and transactions, explained; problems first."""
    for problem in filter(None, (*report.problems, txn.problem)):
        what, _, advice = problem.partition(": ")
        yield Finding(level=Level.BAD, about="problem", text=what, advice=advice)
    manifest = report.manifest
    if manifest is None:
        return
    yield _good(
        "manifest",
        f"format version {manifest.format_version}, store {manifest.store_id}",
    )
    if report.holder:
        yield _good("lock", f"a broker is running ({report.holder})")
    else:
        yield _good("lock", "no broker is running on this folder")
    yield from _log(report)
    yield from _indexes(report, txn)
    yield _space(report)


def _log(report: FolderReport) -> Iterator[Finding]:
    segments = report.segments
    frames = sum(segment.frames for segment in segments)
    records = sum(segment.records for segment in segments)
    if not segments:
        yield _good("log", "empty: nothing has been stored yet")
        return
    yield _good(
        "log",
        f"{_count(len(segments), 'segment')}, {_count(frames, 'frame')} with "
        f"{_count(records, 'record')} verified, ends at {report.log_end}",
    )
    shown = segments[-_SHOWN_MAX:]
    if len(shown) < len(segments):
        yield _good("segments", f"the last {_SHOWN_MAX} of {len(segments)}:")
    for segment in shown:
        yield _segment(segment, is_running=bool(report.holder))


def _segment(segment: SegmentReport, *, is_running: bool) -> Finding:
    text = f"{segment.name}  {segment.status}"
    if segment.frames:
        text += (
            f", {_count(segment.frames, 'frame')}, {show_bytes(segment.used)} of "
            f"{show_bytes(segment.size)}, {_moment(segment.first_ms)} to "
            f"{_moment(segment.last_ms)}"
        )
    if segment.status == "corrupt":
        return Finding(
            level=Level.BAD,
            about="segment",
            text=f"{text}, damaged at {segment.damaged_at}",
            advice="restore this file from a backup; do not delete it",
        )
    if segment.status == "torn":
        advice = (
            "it is just being written: look again"
            if is_running
            else "nothing to do: it was never acknowledged, the next start cuts it off"
        )
        return Finding(
            level=Level.NOTE,
            about="segment",
            text=f"{text}, ends in an unfinished frame",
            advice=advice,
        )
    return _good("segment", text)


def _indexes(report: FolderReport, txn: TxnReport) -> Iterator[Finding]:
    # The store itself reports its own index if that is ahead of the log.
    is_ahead = (report.index_applied or 0) > report.log_end
    if not is_ahead and "index" not in report.broken:
        yield _index("index", "index", report.index_applied, report)
    if "chronos" not in report.broken:
        yield _index("timers", "chronos", report.timers_applied, report)
    if not txn.problem:
        yield _index("txn", "txn", txn.applied, report)
    if txn.parked_count:
        yield Finding(
            level=Level.NOTE,
            about="txn",
            text=f"{_count(txn.parked_count, 'transaction')} parked: checked back in "
            "vain, so nobody knows the outcome",
            advice="decide: see 'halfpast tx list', then resume or force each",
        )
    if txn.open_count:
        yield _good("txn", f"{_count(txn.open_count, 'transaction')} without outcome")


def _index(
    about: str, folder: str, applied: int | None, report: FolderReport
) -> Finding:
    if applied is None and report.holder:
        return _good(about, "in use by the running suite, so not looked at")
    if applied is None:
        text = "not there: the next start builds it from the log"
        if not report.log_start:
            return _good(about, text)
        return Finding(
            level=Level.NOTE,
            about=about,
            text=f"{text}, which was cut at {report.log_start}: {ONLY_THERE[folder]} "
            "older than that are lost",
            advice=f"if there were any, restore {folder}/ from a backup before the "
            "next start",
        )
    text = f"has applied the log up to {applied}"
    if applied > report.log_end:
        return Finding(
            level=Level.BAD,
            about=about,
            text=f"{text}, behind its end",
            advice="acknowledged data is missing: restore the segments",
        )
    if behind := report.log_end - applied:
        text += f"; the next start replays {show_bytes(behind)}"
    return _good(about, text)


def _space(report: FolderReport) -> Finding:
    share = report.free_bytes / report.total_bytes if report.total_bytes else 0.0
    text = f"{show_bytes(report.free_bytes)} free ({share:.0%})"
    size = max((segment.size for segment in report.segments), default=0)
    if report.free_bytes < _FREE_SEGMENTS_MIN * size:
        return Finding(
            level=Level.NOTE,
            about="space",
            text=f"{text}, which is less than {_FREE_SEGMENTS_MIN} segments",
            advice="free space or move the folder to a larger disk, before it is full",
        )
    return _good("space", text)


def _metadata(path: Path) -> Iterator[Finding]:
    if not path.exists():
        return
    try:
        url = f"file:{quote(str(path))}?mode=ro"
        with closing(sqlite3.connect(url, uri=True, timeout=2)) as database:
            ((result,),) = database.execute("PRAGMA quick_check(1)").fetchall()
    except sqlite3.Error as error:
        result = str(error)
    if result == "ok":
        yield _good("metadata", f"{path.name} is sound")
    else:
        yield Finding(
            level=Level.BAD,
            about="metadata",
            text=f"{path.name} cannot be used: {result}",
            advice=(
                "restore it from a backup, or move it away: settings of topics and "
                "groups then are the defaults, no message is lost"
            ),
        )


def show_bytes(size: int) -> str:
    """In the largest unit that leaves a whole number in front of the point."""
    amount = float(size)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024:
            return f"{amount:.0f} B" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TiB"


def _good(about: str, text: str) -> Finding:
    return Finding(level=Level.OK, about=about, text=text)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def _moment(ms: int) -> str:
    return show_moment(datetime.fromtimestamp(ms / 1000, UTC))
