"""Delayed messages: how late, how many within their SLA, and what never may be."""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from sqlalchemy import BigInteger, Connection, and_, case, cast, func

from halfpast_api.console.audits import reading
from halfpast_api.console.audits.figures import ALL, OnTimeCounts
from halfpast_api.console.audits.percentiles import Bucket, percentile, percentiles
from halfpast_api.console.audits.plot import (
    Column,
    HeatMap,
    column,
    count_columns,
    heat_map,
    named_columns,
)
from halfpast_api.console.audits.scope import Scope
from halfpast_spark import result_tables as tables

PERCENTILES: Final = ("p50", "p95", "p99", "p999")
_COUNTED: Final = (
    "scheduled",
    "fired",
    "cancelled",
    "dead",
    "pending",
    "lost",
    "broken",
)
_FIGURES: Final = [*(f"lateness_{it}_ms" for it in PERCENTILES), "lateness_max_ms"]


class TopicRow(msgspec.Struct, kw_only=True):
    """A topic over the whole time. The percentile is that of its worst window."""

    name: str
    counts: OnTimeCounts
    sla_ms: float | None
    sla_share: float | None
    worst_p99_ms: float | None
    lateness_max_ms: float | None
    windows: int
    windows_missed: int

    @property
    def is_met(self) -> bool | None:
        """Whether the SLA was kept over the whole time; None if there is none."""
        attained = self.counts.attainment
        if attained is None or self.sla_share is None:
            return None
        return attained >= self.sla_share


class OnTimeSection(msgspec.Struct, kw_only=True):
    """`lateness` in ms, by percentile; `is_exact`: those of the windows themselves,
    otherwise bounds from above that histograms give."""

    total: OnTimeCounts
    counts: dict[str, Column]
    attainment: Column
    lateness: dict[str, Column]
    is_exact: bool
    lateness_p99_ms: float | None
    lateness_max_ms: float | None
    sla_ms: float | None
    sla_share: float | None
    heat: HeatMap
    topics: list[TopicRow]

    @property
    def missed(self) -> list[str]:
        """The topics whose SLA was not kept."""
        return [it.name for it in self.topics if it.is_met is False]


def read_on_time(connection: Connection, scope: Scope) -> OnTimeSection:
    """All of it, by a handful of queries."""
    table = tables.on_time
    chosen = table.c.topic == scope.topic
    sums = reading.sums_by_step(connection, table, OnTimeCounts, scope, chosen)
    found = reading.largest_by_step(connection, table, _FIGURES, scope, chosen)
    buckets = reading.buckets_by_step(connection, "lateness_ms", scope, [""])
    lateness = _lateness(scope, found, buckets)
    maxima = [it for it in lateness["max"] if it is not None]
    topics = _topics(connection, scope)
    slas = {it.sla_ms for it in topics if scope.topic in (ALL, it.name)}
    shares = {it.sla_share for it in topics if scope.topic in (ALL, it.name)}
    return OnTimeSection(
        total=_total(list(sums.values())),
        counts=count_columns(scope, sums, _COUNTED),
        attainment=column(
            scope, lambda at_ms: sums[at_ms].attainment if at_ms in sums else None
        ),
        lateness=lateness,
        is_exact=scope.is_exact,
        lateness_p99_ms=percentile(reading.merged(buckets.values()), 0.99),
        lateness_max_ms=max(maxima, default=None),
        sla_ms=slas.pop() if len(slas) == 1 else None,
        sla_share=shares.pop() if len(shares) == 1 else None,
        heat=heat_map(scope, buckets),
        topics=topics,
    )


def _lateness(
    scope: Scope,
    found: Mapping[int, tuple[float | None, ...]],
    buckets: Mapping[int, Sequence[Bucket]],
) -> dict[str, Column]:
    """Several windows in one step have no exact percentile, but a largest value."""
    figures = {
        at_ms: dict(zip([*PERCENTILES, "max"], values, strict=True))
        for at_ms, values in found.items()
    }
    if not scope.is_exact:
        for at_ms, some in buckets.items():
            known = figures.setdefault(at_ms, {})
            known.update(percentiles(some, known.get("max")))
    return named_columns(scope, figures, [*PERCENTILES, "max"])


def _topics(connection: Connection, scope: Scope) -> list[TopicRow]:
    """The worst first."""
    table = tables.on_time
    is_judged = table.c.judged > 0
    is_missed = and_(is_judged, table.c.in_sla < table.c.sla_share * table.c.judged)
    extra = [
        func.max(table.c.sla_ms),
        func.max(table.c.sla_share),
        func.max(table.c.lateness_p99_ms),
        func.max(table.c.lateness_max_ms),
        cast(func.sum(case((is_judged, 1), else_=0)), BigInteger),
        cast(func.sum(case((is_missed, 1), else_=0)), BigInteger),
    ]
    rows = [
        TopicRow(
            name=key[0],
            counts=counts,
            sla_ms=more[0],
            sla_share=more[1],
            worst_p99_ms=more[2],
            lateness_max_ms=more[3],
            windows=more[4],
            windows_missed=more[5],
        )
        for key, counts, more in reading.sums_by_name(
            connection,
            table,
            OnTimeCounts,
            scope,
            ["topic"],
            table.c.topic != ALL,
            extra=extra,
        )
    ]
    rows.sort(key=lambda it: (-it.counts.broken, it.is_met is not False, it.name))
    return rows


def _total(some: Sequence[OnTimeCounts]) -> OnTimeCounts:
    names = OnTimeCounts.__struct_fields__
    return OnTimeCounts(
        **{name: sum(getattr(it, name) for it in some) for name in names}
    )
