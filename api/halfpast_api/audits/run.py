"""`halfpast audit run`: a Spark of our own, or somebody's, and one run in it."""

import json
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from halfpast_api.audits.report_file import need_place, write_report
from halfpast_api.audits.spans import moment_ms, span_ms
from halfpast_api.audits.tracker import Tracker
from halfpast_api.metadata.migrate import migrate
from halfpast_api.places import Places
from halfpast_spark.export_manifest import NAME as MANIFEST
from halfpast_spark.exported import need_export
from halfpast_spark.job_config import RunConfig
from halfpast_spark.job_errors import NothingToAudit
from halfpast_spark.log_folder import LogFolder
from halfpast_spark.results import Run
from halfpast_spark.results_database import ResultsDatabase
from halfpast_spark.retention import RetentionConfig, prune_afterwards
from halfpast_spark.rules import Rules, read_rules
from halfpast_spark.session import open_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from halfpast_spark.event_source import EventSource

SHOWN_GAPS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """The options as they were typed."""

    data: Path
    metadata: str | None
    export: Path | None
    read_from: str
    since: str | None
    until: str | None
    window: str
    grace: str
    rules: Path | None
    details: Path | None
    report: Path | None
    keep: str
    keep_rows: int
    master: str
    memory: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """A run that has been written."""

    run: Run
    place: str
    gaps: list[str]
    gap_count: int
    report: Path | None
    steps_s: dict[str, float]
    pruned_rows: int


def run_audit(request: RunRequest) -> Done:
    """Raises AuditError, MetadataError, StoreError, ValueError."""
    now = datetime.now(UTC)
    places = Places.below(request.data, metadata=request.metadata)
    rules = Rules() if request.rules is None else read_rules(request.rules)
    config = RunConfig(
        database=places.metadata,
        from_ms=moment_ms(request.since, now),
        to_ms=moment_ms(request.until, now),
        window_ms=span_ms(request.window),
        grace_ms=span_ms(request.grace),
        rules=rules.sla,
        details="" if request.details is None else str(request.details),
    )
    retention = RetentionConfig(
        keep_ms=span_ms(request.keep), rows_max=request.keep_rows
    )
    store, exported = source_folders(request)
    if request.report is not None:
        need_place(request.report)
    migrate(places.metadata)
    with session(request.master, request.memory) as spark, Tracker() as tracker:
        from halfpast_spark.jobs import run_audits

        source = open_source(spark, store, exported)
        run = run_audits(source, config, tracker.tell)
    pruned = prune_afterwards(ResultsDatabase(places.metadata), retention)
    gaps: list[str] = json.loads(run.gaps)
    if request.report is not None:
        write_report(places.metadata, run, request.report)
    return Done(
        run=run,
        place=source.place,
        gaps=gaps[:SHOWN_GAPS],
        gap_count=len(gaps),
        report=request.report,
        steps_s=tracker.steps_s,
        pruned_rows=pruned.rows,
    )


@contextmanager
def session(
    master: str, memory: str, **more: str
) -> "Generator[SparkSession, None, None]":
    """Raises SparkMissing, MasterUnreachable."""
    settings = {"spark.driver.memory": memory, **more}
    if sys.stderr.isatty():
        settings["spark.ui.showConsoleProgress"] = "true"
    spark = open_session("halfpast audit", master=master, settings=settings)
    try:
        yield spark
    finally:
        spark.stop()


def source_folders(request: RunRequest) -> tuple[str, str]:
    """The data folder and the export to read, as far as they are to be read; better
    known before Spark has been started. Raises NoStore, NothingToAudit, StoreError."""
    exported = (request.export or request.data / "audit" / "events").absolute()
    read_from = request.read_from
    if read_from == "auto":
        read_from = "both" if (exported / MANIFEST).is_file() else "log"
    if read_from != "log":
        need_export(str(exported))
    if read_from == "parquet":
        return "", str(exported)
    store = str(request.data.absolute())
    horizon = LogFolder(store).horizon()
    if horizon.end <= horizon.start:
        raise NothingToAudit(store, "the log is empty")
    return store, "" if read_from == "log" else str(exported)


def open_source(spark: "SparkSession", store: str, exported: str) -> "EventSource":
    """Where the events come from. Raises AuditError, StoreError."""
    from halfpast_spark.event_source import open_both, open_log, open_parquet

    if not exported:
        return open_log(spark, store)
    return open_both(spark, store, exported) if store else open_parquet(spark, exported)
