"""Results of audits as tables for people."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import typer

from halfpast_api.cli_output import print_line, print_table
from halfpast_api.cli_times import show_moment

if TYPE_CHECKING:
    from halfpast_api.audits.run import Done
    from halfpast_api.audits.show import Broken, Shown
    from halfpast_spark.summaries import Summary

TRANSACTION_COUNTS = ("half", "committed", "rolled_back", "open", "parked")
TIMER_COUNTS = ("scheduled", "fired", "cancelled", "dead", "pending", "lost")
TIMER_FAULTS = ("early", "duplicated", "fired_anyway")
MESSAGE_COUNTS = ("published", "stored", "consumed", "waiting", "lost", "duplicated")


def print_run(done: "Done") -> None:
    """What a run was about, in a few lines."""
    run = done.run
    print_line(f"{run.events:,} events of {done.place}")
    print_line(
        f"windows from {_moment(run.from_ms)} to {_moment(run.to_ms)}, as of "
        f"{_moment(run.horizon_ms)}"
    )
    for gap in done.gaps:
        print_line(f"not seen: {gap}")
    if done.gap_count > len(done.gaps):
        print_line(f"not seen: {done.gap_count - len(done.gaps)} more places")
    if run.details:
        print_line(f"tables by id: {run.details}")
    if done.report:
        print_line(f"report: {done.report}")
    if done.pruned_rows:
        print_line(f"deleted {done.pruned_rows:,} rows of old windows (--keep)")
    print_line(f"took {(run.finished_ms - run.started_ms) / 1000:.1f} s")


def print_summaries(shown: "Shown") -> None:
    """A table for each audit."""
    print_line(
        f"Windows of {shown.window_ms // 1000} s from {_moment(shown.from_ms)} to "
        f"{_moment(shown.to_ms)}, as of {_moment(shown.horizon_ms)}"
    )
    for gap in shown.gaps:
        print_line(f"not seen: {gap}")
    found = shown.summaries
    if found.transactions:
        _transactions(found.transactions)
    if found.on_time:
        _timers(found.on_time)
    if found.end_to_end:
        _messages(found.end_to_end)
    if not (found.transactions or found.on_time or found.end_to_end):
        print_line("Nothing happened in them.")


def print_broken(broken: "Sequence[Broken]") -> None:
    """One line for each rule that does not hold."""
    for it in broken:
        typer.secho(str(it), fg="red")  # without colours in a pipe


def _transactions(found: "Sequence[Summary]") -> None:
    columns = ["producer group", "topic", *_titles(TRANSACTION_COUNTS)]
    columns += ["checked back", "2nd phase lost", "difference", "p50", "p99"]
    rows = [
        [
            *summary.key,
            *_numbers(summary, TRANSACTION_COUNTS),
            _percent(summary.rate("checked_back", "half")),
            f"{summary.counts['second_phase_lost']:,}",
            f"{summary.counts['difference']:,}",
            _ms(summary.quantile("outcome_ms", 0.5)),
            _ms(summary.quantile("outcome_ms", 0.99)),
        ]
        for summary in found
    ]
    print_line("\nTransactions, by when they began")
    print_table(columns, rows)


def _timers(found: "Sequence[Summary]") -> None:
    columns = ["topic", *_titles(TIMER_COUNTS), *_titles(TIMER_FAULTS)]
    columns += ["p50", "p99", "p99.9", "in time", "SLA"]
    rows = [
        [
            *summary.key,
            *_numbers(summary, TIMER_COUNTS + TIMER_FAULTS),
            *(_ms(summary.quantile("lateness_ms", it)) for it in (0.5, 0.99, 0.999)),
            _percent(summary.rate("in_sla", "judged")),
            _sla(summary),
        ]
        for summary in found
    ]
    print_line("\nDelayed messages, by when they were due")
    print_table(columns, rows)


def _messages(found: "Sequence[Summary]") -> None:
    columns = ["consumer group", "topic", *_titles(MESSAGE_COUNTS), "dead letters"]
    counts = (*MESSAGE_COUNTS, "dead_lettered")
    rows = [[*summary.key, *_numbers(summary, counts)] for summary in found]
    print_line("\nMessages, by when they were meant to be there")
    print_table(columns, rows)


def _titles(names: Sequence[str]) -> list[str]:
    return [name.replace("_", " ") for name in names]


def _numbers(summary: "Summary", names: Sequence[str]) -> list[str]:
    return [f"{summary.counts[name]:,}" for name in names]


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.3%}"


def _ms(value: int | None) -> str:
    return "-" if value is None else f"{value:,} ms"


def _sla(summary: "Summary") -> str:
    if summary.sla_ms is None or summary.sla_share is None:
        return "-"
    return f"{summary.sla_share:.4g} in {summary.sla_ms:g} ms"


def _moment(at_ms: int) -> str:
    return show_moment(datetime.fromtimestamp(at_ms / 1000, UTC))
