"""The table of figures in the README, made from what `halfpast bench --json` printed.

halfpast bench publish-single --json >> figures.jsonl
python -m halfpast_loadtest.figures_table < figures.jsonl
"""

import sys
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from halfpast_loadtest.bench_result import BenchResult

HEAD = (
    "| bench | per second | p50 / p99 / p99.9 / max ms | CPU µs per message "
    "| memory MB | beside the baseline | broken |\n"
    "|---|---|---|---|---|---|---|"
)
TIMES = ("p50_ms", "p99_ms", "p999_ms", "max_ms")


def table(lines: Iterable[str]) -> str:
    """One row per result and format, in the order they came."""
    rows = [row for line in lines if line.strip() for row in _rows(line)]
    return "\n".join((HEAD, *rows))


def _rows(line: str) -> Iterator[str]:
    result = msgspec.json.decode(line, type=BenchResult)
    shown = msgspec.convert(msgspec.to_builtins(result), dict[str, Any])
    name = f"`{result.bench}`"
    if "json" in result.parts:
        for format_name, part in result.parts.items():
            yield _row(f"{name} {format_name}", {**shown, **part})
        return
    if any("begin_p50_ms" in part for part in result.parts.values()):
        for part_name, part in result.parts.items():
            yield _row(f"{name} {part_name}", part)
            begins = {key: part[f"begin_{key}"] for key in TIMES}
            yield f"| - until it has begun | | {_times(begins)} | | | | |"
        return
    if "pending" in result.parts:
        yield _pending_row(name, shown)
        return
    if not result.parts.keys().isdisjoint(("single", "threads")):
        for part_name, part in result.parts.items():
            yield _row(f"{name} {part_name}", part)
        return
    if "open" in result.parts:
        yield _open_row(name, result.parts["open"])
        return
    consumer = result.settings.get("consumer")
    yield _row(f"{name} {consumer}" if consumer else name, shown)
    arrival = result.parts.get("arrival - deliver_at")
    if arrival is not None:
        yield f"| - until it arrives | | {_times(arrival)} | | | | |"
    for part_name, part in result.parts.items():
        if part_name.startswith("side topic"):
            yield f"| - {part_name} | | {_times(part)} | | | | |"


def _row(name: str, figures: dict[str, Any]) -> str:
    ratios: dict[str, float] = figures.get("ratio", {})
    besides = [f"{ratio:.2g} {what}" for what, ratio in ratios.items()]
    if (check_backs := figures.get("check_backs")) is not None:
        besides.append(f"{check_backs:,} check-backs")
    beside = ", ".join(besides)
    return " | ".join(
        (
            f"| {name}",
            f"{figures['rate_per_s']:,.0f}",
            _times(figures),
            f"{figures['server_cpu_us_per_message']:.1f}",
            f"{figures['rss_mb']:.0f} ({figures['anonymous_mb']:.0f} anonymous)",
            beside.replace("_", " "),
            f"{_broken(figures)} |",
        )
    )


def _pending_row(name: str, shown: dict[str, Any]) -> str:
    parts: dict[str, dict[str, Any]] = shown["parts"]
    figures = parts["pending"]
    share = parts.get("chronos", {}).get("pss_mb")
    memory = f"{figures['pss_mb']:.0f} PSS"
    besides = [
        f"last tenth {figures.get('last_of_first_tenth', 1):.2g} of the first",
        f"ready {figures['ready_after_sigterm_s']:.1f} s after SIGTERM",
        f"{figures['ready_after_sigkill_s']:.1f} s after SIGKILL",
    ]
    for one in ("get", "list", "cancel"):
        p50, p99 = parts[one]["p50_ms"], parts[one]["p99_ms"]
        besides.append(f"{one} {p50:.2g} / {p99:.2g} ms")
    return " | ".join(
        (
            f"| {name} {figures['pending_count']:,}",
            f"{shown['rate_per_s']:,.0f}",
            _times(shown),
            f"{shown['server_cpu_us_per_message']:.1f}",
            memory if share is None else f"{memory} ({share:.0f} Delay Server)",
            ", ".join(besides),
            f"{_broken(shown)} |",
        )
    )


def _broken(figures: dict[str, Any]) -> int:
    names = ("early", "lost", "duplicates", "failed")
    return sum(figures.get(name) or 0 for name in names)


def _open_row(name: str, figures: dict[str, Any]) -> str:
    starts = (
        f"ready {figures['ready_after_sigterm_s']:.1f} s after SIGTERM, "
        f"{figures['ready_after_sigkill_s']:.1f} s after SIGKILL, "
        f"{figures['empty_ready_s']:.1f} s without any"
    )
    return " | ".join(
        (
            f"| {name} open={figures['open_count']:,}",
            f"{figures['rate_per_s']:,.0f} begun",
            "",
            "",
            f"{figures['rss_mb']:.0f} ({figures['anonymous_mb']:.0f} anonymous)",
            starts,
            f"{figures['lost']} |",
        )
    )


def _times(figures: dict[str, Any]) -> str:
    return " / ".join(f"{figures[name]:.3g}" for name in TIMES if name in figures)


if __name__ == "__main__":
    print(table(sys.stdin))
