"""Transactions as callers see them, and events that belong to one."""

from typing import Any

import msgspec
import pytest

from halfpast_api.event_view import view_in_transaction
from halfpast_api.transactions.transaction_view import view_messages, view_transaction
from halfpast_txn.half import message_id
from halfpast_txn.transactions import (
    Happening,
    MessageHead,
    Source,
    Transaction,
    TransactionState,
)

ID = bytes.fromhex("01936f1e8c007abc8def012345670000")
ID_TEXT = "01936f1e-8c00-7abc-8def-012345670000"
TOPICS = {1024: "orders"}
HEADS = [
    MessageHead(message_id(ID, 0), 1024, b"k", b"t", 300),
    MessageHead(message_id(ID, 1), 1024, b"", b"", 70, due_ms=5000),
    MessageHead(message_id(ID, 2), 1025, b"", b"", 70, delay_ms=1500),
]


def transaction(**fields: Any) -> Transaction:
    known: dict[str, Any] = {
        "transaction_id": ID,
        "state": TransactionState.PREPARED,
        "group": "shop",
        "reference": "",
        "begun_ms": 1000,
        "message_count": 3,
        "checks": 0,
        "check_max": 15,
        "check_interval_ms": 30_000,
        "next_ms": 7000,
        "timeline": [(1000, int(Happening.BEGUN))],
    }
    return Transaction(**(known | fields))


def shown(value: msgspec.Struct) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))


def test_an_open_transaction_tells_its_age_and_what_comes() -> None:
    assert shown(view_transaction(transaction(), 1250)) == {
        "id": ID_TEXT,
        "state": "prepared",
        "producer_group": "shop",
        "begun_at": "1970-01-01T00:00:01.000Z",
        "age_ms": 250,
        "message_count": 3,
        "checks": 0,
        "check_max": 15,
        "check_interval_ms": 30_000,
        "next_check_at": "1970-01-01T00:00:07.000Z",
        "timeline": [{"at": "1970-01-01T00:00:01.000Z", "what": "begun"}],
    }


def test_an_ended_transaction_tells_who_ended_it() -> None:
    ended = transaction(
        state=TransactionState.COMMITTED,
        reference="order 7",
        checks=2,
        next_ms=0,
        last_answer="timeout",
        decided_ms=9000,
        source=Source.OPERATOR,
        reason="the books say so",
        by="mia",
        timeline=[(1000, 1), (2000, 3), (3000, 3), (9000, 6)],
    )
    view = shown(view_transaction(ended, 10_000))
    assert (view["state"], view["source"], view["checks"]) == (
        "committed",
        "operator",
        2,
    )
    assert (view["reason"], view["by"]) == ("the books say so", "mia")
    assert view["decided_at"] == "1970-01-01T00:00:09.000Z"
    assert (view["reference"], view["last_answer"]) == ("order 7", "timeout")
    happened = [entry["what"] for entry in view["timeline"]]
    assert happened == ["begun", "checked", "checked", "committed"]
    assert not {"age_ms", "next_check_at", "check", "messages"} & view.keys()


def test_the_check_that_brought_the_outcome_is_named() -> None:
    ended = transaction(
        state=TransactionState.ROLLED_BACK, source=Source.CHECK, check=2, next_ms=0
    )
    view = shown(view_transaction(ended, 0))
    assert (view["state"], view["source"], view["check"]) == ("rolled_back", "check", 2)


def test_messages_show_their_time_and_no_more_than_they_have() -> None:
    texts = [f"{ID_TEXT[:-1]}{n}" for n in (1, 2, 3)]
    assert [shown(it) for it in view_messages(HEADS, TOPICS)] == [
        {"id": texts[0], "topic": "orders", "key": "k", "tag": "t", "size": 300},
        {
            "id": texts[1],
            "topic": "orders",
            "size": 70,
            "deliver_at": "1970-01-01T00:00:05.000Z",
        },
        {"id": texts[2], "topic": "", "size": 70, "delay_ms": 1500},
    ]


@pytest.mark.parametrize("state", [TransactionState.PREPARED, TransactionState.PARKED])
def test_an_event_of_an_open_transaction_is_prepared(state: TransactionState) -> None:
    owner = transaction(state=state, messages=HEADS)
    first, second, third = (
        shown(view_in_transaction(head.event_id, owner, TOPICS)) for head in HEADS
    )
    assert {it["state"] for it in (first, second, third)} == {"prepared"}
    assert {it["transaction_id"] for it in (first, second, third)} == {ID_TEXT}
    assert (first["topic"], first["key"], first["tag"]) == ("orders", "k", "t")
    assert (first["deliver_at"], "delay_ms" in first) == (None, False)
    assert second["deliver_at"] == "1970-01-01T00:00:05.000Z"
    assert (third["delay_ms"], third["deliver_at"]) == (1500, None)
    assert [entry["what"] for entry in first["timeline"]] == ["prepared"]
    assert all(it["delivered_at"] is None for it in (first, second, third))


def test_an_event_that_was_rolled_back_says_so() -> None:
    owner = transaction(state=TransactionState.ROLLED_BACK, decided_ms=2000)
    view = shown(view_in_transaction(message_id(ID, 1), owner, {}))
    assert (view["state"], view["topic"]) == ("rolled_back", "")
    assert view["timeline"][-1] == {
        "at": "1970-01-01T00:00:02.000Z",
        "what": "rolled_back",
    }
