"""`halfpast audit show` and `check`: the results that are there, added up."""

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from halfpast_api.audits.spans import span_ms
from halfpast_api.places import Places
from halfpast_spark.job_errors import NothingToAudit
from halfpast_spark.result_rows import Row, last_run, live_extent
from halfpast_spark.results_database import ResultsDatabase
from halfpast_spark.rules import Rules, read_rules
from halfpast_spark.summaries import Summaries, Summary, summarise
from halfpast_spark.verdicts import Broken, broken_rules

__all__ = ["Broken", "Shown", "read_broken", "read_summaries"]

QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p999": 0.999}


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """Windows added up, and what was not seen of them."""

    window_ms: int
    from_ms: int
    to_ms: int
    horizon_ms: int
    gaps: list[str]
    summaries: Summaries

    def as_json(self) -> dict[str, Any]:
        """Plain objects, with the quantiles that the histograms give."""
        found = self.summaries
        return {
            "window_ms": self.window_ms,
            "from_ms": self.from_ms,
            "to_ms": self.to_ms,
            "horizon_ms": self.horizon_ms,
            "gaps": self.gaps,
            "transactions": [
                _plain(it, ("producer_group", "topic"), "outcome_ms")
                for it in found.transactions
            ],
            "on_time": [_plain(it, ("topic",), "lateness_ms") for it in found.on_time],
            "end_to_end": [
                _plain(it, ("consumer_group", "topic"), "") for it in found.end_to_end
            ],
        }


def read_summaries(
    data: Path, metadata: str | None, *, last: str | None, window: str | None
) -> Shown:
    """What the last run has found, and a stream since then; or the time `last` before
    that ends.

    Raises AuditError, ValueError.
    """
    database = open_results(data, metadata)
    extent = read_extent(database, last=last, window=window)
    with database.transaction() as connection:
        return Shown(
            window_ms=extent["window_ms"],
            from_ms=extent["from_ms"],
            to_ms=extent["to_ms"],
            horizon_ms=extent["horizon_ms"],
            gaps=json.loads(extent.get("gaps", "[]")),
            summaries=summarise(
                connection,
                window_ms=extent["window_ms"],
                from_ms=extent["from_ms"],
                to_ms=extent["to_ms"],
            ),
        )


def read_broken(
    data: Path,
    metadata: str | None,
    *,
    rules: Path | None,
    last: str | None,
    window: str | None,
    max_age: str | None,
) -> list[Broken]:
    """The rules that do not hold in the same windows. Raises AuditError, ValueError."""
    known = Rules() if rules is None else read_rules(rules)
    oldest_ms = None if max_age is None else span_ms(max_age)
    shown = read_summaries(data, metadata, last=last, window=window)
    broken = broken_rules(shown.summaries, known, gaps=len(shown.gaps))
    age_ms = time.time_ns() // 1_000_000 - shown.horizon_ms
    if oldest_ms is not None and age_ms > oldest_ms:
        broken.append(
            Broken(kind="run", name="", rule="max_age", value=age_ms, bound=oldest_ms)
        )
    return broken


def open_results(data: Path, metadata: str | None) -> ResultsDatabase:
    """Raises ResultsUnavailable."""
    return ResultsDatabase(Places.below(data, metadata=metadata).metadata)


def read_extent(
    database: ResultsDatabase, *, last: str | None, window: str | None
) -> Row:
    """Which windows there are to show: the last run's, or the time `last` before that
    ends. Raises AuditError, ValueError."""
    window_ms = None if window is None else span_ms(window)
    with database.transaction() as connection:
        extent = _extent(connection, database.url, window_ms)
    if last is None:
        return extent
    return {**extent, "from_ms": extent["to_ms"] - span_ms(last)}


def _extent(connection: Connection, url: str, window_ms: int | None) -> Row:
    """Of the last run, on to where a stream of the same windows has come since."""
    run = last_run(connection, window_ms)
    known = window_ms if run is None else run["window_ms"]
    live = live_extent(connection, known)
    if run is None and live is None:
        what = "" if window_ms is None else f" with windows of {window_ms} ms"
        raise NothingToAudit(url, f"there was no run yet{what}: 'halfpast audit run'")
    if run is None or live is None:
        return run or live or {}
    ends = {name: max(run[name], live[name]) for name in ("to_ms", "horizon_ms")}
    gaps = dict.fromkeys([*json.loads(run["gaps"]), *json.loads(live["gaps"])])
    return {**run, **ends, "gaps": json.dumps(list(gaps))}


def _plain(summary: Summary, names: tuple[str, ...], measure: str) -> dict[str, Any]:
    found: dict[str, Any] = dict(zip(names, summary.key, strict=True))
    found |= summary.counts
    if measure:
        stem = measure.removesuffix("_ms")
        found |= {
            f"{stem}_{name}_ms": summary.quantile(measure, share)
            for name, share in QUANTILES.items()
        }
    if summary.sla_ms is not None:
        found |= {"sla_ms": summary.sla_ms, "sla_share": summary.sla_share}
    return found
