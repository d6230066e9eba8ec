"""Sums over the window tables: what the plots and tables are made of.

Of a window that a batch run and a stream both know, one counts. Nothing here is larger
than what is shown, whatever the tables hold: the database does the adding.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from sqlalchemy import (
    CTE,
    BigInteger,
    ColumnElement,
    Connection,
    Executable,
    TableClause,
    and_,
    cast,
    exists,
    func,
    literal,
    or_,
    select,
)

from halfpast_api.console.audits.figures import C, Counts
from halfpast_api.console.audits.percentiles import Bucket
from halfpast_api.console.audits.scope import Scope
from halfpast_spark import result_tables as tables

SOURCES: Final = (tables.BATCH, tables.STREAM)


def rows_of(connection: Connection, query: Executable) -> list[tuple[Any, ...]]:
    """What a query finds."""
    found: Any = connection.execute(query)
    return [tuple(row) for row in found]


def sums_by_step(
    connection: Connection,
    table: TableClause,
    counts: type[C],
    scope: Scope,
    *where: ColumnElement[bool],
) -> dict[int, C]:
    """Sums by the beginning of the step; those without any window are missing."""
    step = _step_of(table, scope)
    query = (
        select(step, *_sums(table, counts))
        .where(_within(table, scope), *where)
        .group_by(step)
    )
    return {row[0]: _made(counts, row[1:]) for row in rows_of(connection, query)}


def sums_by_name(
    connection: Connection,
    table: TableClause,
    counts: type[C],
    scope: Scope,
    names: Sequence[str],
    *where: ColumnElement[bool],
    extra: Sequence[ColumnElement[Any]] = (),
) -> list[tuple[tuple[str, ...], C, tuple[Any, ...]]]:
    """Sums over all windows by the columns `names`, in their order; and `extra`."""
    keys = [table.c[name] for name in names]
    query = (
        select(*keys, *_sums(table, counts), *extra)
        .where(_within(table, scope), *where)
        .group_by(*keys)
        .order_by(*keys)
    )
    width = len(keys) + len(counts.__struct_fields__)
    return [
        (tuple(row[: len(keys)]), _made(counts, row[len(keys) : width]), row[width:])
        for row in rows_of(connection, query)
    ]


def largest_by_step(
    connection: Connection,
    table: TableClause,
    columns: Sequence[str],
    scope: Scope,
    *where: ColumnElement[bool],
) -> dict[int, tuple[float | None, ...]]:
    """The largest value of each column in each step."""
    step = _step_of(table, scope)
    query = (
        select(step, *(func.max(table.c[name]) for name in columns))
        .where(_within(table, scope), *where)
        .group_by(step)
    )
    return {row[0]: row[1:] for row in rows_of(connection, query)}


def buckets_by_step(
    connection: Connection, measure: str, scope: Scope, groups: Sequence[str]
) -> dict[int, list[Bucket]]:
    """The histogram of the scope's topic and some producer groups, by step."""
    table = tables.histograms
    step = _step_of(table, scope)
    start = table.c.window_start_ms
    is_inside = and_(start >= scope.from_ms, start < scope.to_ms)
    if connection.dialect.name == "sqlite":
        is_inside = start.in_(select(_windows(scope).c.start))
    query = (
        select(step, table.c.lower, table.c.upper, _sum(table.c["count"]))
        .where(
            table.c.window_ms == scope.window_ms,
            is_inside,
            table.c.source.in_(SOURCES),
            table.c.measure == measure,
            table.c.producer_group.in_(groups),
            table.c.topic == scope.topic,
            _preferred(table),
        )
        .group_by(step, table.c.lower, table.c.upper)
        .order_by(step, table.c.lower)
    )
    found: dict[int, list[Bucket]] = {}
    for at_ms, lower, upper, count in rows_of(connection, query):
        found.setdefault(at_ms, []).append(Bucket(lower, upper, count))
    return found


def merged(buckets: Iterable[list[Bucket]]) -> list[Bucket]:
    """All of them added up."""
    counts: dict[tuple[int, int], int] = {}
    for bucket in (it for some in buckets for it in some):
        place = bucket.lower, bucket.upper
        counts[place] = counts.get(place, 0) + bucket.count
    return [Bucket(*place, count) for place, count in sorted(counts.items())]


def in_scope(table: TableClause, scope: Scope) -> ColumnElement[bool]:
    """The rows of the scope's windows, from the source that counts."""
    return _within(table, scope)


def _windows(scope: Scope) -> CTE:
    """The beginnings of all windows. Starting from them, SQLite looks each window up in
    the primary key; it would read the rows of all other topics too. PostgreSQL finds
    the right ones in the index by itself."""
    start = select(literal(scope.from_ms, BigInteger).label("start"))
    windows = start.cte("windows", recursive=True)
    following = windows.c.start + scope.window_ms
    return windows.union_all(select(following).where(following < scope.to_ms))


def _within(table: TableClause, scope: Scope) -> ColumnElement[bool]:
    start = table.c.window_start_ms
    return and_(
        table.c.window_ms == scope.window_ms,
        start >= scope.from_ms,
        start < scope.to_ms,
        _preferred(table),
    )


def _preferred(table: TableClause) -> ColumnElement[bool]:
    """The batch's rows if it saw all of the window, else those of whoever saw more."""
    other = table.alias("other")
    own, its = table.c, other.c
    same = its.window_ms == own.window_ms, its.window_start_ms == own.window_start_ms
    end = own.window_start_ms + own.window_ms
    saw_more = exists().where(
        *same, its.source == tables.STREAM, its.horizon_ms > own.horizon_ms
    )
    has_authority = exists().where(
        *same,
        its.source == tables.BATCH,
        or_(its.horizon_ms >= end, its.horizon_ms >= own.horizon_ms),
    )
    return or_(
        and_(own.source == tables.BATCH, or_(own.horizon_ms >= end, ~saw_more)),
        and_(own.source == tables.STREAM, ~has_authority),
    )


def _step_of(table: TableClause, scope: Scope) -> ColumnElement[int]:
    start = table.c.window_start_ms
    return start - start % scope.step_ms


def _sums(table: TableClause, counts: type[Counts]) -> list[ColumnElement[int]]:
    return [_sum(table.c[name]) for name in counts.__struct_fields__]


def _sum(column: ColumnElement[Any]) -> ColumnElement[int]:
    return cast(func.sum(column), BigInteger)  # PostgreSQL makes it a decimal


def _made(counts: type[C], values: Sequence[Any]) -> C:
    names = counts.__struct_fields__
    return counts(**dict(zip(names, values, strict=True)))
