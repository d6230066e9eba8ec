"""The question of a check-back as JSON."""

import json

import pytest

from halfpast_api.event_id import id_text
from halfpast_api.times import render_instant
from halfpast_txn.check_call import call_body, call_headers
from halfpast_txn.half import message_id
from halfpast_txn.producer_group import CheckEndpoint
from halfpast_txn.signature import secret_text
from halfpast_txn.transactions import Check, CheckMessage

ID = bytes.fromhex("01936f1e8c007abc8def012345670000")
NOW_MS = 1_795_168_806_007


def check(reference: str = "order 7") -> Check:
    messages = [
        CheckMessage(message_id(ID, 0), "orders", "clé", "new"),
        CheckMessage(message_id(ID, 1), "mails", "", ""),
    ]
    return Check(ID, "shop", 3, NOW_MS - 6000, reference, 2, messages)


def test_the_body() -> None:
    assert json.loads(call_body(check(), NOW_MS)) == {
        "type": "transaction.check",
        "timestamp": "2026-11-20T10:00:06.007Z",
        "data": {
            "id": "01936f1e-8c00-7abc-8def-012345670000",
            "check": 3,
            "producer_group": "shop",
            "begun_at": "2026-11-20T10:00:00.007Z",
            "reference": "order 7",
            "message_count": 2,
            "messages": [
                {
                    "id": "01936f1e-8c00-7abc-8def-012345670001",
                    "topic": "orders",
                    "key": "clé",
                    "tag": "new",
                },
                {
                    "id": "01936f1e-8c00-7abc-8def-012345670002",
                    "topic": "mails",
                },
            ],
        },
    }


@pytest.mark.parametrize("ms", [0, 1, 999, 1000, NOW_MS, 253_402_300_799_999])
def test_ids_and_times_are_written_as_the_api_writes_them(ms: int) -> None:
    call = json.loads(call_body(check(""), ms))
    assert call["timestamp"] == render_instant(ms)
    assert call["data"]["id"] == id_text(ID)
    assert "reference" not in call["data"]


def test_the_headers() -> None:
    endpoint = CheckEndpoint(url="http://x/", secrets=(secret_text(bytes(24)),))
    headers = call_headers(endpoint, check(), NOW_MS, b"{}")
    assert headers["Content-Type"] == "application/json"
    assert headers["webhook-id"] == "01936f1e-8c00-7abc-8def-012345670000.3"
    assert headers["webhook-timestamp"] == "1795168806"
    assert headers["webhook-signature"].startswith("v1,")
    with pytest.raises(ValueError, match="a secret is"):
        call_headers(CheckEndpoint(url="", secrets=("x",)), check(), 0, b"")
