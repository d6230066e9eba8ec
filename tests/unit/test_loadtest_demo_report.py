"""The demo's table says what happened, and its status only passes kept promises."""

import io
from dataclasses import replace

from rich.console import Console

from halfpast_loadtest.delivery_check import Problem
from halfpast_loadtest.demo_report import DemoReport, print_report
from halfpast_loadtest.message import Message
from halfpast_loadtest.order_desk import OrderReport
from halfpast_loadtest.transaction_check import LocalTransaction, Outcome
from halfpast_loadtest.transaction_plan import CREATED


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


def order_message(event_id: str) -> Message:
    return delivered(0, 1)._replace(id=event_id, topic=CREATED, due_ms=None)


ORDERS = OrderReport(
    placed=[
        LocalTransaction(number=7, transaction_id="a", placed_ms=1, messages=()),
        LocalTransaction(number=8, transaction_id="b", placed_ms=1, messages=()),
    ],
    refused_count=31,
    kill_count=4,
    outcomes={
        "a": Outcome("committed", 5, "producer"),
        "b": Outcome("committed", 5, "check"),
        "c": Outcome("rolled_back", 5, "check"),
    },
    messages=[order_message("a1"), order_message("b1"), order_message("b1")],
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
    orders=ORDERS,
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


def test_the_books_of_the_orders_are_shown() -> None:
    assert ORDERS.delivered_count == 2  # by id: one came twice
    assert ORDERS.settled_by_check == {"committed": 1, "rolled_back": 1}
    rows = {
        line.split("│")[1].strip(): line
        for line in shown(REPORT).splitlines()
        if line.startswith("│")
    }
    assert " 2 " in rows["orders in the database"]
    assert " 2 " in rows["orders delivered"]
    assert " 31 " in rows["refused orders"]
    assert " 1 " in rows["committed by check-back"]


def test_unbalanced_books_fail_the_run() -> None:
    problem = Problem("not_committed", "p0-00004", "delivered, but not committed")
    broken = replace(REPORT, problems=[problem])
    assert not broken.is_good
    [line] = [one for one in shown(broken).splitlines() if "unbalanced orders" in one]
    assert " 1 " in line
