"""Transactions as people read them."""

from datetime import UTC, datetime, timedelta

import pytest

from halfpast_api.cli_tx_view import (
    print_ended,
    print_transaction,
    print_transactions,
)
from halfpast_api.transaction_calls import (
    EndedView,
    MessageView,
    TimelineView,
    TransactionView,
)

Shown = pytest.CaptureFixture[str]


def open_one(**fields: object) -> TransactionView:
    view = TransactionView(
        id="i",
        state="parked",
        producer_group="orders",
        begun_at="2026-11-20T18:00:00.000Z",
        message_count=2,
        checks=15,
        check_max=15,
        last_answer="timeout",
    )
    for name, value in fields.items():
        setattr(view, name, value)
    return view


def test_what_is_not_known_is_not_shown(capsys: Shown) -> None:
    print_transaction(open_one(age_ms=90_000))
    assert capsys.readouterr().out.splitlines() == [
        "id         i",
        "state      parked",
        "group      orders",
        "begun      2026-11-20 18:00:00.000Z (1 min 30 s ago)",
        "checks     15 of 15",
        "answer     timeout",
        "messages   2",
    ]


def test_check_backs_after_a_resumption_are_told(capsys: Shown) -> None:
    print_transaction(open_one(checks=17))
    assert "checks     17, 15 a round\n" in capsys.readouterr().out


def test_an_outcome_is_told_with_its_source(capsys: Shown) -> None:
    at = "2026-11-20T18:01:00.000Z"
    timeline = [TimelineView(at=at, what="rolled_back")]
    fields = {"state": "rolled_back", "decided_at": at, "timeline": timeline}
    print_transaction(open_one(**fields, source="check", check=3))
    shown = capsys.readouterr().out.splitlines()
    assert "state      rolled back" in shown
    assert "decided    2026-11-20 18:01:00.000Z by check-back 3" in shown
    assert "  2026-11-20 18:01:00.000Z  rolled back" in shown
    print_ended(EndedView(id="i", state="committed", decided_at=at, source="operator"))
    assert capsys.readouterr().out == (
        "committed  i  by an operator  2026-11-20 18:01:00.000Z\n"
    )


def test_the_next_check_back_is_told(capsys: Shown) -> None:
    soon = datetime.now(UTC) + timedelta(hours=2, minutes=30, seconds=30)
    print_transaction(open_one(state="prepared", next_check_at=soon.isoformat()))
    assert "(in 2 h 30 min)" in capsys.readouterr().out
    past = open_one(state="prepared", next_check_at="2026-01-01T00:00:00Z")
    print_transaction(past)
    assert "next       2026-01-01 00:00:00.000Z\n" in capsys.readouterr().out


def test_messages_tell_when_they_come(capsys: Shown) -> None:
    messages = [
        MessageView(id="a", topic="t"),
        MessageView(id="b", topic="t", delay_ms=1_800_000, size=300, key="k", tag="g"),
        MessageView(id="c", topic="t", deliver_at="2026-11-20T18:00:00.000Z"),
    ]
    print_transaction(open_one(messages=messages))
    lines = [line.split() for line in capsys.readouterr().out.splitlines()[-3:]]
    assert lines == [
        ["t", "a", "with", "the", "commit"],
        ["t", "b", "k", "g", "300", "B", "30", "min", "after", "the", "commit"],
        ["t", "c", "2026-11-20", "18:00:00.000Z"],
    ]


def test_brackets_in_a_reference_are_kept(capsys: Shown) -> None:
    print_transactions([open_one(reference="[bold]order[/]")])
    assert "[bold]order[/]" in capsys.readouterr().out
