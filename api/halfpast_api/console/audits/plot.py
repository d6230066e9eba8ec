"""Columns for the plots: one value a step, None where no window was audited."""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from halfpast_api.console.audits.figures import Counts
from halfpast_api.console.audits.percentiles import Bucket
from halfpast_api.console.audits.scope import Scope

Column = list[float | None]


class HeatMap(msgspec.Struct):
    """How many values fell into which bucket when.

    `rows` are the buckets, from `lower` to `upper`; a cell is step, row and count.
    """

    rows: list[tuple[int, int]]
    cells: list[tuple[int, int, int]]


def count_columns(
    scope: Scope, sums: Mapping[int, Counts], names: Sequence[str]
) -> dict[str, Column]:
    """Some of the counts."""
    found: dict[str, Column] = {name: [] for name in names}
    for at_ms in scope.steps:
        counts = sums.get(at_ms)
        for name, column in found.items():
            column.append(None if counts is None else getattr(counts, name))
    return found


def column(scope: Scope, value: Callable[[int], float | None]) -> Column:
    """What `value` gives for the beginning of each step."""
    return [value(at_ms) for at_ms in scope.steps]


def named_columns(
    scope: Scope,
    figures: Mapping[int, Mapping[str, float | None]],
    names: Sequence[str],
) -> dict[str, Column]:
    """Figures that are given by step and name."""
    found: dict[str, Column] = {name: [] for name in names}
    for at_ms in scope.steps:
        known = figures.get(at_ms, {})
        for name, values in found.items():
            values.append(known.get(name))
    return found


def heat_map(scope: Scope, buckets: Mapping[int, Sequence[Bucket]]) -> HeatMap:
    """All buckets of all steps."""
    rows = sorted({(it.lower, it.upper) for some in buckets.values() for it in some})
    number = {row: at for at, row in enumerate(rows)}
    cells = [
        ((at_ms - scope.from_ms) // scope.step_ms, number[it.lower, it.upper], it.count)
        for at_ms, some in sorted(buckets.items())
        for it in some
    ]
    return HeatMap(rows, cells)
