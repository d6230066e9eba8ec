"""Windows added up: what `audit show` prints and `audit check` judges."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import BigInteger, Connection, Table

from . import result_tables as tables
from .histogram import quantile
from .result_rows import Row, read_rows

NOT_SUMS = {"window_ms", "window_start_ms", "horizon_ms"}


@dataclass(slots=True)
class Summary:
    """One group and topic over some windows: counts, and quantiles from histograms."""

    key: tuple[str, ...]
    counts: dict[str, int] = field(default_factory=lambda: {})
    buckets: dict[str, dict[int, int]] = field(default_factory=lambda: {})
    sla_ms: float | None = None
    sla_share: float | None = None

    def rate(self, part: str, whole: str) -> float | None:
        """None where there is nothing to be a part of."""
        total = self.counts[whole]
        return self.counts[part] / total if total else None

    def quantile(self, measure: str, share: float) -> int | None:
        return quantile(self.buckets.get(measure, {}).items(), share)


@dataclass(frozen=True, slots=True)
class Summaries:
    """All of some windows."""

    transactions: list[Summary]
    on_time: list[Summary]
    end_to_end: list[Summary]


def summarise(
    connection: Connection, *, window_ms: int, from_ms: int, to_ms: int
) -> Summaries:
    """The windows of this length that begin in this time, added up."""

    def read(table: Table) -> list[Row]:
        return read_rows(
            connection, table, window_ms=window_ms, from_ms=from_ms, to_ms=to_ms
        )

    transactions = _summed(tables.transactions, read(tables.transactions))
    on_time = _summed(tables.on_time, read(tables.on_time))
    end_to_end = _summed(tables.end_to_end, read(tables.end_to_end))
    for row in read(tables.histograms):
        if row["measure"] == "lateness_ms":
            summary = on_time.get((row["topic"],))
        else:
            summary = transactions.get((row["producer_group"], row["topic"]))
        if summary is not None:
            buckets = summary.buckets.setdefault(row["measure"], {})
            buckets[row["bucket"]] = buckets.get(row["bucket"], 0) + row["count"]
    return Summaries(_sorted(transactions), _sorted(on_time), _sorted(end_to_end))


def _summed(table: Table, rows: Iterable[Row]) -> dict[tuple[str, ...], Summary]:
    keys = _key_names(table)
    sums = [
        column.name
        for column in table.columns
        if isinstance(column.type, BigInteger) and column.name not in NOT_SUMS
    ]
    found: dict[tuple[str, ...], Summary] = {}
    for row in rows:
        key = tuple(row[name] for name in keys)
        summary = found.setdefault(key, Summary(key))
        for name in sums:
            summary.counts[name] = summary.counts.get(name, 0) + row[name]
        _remember_sla(summary, row)
    return found


def _remember_sla(summary: Summary, row: dict[str, Any]) -> None:
    """The latest one: rows come in the order of their windows."""
    if row.get("sla_ms") is not None:
        summary.sla_ms, summary.sla_share = row["sla_ms"], row["sla_share"]


def _key_names(table: Table) -> Sequence[str]:
    shared = {"window_ms", "window_start_ms", "source"}
    return [it.name for it in table.primary_key.columns if it.name not in shared]


def _sorted(found: dict[tuple[str, ...], Summary]) -> list[Summary]:
    return [found[key] for key in sorted(found)]
