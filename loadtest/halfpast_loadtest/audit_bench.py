"""Bench audit: ten million records audited from Parquet and log, and live counts.

Of each number of records a log is written, exported and audited twice: from what was
exported, and from the log itself. What the audits find must be what was written. Then
a stream counts what is written at a rate, and it is measured how far it is behind.
"""

import asyncio
import importlib.util
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from halfpast_loadtest import audit_command
from halfpast_loadtest.bench_result import BenchResult, settings_of, with_latency
from halfpast_loadtest.disk_use import need_room
from halfpast_loadtest.errors import LoadtestError
from halfpast_loadtest.latency import summarise
from halfpast_loadtest.progress import Progress

if TYPE_CHECKING:
    from halfpast_loadtest.audit_command import Ended

NAME = "audit"
MILLION = 1_000_000
WINDOW = "1m"
WINDOW_MS = 60_000
ROOM_BYTES = 700  # of disk for each record: the log, its export, what Spark spills
ROOM_SPARE_BYTES = 1 << 30
SCAN_ROWS = 65_536
STEPS = ("reading the events", "balancing transactions", "balancing delayed messages")
FIGURES = {
    "transactions": (
        *("half", "committed", "rolled_back", "checked_back", "second_phase_lost"),
    ),
    "on_time": ("scheduled", "fired", "cancelled"),
}
MUST_BE_0 = {
    "transactions": ("difference", "unbalanced", "missing", "leaked", "duplicated"),
    "on_time": ("lost", "early", "duplicated", "fired_anyway"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditSettings:
    """`points`: millions of records, in place of `count`, such as 1,10,30; the last
    one stands on top. `log_rate_per_s`: how close the records lie together in the log.
    `stream_s=0` leaves out the stream."""

    count: int = 10 * MILLION
    points: str = ""
    log_rate_per_s: int = 5_000
    body_bytes: int = 200
    master: str = "local[2]"
    memory: str = "3g"
    stream_s: float = 60.0
    stream_rate_per_s: int = 20_000
    stream_warmup_s: float = 30.0
    folder: str = ""

    @property
    def counts(self) -> list[int]:
        if not self.points:
            return [self.count]
        return [round(float(text) * MILLION) for text in self.points.split(",")]


DEFAULTS = AuditSettings()


async def measure(settings: AuditSettings) -> BenchResult:
    """Raises LoadtestError."""
    if importlib.util.find_spec("pyspark") is None:
        raise LoadtestError("this bench needs Spark: pip install 'halfpast[spark]'")
    counts = _counts(settings)
    need_room(settings.folder, max(counts) * ROOM_BYTES + ROOM_SPARE_BYTES)
    result = BenchResult(bench=NAME, settings=settings_of(settings), failed=0)
    where = settings.folder or None
    with tempfile.TemporaryDirectory(prefix="halfpast-bench-", dir=where) as folder:
        for count in counts:
            await _Point(Path(folder), count, settings, result).run()
        if settings.stream_s:
            await _measure_stream(Path(folder), settings, result)
    return result


def _counts(settings: AuditSettings) -> list[int]:
    try:
        counts = settings.counts
    except ValueError as error:
        raise LoadtestError(f"points={settings.points}: give 1,10,30") from error
    if min(counts) < 1:
        raise LoadtestError("give at least one record")
    return counts


class _Point:
    """One number of records."""

    def __init__(
        self, folder: Path, count: int, settings: AuditSettings, result: BenchResult
    ) -> None:
        self._folder = folder
        self._data = folder / "data"
        self._count = count
        self._settings = settings
        self._result = result
        self._progress = Progress(NAME, count)
        self._name = f"{count / MILLION:g} M"

    async def run(self) -> None:
        books, closed = await asyncio.to_thread(self._write)
        self._progress.say("exporting")
        exported = await self._audit("export", "--data", str(self._data))
        result, name = self._result, self._name
        self._progress.say("auditing what was exported")
        parquet = await self._run("parquet", closed)
        parquet["export_s"] = round(exported.told["seconds"], 2)
        parquet["export_per_s"] = round(
            exported.told["events"] / exported.told["seconds"]
        )
        scan_s = await asyncio.to_thread(self._scan)
        result.parts[f"{name} parquet"] = parquet
        self._progress.say("auditing the log")
        result.parts[f"{name} log"] = await self._run("log", books)
        result.rate_per_s = parquet["rate_per_s"]
        result.baseline = {"parquet_scan_s": round(scan_s, 2)}
        result.ratio = {"parquet_scan_s": round(parquet["audits_s"] / scan_s, 1)}
        shutil.rmtree(self._data)

    def _write(self) -> tuple[Counter[str], Counter[str]]:
        """Gives what was written, and what of it lies in closed segments."""
        from halfpast_loadtest.audit_log import AuditLog

        rate = self._settings.log_rate_per_s
        span_ms = self._count * 1000 // rate
        with AuditLog(
            self._data,
            start_ms=time.time_ns() // MILLION - span_ms,
            rate_per_s=rate,
            body_bytes=self._settings.body_bytes,
        ) as log:
            log.write(self._count, self._progress.at)
            self._progress.end()
            return log.load.books, log.closed_books

    def _scan(self) -> float:
        """Seconds to read the same columns of the same files, and do nothing."""
        from halfpast_spark.arrow import parquet
        from halfpast_spark.event_source import COLUMNS
        from halfpast_spark.exported import need_export

        folder = self._data / "audit" / "events"
        began = time.perf_counter()
        for file in need_export(str(folder)).files:
            with parquet.ParquetFile(folder / file.path) as opened:
                for _ in opened.iter_batches(SCAN_ROWS, columns=list(COLUMNS)):
                    pass
        return time.perf_counter() - began

    async def _run(self, source: str, books: Mapping[str, int]) -> dict[str, Any]:
        settings = self._settings
        words = ("--data", str(self._data), "--window", WINDOW)
        ended = await self._audit(
            *("run", "--read", source, *words),
            *("--master", settings.master, "--memory", settings.memory),
        )
        steps = ended.told["steps_s"]
        audits_s = sum(steps[step] for step in STEPS)
        shown = await self._audit("show", *words)
        later = ended.told["run"]["pending_later"]
        wrong = differences(shown.told, books, later)
        assert self._result.failed is not None
        self._result.failed += len(wrong)
        self._result.notes += [f"{self._name} {source}: {text}" for text in wrong]
        return {
            "rate_per_s": round(books["records"] / audits_s),
            "records": books["records"],
            "events": ended.told["run"]["events"],
            "audits_s": round(audits_s, 2),
            **{f"{step.split()[-1]}_s": round(steps[step], 2) for step in STEPS},
            "all_audits_s": round(sum(steps.values()), 2),
            "command_s": round(ended.seconds, 2),
            "pss_mb_max": ended.pss_mb_max,
        }

    async def _audit(self, *words: str) -> "Ended":
        return await audit_command.run(self._folder, *words)


def differences(
    shown: Mapping[str, Any], books: Mapping[str, int], pending_later: int
) -> list[str]:
    """What the audits have found other than what was written. Delayed messages that
    are due behind the last window are in none: they wait, or have been cancelled."""
    found: Counter[str] = Counter()
    faults: Counter[str] = Counter()
    for table, names in FIGURES.items():
        for row in shown[table]:
            if row["topic"] != "*":
                continue
            found.update({name: row[name] for name in names})
            faults.update({f"{table} {name}": row[name] for name in MUST_BE_0[table]})
    wrong = [f"{name}: {count} found" for name, count in faults.items() if count]
    for names in FIGURES.values():
        wrong += [
            f"{name}: {found[name]} found, {books[name]} written"
            for name in names
            if found[name] != books[name] and name not in {"scheduled", "cancelled"}
        ]
    cancelled_later = books["cancelled"] - found["cancelled"]
    told = found["scheduled"] + pending_later + cancelled_later
    if told != books["scheduled"] or cancelled_later < 0:
        wrong.append(f"scheduled: {told} found, {books['scheduled']} written")
    return wrong


async def _measure_stream(
    folder: Path, settings: AuditSettings, result: BenchResult
) -> None:
    from halfpast_loadtest.audit_live import LiveConfig, measure_live

    config = LiveConfig(
        rate_per_s=settings.stream_rate_per_s,
        seconds=settings.stream_s,
        warmup_s=settings.stream_warmup_s,
        master=settings.master,
        memory=settings.memory,
    )
    seen = await measure_live(folder, config)
    latency = summarise(seen.latencies_ms)
    with_latency(result, latency)
    result.parts["stream"] = {
        "rate_per_s": round(seen.written / seen.seconds),
        **latency.shown(),
        "frames_behind": seen.behind,
        "cpu_us_per_record": round(seen.cpu_s * 1e6 / seen.written, 1),
        "pss_mb_max": seen.pss_mb_max,
    }
