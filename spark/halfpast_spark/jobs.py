"""The audits as one run in batch: read, balance, replace the windows.

source ──> id-level tables ──> window tables ──> database, in one transaction
                └──> Parquet (details)    └──> offenders with their time lines
"""

import json
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from pyspark import StorageLevel
from pyspark.sql import functions as F

from . import end_to_end_audit, offenders, on_time_audit, transaction_audit
from .details import DetailTables
from .event_source import LOG, EventSource
from .histogram import bounds_of
from .job_config import RunConfig, check_end, period_of
from .job_errors import NothingToAudit
from .result_tables import ALL_TOPICS, BATCH
from .results import Run, WindowRows, replace_windows
from .results_database import ResultsDatabase
from .sla import SlaRules
from .spark_failures import spark_failures
from .windows import Period

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Tell = Callable[[str], None]
GAPS_MAX = 100
EVENTS_OF_A_PARTITION = 500_000


@dataclass(frozen=True, slots=True)
class Extent:
    """What there is to read: how many events, since when, and what is missing."""

    events: int
    first_ms: int
    gaps: list[str]


def run_audits(
    source: EventSource, config: RunConfig, tell: Tell = lambda _: None
) -> Run:
    """Audit, and put the results in the place of what was known of these windows.

    `tell` hears what is being done. Raises AuditError; then nothing has changed.
    """
    with spark_failures():
        return _run(source, config, tell)


def _run(source: EventSource, config: RunConfig, tell: Tell) -> Run:
    started_ms = _now_ms()
    run_id = str(uuid4())
    database = ResultsDatabase(config.database)
    database.check()
    check_end(config, source.horizon_ms)
    with _held(source) as events, DetailTables(config.details, run_id) as details:
        tell("reading the events")
        extent = _extent(source, events)
        period = period_of(
            config,
            first_ms=extent.first_ms,
            starts_at_zero=source.start_position == 0,
            horizon_ms=source.horizon_ms,
        )
        _divide(events, extent.events)
        job = AuditJob(events, period, config.rules, details)
        tell("balancing transactions")
        job.balance_transactions()
        tell("balancing delayed messages")
        job.balance_timers()
        tell("following messages to their consumers")
        job.follow_messages()
        tell("looking for offenders")
        job.find_offenders()
        run = Run(
            run_id=run_id,
            source=BATCH,
            read_from=source.read_from,
            store_id=source.store_id,
            window_ms=period.window_ms,
            from_ms=period.from_ms,
            to_ms=period.to_ms,
            grace_ms=period.grace_ms,
            horizon_ms=period.horizon_ms,
            horizon_position=source.horizon_position,
            events=extent.events,
            pending_later=job.pending_later,
            started_ms=started_ms,
            finished_ms=_now_ms(),
            details=details.folder,
            gaps=json.dumps(extent.gaps),
        )
        tell("writing the results")
        replace_windows(database, period, job.rows, run)
        details.keep()
    return run


class AuditJob:
    """The tables of one run, from its events."""

    def __init__(
        self,
        events: "DataFrame",
        period: Period,
        rules: SlaRules,
        details: DetailTables,
    ) -> None:
        self._events = events
        self._period = period
        self._rules = rules
        self._details = details
        self._candidates: list[DataFrame] = []
        self.rows = WindowRows()
        self.pending_later = 0

    def balance_transactions(self) -> None:
        states = transaction_audit.transaction_states(self._events)
        topics = transaction_audit.transaction_topics(self._events)
        rows = transaction_audit.transaction_rows(states, topics)
        rows = self._details.hold("transactions", rows)
        found = transaction_audit.transaction_windows(rows, self._period)
        self.rows.transactions += _dicts(found)
        counts = transaction_audit.transaction_histograms(rows, self._period)
        self.rows.histograms += map(_bucket_row, _dicts(counts))
        self._candidates.append(offenders.transaction_candidates(rows, self._period))

    def balance_timers(self) -> None:
        states = on_time_audit.timer_states(self._events)
        states = self._details.hold("timers", states)
        rows = on_time_audit.timer_rows(states, self._period, self._rules)
        for row in _dicts(on_time_audit.on_time_windows(rows)):
            topic = row["topic"]
            sla = None if topic == ALL_TOPICS else self._rules.of(topic)
            row["sla_ms"] = None if sla is None else sla.within_ms
            row["sla_share"] = None if sla is None else sla.share
            self.rows.on_time.append(row)
        for row in _dicts(on_time_audit.lateness_histogram(rows)):
            row |= {"measure": "lateness_ms", "producer_group": ""}
            self.rows.histograms.append(_bucket_row(row))
        later = (F.col("state") == "open") & (F.col("due_ms") >= self._period.to_ms)
        self.pending_later = states.where(later).count()
        self._candidates.append(offenders.timer_candidates(rows))

    def follow_messages(self) -> None:
        states = end_to_end_audit.message_states(self._events, self._period)
        states = self._details.hold("messages", states)
        settled = end_to_end_audit.settled(self._events)
        settled = self._details.hold("settled", settled)
        found = end_to_end_audit.end_to_end_windows(states, settled, self._period)
        self.rows.end_to_end += _dicts(found)
        self._candidates.append(offenders.message_candidates(states, self._period))

    def find_offenders(self) -> None:
        """Of the audits that were made before."""
        candidates = self._candidates[0]
        for others in self._candidates[1:]:
            candidates = candidates.unionByName(others)
        worst = self._details.hold("offenders", offenders.worst(candidates))
        found = offenders.with_timelines(worst, self._events)
        self.rows.offenders += _dicts(found)


@contextmanager
def _held(source: EventSource) -> "Generator[DataFrame, None, None]":
    """The events, read from the log once; Parquet is read faster than a copy of it."""
    if source.read_from != LOG:
        yield source.events
        return
    held = source.events.persist(StorageLevel.DISK_ONLY)
    try:
        yield held
    finally:
        held.unpersist()


def _extent(source: EventSource, events: "DataFrame") -> Extent:
    is_gap = F.col("kind") == "gap"
    found = events.agg(
        F.count(F.when(~is_gap, F.lit(1))).alias("events"),
        F.min(F.when(~is_gap, F.col("stored_ms"))).alias("first_ms"),
        F.count(F.when(is_gap, F.lit(1))).alias("gaps"),
    ).collect()[0]
    if not found["events"]:
        raise NothingToAudit(source.place, "there is no event in it")
    gaps: list[str] = []
    if found["gaps"]:
        rows = events.where(is_gap).orderBy("position").limit(GAPS_MAX).collect()
        gaps += [
            f"positions {row['position']} to {row['offset']}: {row['reason']}"
            for row in rows
        ]
    return Extent(found["events"], found["first_ms"], gaps)


def _divide(events: "DataFrame", count: int) -> None:
    """As many shuffle partitions as the events need; 200, Spark's own number, take
    minutes for a handful of them."""
    wanted = min(max(count // EVENTS_OF_A_PARTITION, 2), 1000)
    events.sparkSession.conf.set("spark.sql.shuffle.partitions", str(wanted))


def _dicts(found: "DataFrame") -> list[dict[str, Any]]:
    return [row.asDict() for row in found.collect()]


def _bucket_row(row: dict[str, Any]) -> dict[str, Any]:
    bucket = row["bucket"]
    if row["measure"] == "checks":
        lower = upper = bucket
    else:
        lower, upper = bounds_of(bucket)
    return {**row, "lower": lower, "upper": upper}


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
