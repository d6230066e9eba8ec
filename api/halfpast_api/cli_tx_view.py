"""How transactions are shown to people."""

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from halfpast_api.cli_output import print_line, print_table
from halfpast_api.cli_times import show_moment, show_span

if TYPE_CHECKING:
    from halfpast_api.transaction_calls import (
        EndedView,
        MessageView,
        TransactionView,
    )

_SOURCES = {
    "check": "a check-back",
    "operator": "an operator",
    "producer": "the producer",
}


def print_transactions(found: "list[TransactionView]") -> None:
    """One line each."""
    columns = ["begun", "state", "group", "id", "messages", "checks", "reference"]
    rows = [
        [
            _moment(each.begun_at),
            _word(each.state),
            each.producer_group,
            each.id,
            str(each.message_count),
            _checks(each),
            each.reference,
        ]
        for each in found
    ]
    if any(each.decided_at for each in found):
        columns.insert(1, "decided")
        for row, each in zip(rows, found, strict=True):
            row.insert(1, _moment(each.decided_at))
    print_table(columns, rows)


def print_transaction(view: "TransactionView") -> None:
    """All about one."""
    lines = [
        ("id", view.id),
        ("state", _word(view.state)),
        ("group", view.producer_group),
        ("reference", view.reference),
        ("begun", _begun(view)),
        ("checks", _checks(view)),
        ("answer", view.last_answer),
        ("next", view.next_check_at and _ahead(view.next_check_at)),
        ("decided", view.decided_at and f"{_moment(view.decided_at)} {_source(view)}"),
        ("reason", view.reason),
        ("by", view.by),
    ]
    for name, value in lines:
        if value:
            print_line(f"{name:<11}{value}")
    for entry in view.timeline:
        print_line(f"  {_moment(entry.at)}  {_word(entry.what)}")
    print_line(f"messages   {view.message_count}")
    if view.messages:
        rows = [
            [
                each.topic,
                each.id,
                each.key or "",
                each.tag or "",
                _size(each),
                _due(each),
            ]
            for each in view.messages
        ]
        print_table(["topic", "id", "key", "tag", "size", "due"], rows)


def print_ended(view: "EndedView") -> None:
    """An outcome in one line."""
    source = _SOURCES.get(view.source, view.source)
    print_line(
        f"{_word(view.state):<11}{view.id}  by {source}  {_moment(view.decided_at)}"
    )


def _word(name: str) -> str:
    return name.replace("_", " ")


def _moment(text: str) -> str:
    return show_moment(datetime.fromisoformat(text)) if text else ""


def _ahead(text: str) -> str:
    span = datetime.fromisoformat(text) - datetime.now(UTC)
    if span < timedelta(0):
        return _moment(text)
    return f"{_moment(text)} (in {show_span(span)})"


def _begun(view: "TransactionView") -> str:
    if view.age_ms is None:
        return _moment(view.begun_at)
    age = show_span(timedelta(milliseconds=view.age_ms))
    return f"{_moment(view.begun_at)} ({age} ago)"


def _checks(view: "TransactionView") -> str:
    if view.checks <= view.check_max:
        return f"{view.checks} of {view.check_max}"
    return f"{view.checks}, {view.check_max} a round"  # it was resumed


def _source(view: "TransactionView") -> str:
    if view.check:
        return f"by check-back {view.check}"
    return f"by {_SOURCES.get(view.source, view.source)}"


def _size(message: "MessageView") -> str:
    return "" if message.size is None else f"{message.size} B"


def _due(message: "MessageView") -> str:
    if message.deliver_at:
        return _moment(message.deliver_at)
    if message.delay_ms is not None:
        delay = show_span(timedelta(milliseconds=message.delay_ms))
        return f"{delay} after the commit"
    return "with the commit"
