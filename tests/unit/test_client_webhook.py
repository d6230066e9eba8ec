"""What receivers check, held against the library for Standard Webhooks."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks.webhooks import Webhook

from halfpast import InvalidWebhook, verify_webhook
from halfpast_txn.signature import secret_text, signed_headers

NEW, OLD, OTHER = (secret_text(bytes([i]) * 32) for i in (1, 2, 3))
NOW_S = 1_795_168_806
BODY = b'{"n": 1}'


def headers(*secrets: str, body: bytes = BODY) -> dict[str, str]:
    return signed_headers(secrets, "event_crm", NOW_S, body)


def verify(given: dict[str, str], *secrets: str, body: bytes = BODY) -> str:
    return verify_webhook(given, body, secrets, now_s=NOW_S)


@given(st.binary(max_size=100))
def test_what_we_sign_is_accepted(body: bytes) -> None:
    assert verify(headers(NEW, body=body), NEW, body=body) == "event_crm"


@given(st.text(max_size=100))
def test_what_the_library_signs_is_accepted(body: str) -> None:
    moment = datetime.fromtimestamp(NOW_S, UTC)
    given = {
        "Webhook-Id": "msg_1",
        "Webhook-Timestamp": str(NOW_S),
        "Webhook-Signature": Webhook(NEW).sign("msg_1", moment, body),
    }
    assert verify(given, OLD, NEW, body=body.encode()) == "msg_1"


def test_any_live_secret_will_do_and_no_other() -> None:
    assert verify(headers(NEW, OLD), OLD)
    assert verify(headers(OLD), NEW, OLD)
    assert verify_webhook(headers(OLD), BODY, OLD, now_s=NOW_S)
    with pytest.raises(InvalidWebhook):
        verify(headers(NEW, OLD), OTHER)


def test_a_changed_body_does_not_count() -> None:
    with pytest.raises(InvalidWebhook):
        verify(headers(NEW), NEW, body=BODY + b" ")


@pytest.mark.parametrize("name", ["id", "timestamp", "signature"])
def test_each_header_counts(name: str) -> None:
    given = headers(NEW)
    changed = given | {f"webhook-{name}": "17"}
    with pytest.raises(InvalidWebhook):
        verify(changed, NEW)
    del given[f"webhook-{name}"]
    with pytest.raises(InvalidWebhook, match=name):
        verify(given, NEW)


@pytest.mark.parametrize(("late_s", "counts"), [(0, True), (300, True), (301, False)])
def test_an_old_call_that_is_repeated_does_not_count(late_s: int, counts: bool) -> None:
    for now_s in (NOW_S + late_s, NOW_S - late_s):
        if counts:
            assert verify_webhook(headers(NEW), BODY, NEW, now_s=now_s)
            continue
        with pytest.raises(InvalidWebhook, match="repetition"):
            verify_webhook(headers(NEW), BODY, NEW, now_s=now_s)
        hour = timedelta(hours=1)
        assert verify_webhook(headers(NEW), BODY, NEW, tolerance=hour, now_s=now_s)


@pytest.mark.parametrize("secret", ["", "secret", "whsec_é", "whsec_a"])
def test_a_secret_that_is_none_is_a_mistake_of_the_program(secret: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        verify(headers(NEW), secret)


def test_without_secrets_nothing_is_accepted() -> None:
    with pytest.raises(ValueError, match="at least one"):
        verify(headers(NEW))
