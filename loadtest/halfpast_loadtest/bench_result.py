"""What a benchmark reports, as one JSON object on one line or as a table."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from halfpast_loadtest.latency import Latency

COLUMN_COUNT_MAX = 4


class BenchResult(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Figures of one run; those that do not apply stay None and are left out.

    `baseline` holds what the same machine did in the same run without Halfpast,
    `ratio` ours divided by it (for rates: 1 is as good as the baseline; for
    lateness: 1 likewise, larger is worse). `parts` holds the same figures for
    variants, such as the two body formats. `notes` say what could not be measured.
    """

    bench: str
    settings: dict[str, Any]
    rate_per_s: float | None = None
    p50_ms: float | None = None
    p99_ms: float | None = None
    p999_ms: float | None = None
    max_ms: float | None = None
    early: int | None = None
    lost: int | None = None
    duplicates: int | None = None
    failed: int | None = None
    check_backs: int | None = None
    rss_mb: float | None = None
    anonymous_mb: float | None = None
    server_cpu_us_per_message: float | None = None
    client_cpu_us_per_message: float | None = None
    baseline: dict[str, float] = {}
    ratio: dict[str, float] = {}
    notes: list[str] = []
    parts: dict[str, dict[str, Any]] = {}


def with_latency(result: BenchResult, latency: Latency) -> None:
    """Fill in the percentiles, rounded to a microsecond."""
    result.p50_ms = round(latency.p50_ms, 3)
    result.p99_ms = round(latency.p99_ms, 3)
    result.p999_ms = round(latency.p999_ms, 3)
    result.max_ms = round(latency.max_ms, 3)


def figures(result: BenchResult) -> dict[str, Any]:
    """The figures alone, for use as a part of another result."""
    shown = msgspec.convert(msgspec.to_builtins(result), dict[str, Any])
    for name in ("bench", "settings", "parts", "notes"):
        shown.pop(name, None)
    return shown


def from_part(result: BenchResult, name: str) -> None:
    """Put the figures of one part on top, those that have a place there."""
    known = {one.encode_name for one in msgspec.structs.fields(BenchResult)}
    for figure, value in result.parts[name].items():
        if figure in known:
            setattr(result, figure, value)


def settings_of(settings: object) -> dict[str, Any]:
    """A settings dataclass as a plain mapping."""
    assert is_dataclass(settings)
    return {one.name: getattr(settings, one.name) for one in fields(settings)}


def to_line(result: BenchResult) -> str:
    """One JSON object, one line, no line end."""
    return msgspec.json.encode(result).decode()


def print_table(result: BenchResult, console: Console) -> None:
    """For people: the figures, those of parts side by side."""
    columns = {name: _flat(part) for name, part in result.parts.items()}
    if not all("rate_per_s" in column for column in columns.values()) or not columns:
        columns = {"all": _flat(figures(result)), **columns}
    for at, some in enumerate(_side_by_side(columns)):
        console.print(_table("" if at else result.bench, some))
    for note in result.notes:
        console.print(note, style="yellow", highlight=False, markup=False)
    shown = ", ".join(f"{key}={value}" for key, value in result.settings.items())
    console.print(f"[dim]settings: {shown}[/]", highlight=False)


def _side_by_side(
    columns: dict[str, dict[str, float]],
) -> list[dict[str, dict[str, float]]]:
    """Columns table by table: all in one, or if those are too many for a terminal,
    only such in one that have the same figures."""
    if len(columns) <= COLUMN_COUNT_MAX:
        return [columns]
    tables: dict[frozenset[str], dict[str, dict[str, float]]] = {}
    for name, column in columns.items():
        tables.setdefault(frozenset(column), {})[name] = column
    return [*tables.values()]


def _table(title: str, columns: dict[str, dict[str, float]]) -> Table:
    table = Table(title=title or None, title_justify="left")
    table.add_column("figure")
    for name in columns:
        table.add_column(name, justify="right")
    rows = dict.fromkeys(row for column in columns.values() for row in column)
    for row in rows:
        table.add_row(row, *(_cell(column.get(row)) for column in columns.values()))
    return table


def _flat(part: Mapping[str, Any]) -> dict[str, float]:
    """Numbers by name; those of a mapping inside as outer.inner."""
    nested = msgspec.convert(part, dict[str, float | dict[str, float]])
    flat: dict[str, float] = {}
    for name, value in nested.items():
        if isinstance(value, dict):
            flat |= {f"{name}.{inner}": one for inner, one in value.items()}
        else:
            flat[name] = value
    return flat


def _cell(value: float | None) -> str:
    if value is None:
        return "-"
    if value >= 1000 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:,.3f}"
