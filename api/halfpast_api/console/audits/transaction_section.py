"""Transactions: how many, what became of them, and how many were checked back."""

from collections.abc import Sequence
from typing import Final

import msgspec
from sqlalchemy import ColumnElement, Connection

from halfpast_api.console.audits import reading
from halfpast_api.console.audits.figures import TransactionCounts
from halfpast_api.console.audits.percentiles import Bucket, percentile, percentiles
from halfpast_api.console.audits.plot import (
    Column,
    column,
    count_columns,
    named_columns,
)
from halfpast_api.console.audits.scope import Scope
from halfpast_spark import result_tables as tables

SHOWN_GROUPS: Final = 5
_COUNTED: Final = (
    "half",
    "committed",
    "rolled_back",
    "open",
    "parked",
    "checked_back",
    "check_backs",
    "second_phase_lost",
    "slow_local",
)


class GroupRow(msgspec.Struct):
    """A producer group over the whole time, with the rate of each step."""

    name: str
    counts: TransactionCounts
    rates: Column


class TransactionSection(msgspec.Struct, kw_only=True):
    """`outcome` has the times from begun to outcome, in ms, by percentile."""

    total: TransactionCounts
    counts: dict[str, Column]
    rate: Column
    outcome: dict[str, Column]
    outcome_p99_ms: float | None
    checks: list[Bucket]
    groups: list[GroupRow]


def read_transactions(connection: Connection, scope: Scope) -> TransactionSection:
    """All of it, by a handful of queries."""
    table = tables.transactions
    of_topic = table.c.topic == scope.topic
    named = reading.sums_by_name(
        connection, table, TransactionCounts, scope, ["producer_group"], of_topic
    )
    names = [key[0] for key, _, _ in named]
    wanted = [scope.group] if scope.group else names
    chosen: list[ColumnElement[bool]] = [of_topic]
    if scope.group:
        chosen.append(table.c.producer_group == scope.group)
    sums = reading.sums_by_step(connection, table, TransactionCounts, scope, *chosen)
    longest = reading.largest_by_step(
        connection, table, ["outcome_max_ms"], scope, *chosen
    )
    times = reading.buckets_by_step(connection, "outcome_ms", scope, wanted)
    checks = reading.buckets_by_step(connection, "checks", scope, wanted)
    figures = {
        at_ms: percentiles(some, longest.get(at_ms, (None,))[0])
        for at_ms, some in times.items()
    }
    for at_ms, (value,) in longest.items():
        figures.setdefault(at_ms, {})["max"] = value
    return TransactionSection(
        total=_total([counts for (name,), counts, _ in named if name in wanted]),
        counts=count_columns(scope, sums, _COUNTED),
        rate=_rates(scope, sums),
        outcome=named_columns(scope, figures, ("p50", "p95", "p99", "max")),
        outcome_p99_ms=percentile(reading.merged(times.values()), 0.99),
        checks=reading.merged(checks.values()),
        groups=_groups(connection, scope, [(key[0], it) for key, it, _ in named]),
    )


def _groups(
    connection: Connection, scope: Scope, named: Sequence[tuple[str, TransactionCounts]]
) -> list[GroupRow]:
    """The worst first; only those that are drawn have their rates."""
    table = tables.transactions
    worst = sorted(named, key=lambda it: (-it[1].broken, -(it[1].rate or 0), it[0]))
    rows: list[GroupRow] = []
    for number, (name, counts) in enumerate(worst):
        rates: Column = []
        if number < SHOWN_GROUPS:
            is_group = table.c.producer_group == name, table.c.topic == scope.topic
            sums = reading.sums_by_step(
                connection, table, TransactionCounts, scope, *is_group
            )
            rates = _rates(scope, sums)
        rows.append(GroupRow(name, counts, rates))
    return rows


def _rates(scope: Scope, sums: dict[int, TransactionCounts]) -> Column:
    return column(scope, lambda at_ms: sums[at_ms].rate if at_ms in sums else None)


def _total(some: Sequence[TransactionCounts]) -> TransactionCounts:
    names = TransactionCounts.__struct_fields__
    return TransactionCounts(
        **{name: sum(getattr(it, name) for it in some) for name in names}
    )
