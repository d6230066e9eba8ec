"""The demo's table says what happened, and its status only passes kept promises."""

import io
from dataclasses import replace

from rich.console import Console

from halfpast_loadtest.delivery_check import Problem
from halfpast_loadtest.demo_report import DemoReport, print_report
from halfpast_loadtest.message import Message


def delivered(due_ms: int, late_ms: int) -> Message:
    return Message(
        id=str(due_ms),
        topic="orders",
        queue=0,
        offset=0,
        key=None,
        stored_ms=due_ms + late_ms,
        due_ms=due_ms,
        attempt=1,
        data=b"{}",
        receipt="",
    )


REPORT = DemoReport(
    published_count=10,
    scheduled_count=3,
    cancelled_count=1,
    too_late_count=0,
    moved_count=0,
    replaced_count=0,
    consumed_count=12,
    redelivered_count=0,
    unknown_count=2,
    messages=[delivered(100, 1), delivered(2000, 700)],
    problems=[],
    down=range(1900, 2600),
    seconds=9.0,
)


def shown(report: DemoReport) -> str:
    console = Console(file=io.StringIO(), width=100)
    print_report(report, console)
    file = console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue()


def test_a_good_run_ends_with_the_next_command() -> None:
    text = shown(REPORT)
    assert REPORT.is_good
    assert "All promises kept" in text
    assert "make dev" in text


def test_lateness_while_the_server_was_down_is_told_apart() -> None:
    assert REPORT.lateness(while_down=False).max_ms == 1
    assert REPORT.lateness(while_down=True).max_ms == 700
    assert "due while it was down" in shown(REPORT)


def test_a_broken_promise_fails_the_run_and_is_shown() -> None:
    broken = replace(REPORT, problems=[Problem("lost", "orders-1", "is gone")])
    assert not broken.is_good
    assert broken.count("lost") == 1
    text = shown(broken)
    assert "orders-1" in text
    assert "All promises kept" not in text
