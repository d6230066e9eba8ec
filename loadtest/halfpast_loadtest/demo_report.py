"""What the demo counted, and the table that shows it."""

from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from halfpast_loadtest.delivery_check import Problem
from halfpast_loadtest.latency import Latency, summarise
from halfpast_loadtest.message import Message
from halfpast_loadtest.order_desk import OrderReport

PROBLEMS_SHOWN = 10
UNBALANCED = ("not_committed", "wrong_outcome")


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoReport:
    """Counts of one demo. `down`: the epoch ms in which the server was dead."""

    published_count: int
    scheduled_count: int
    cancelled_count: int
    too_late_count: int
    moved_count: int
    replaced_count: int
    consumed_count: int
    redelivered_count: int
    unknown_count: int
    messages: list[Message]
    orders: OrderReport
    problems: list[Problem]
    down: range
    seconds: float

    @property
    def is_good(self) -> bool:
        return not self.problems

    @property
    def delivered(self) -> list[Message]:
        """The scheduled events that were delivered."""
        return [message for message in self.messages if message.due_ms is not None]

    def count(self, *kinds: str) -> int:
        """How many problems are of these kinds."""
        return sum(problem.kind in kinds for problem in self.problems)

    def lateness(self, *, while_down: bool) -> Latency:
        """stored_at minus deliver_at of those that came due while it was (not) down."""
        return summarise(
            message.stored_ms - message.due_ms
            for message in self.messages
            if message.due_ms is not None
            and (message.due_ms in self.down) is while_down
        )


def print_report(report: DemoReport, console: Console) -> None:
    """The table, the problems if there are any, and what to type next."""
    table = Table(title="Halfpast demo", title_justify="left", show_header=False)
    table.add_column("what")
    table.add_column("count", justify="right")
    table.add_column("remark", style="dim")
    for what, count, remark in _rows(report):
        table.add_row(what, str(count), remark)
    table.add_section()
    for what, count, remark in _order_rows(report.orders):
        table.add_row(what, str(count), remark)
    table.add_section()
    for what, count, remark in _promises(report):
        good = count == 0
        table.add_row(what, f"[{'green' if good else 'bold red'}]{count}[/]", remark)
    table.add_section()
    for while_down in (False, True):
        lateness = report.lateness(while_down=while_down)
        table.add_row(*_lateness_row(lateness, while_down))
    console.print()
    console.print(table)
    for problem in report.problems[:PROBLEMS_SHOWN]:
        console.print(f"[red]{problem}[/]", markup=True)
    if report.is_good:
        console.print(f"[bold green]All promises kept[/] in {report.seconds:.0f} s.")
        console.print("Next: [bold]make dev[/] starts Halfpast for you to try.")
    else:
        console.print(f"[bold red]{len(report.problems)} promises broken.[/]")


def _rows(report: DemoReport) -> list[tuple[str, int, str]]:
    return [
        ("published at once", report.published_count, "single and in batches"),
        ("scheduled", report.scheduled_count, "0 to 5 s ahead, with bursts"),
        ("rescheduled", report.moved_count, "PATCH to another time"),
        ("replaced by key", report.replaced_count, "the last PUT counts"),
        ("cancelled", report.cancelled_count, f"{report.too_late_count} were too late"),
        ("delivered when due", len(report.delivered), "scheduled, less the two above"),
        ("consumed by the group", report.consumed_count, "pop and ack"),
        ("redelivered to it", report.redelivered_count, "killed before their ack"),
        ("answers lost", report.unknown_count, "in the kill; asked again"),
    ]


def _order_rows(orders: OrderReport) -> list[tuple[str, int, str]]:
    by_check = orders.settled_by_check
    begun = len(orders.outcomes)
    return [
        ("orders in the database", len(orders.placed), "committed in SQLite"),
        ("orders delivered", orders.delivered_count, "by the ids of their messages"),
        ("their messages", len(orders.messages), "some delayed, from the commit on"),
        ("refused orders", orders.refused_count, "failed locally, rolled back"),
        ("kills of the service", orders.kill_count, "between COMMIT and second phase"),
        ("transactions", begun, "some orders needed a second attempt"),
        ("committed by check-back", by_check["committed"], "the second phase was lost"),
        ("rolled back by it", by_check["rolled_back"], "never committed locally"),
    ]


def _promises(report: DemoReport) -> list[tuple[str, int, str]]:
    named = ("early", "lost", "not_consumed", "duplicate", *UNBALANCED)
    other = len(report.problems) - report.count(*named)
    return [
        ("early", report.count("early"), "stored before deliver_at"),
        ("lost", report.count("lost", "not_consumed"), "acknowledged, but not there"),
        ("duplicates", report.count("duplicate"), "one event twice in the log"),
        ("unbalanced orders", report.count(*UNBALANCED), "database against server"),
        ("other faults", other, "changed bytes, wrong id, ..."),
    ]


def _lateness_row(lateness: Latency, while_down: bool) -> tuple[str, str, str]:
    figures = (
        f"{lateness.p50_ms:.0f} / {lateness.p99_ms:.0f} / {lateness.max_ms:.0f} ms"
    )
    when = "while it was down" if while_down else "while it was up"
    remark = f"{lateness.count} due {when}"
    return ("late: p50 / p99 / max", figures if lateness.count else "-", remark)
