"""Signatures after Standard Webhooks, judged by its own library."""

from base64 import b64encode
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from halfpast_txn.signature import read_secret, secret_text, signed_headers

OLD = secret_text(bytes(range(24)))
NEW = secret_text(bytes(range(64, 128)))
keys = st.binary(min_size=24, max_size=64)


def test_the_published_example() -> None:
    """From the specification and its libraries' tests."""
    headers = signed_headers(
        ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"],
        "msg_p5jXN8AQM9LWM0D4loKWxJek",
        1614265330,
        b'{"test": 2432232314}',
    )
    assert headers == {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


def test_each_secret_verifies_and_no_other() -> None:
    now_s = int(datetime.now(UTC).timestamp())
    body = '{"state":"ü"}'.encode()
    headers = signed_headers([NEW, OLD], "a-b.1", now_s, body)
    assert len(headers["webhook-signature"].split(" ")) == 2
    for secret in (OLD, NEW):
        assert Webhook(secret).verify(body, headers) == {"state": "ü"}
    with pytest.raises(WebhookVerificationError):
        Webhook(secret_text(b"x" * 24)).verify(body, headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(NEW).verify(body + b" ", headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(NEW).verify(body, {**headers, "webhook-id": "a-b.2"})


@given(keys, st.text(max_size=50), st.integers(0, 2**33))
def test_it_signs_as_the_library_does(key: bytes, body: str, at_s: int) -> None:
    secret = secret_text(key)
    found = signed_headers([secret], "id.7", at_s, body.encode())["webhook-signature"]
    moment = datetime.fromtimestamp(at_s, UTC)
    assert found == Webhook(secret).sign("id.7", moment, body)


def test_without_secrets_there_is_no_signature() -> None:
    assert signed_headers([], "id.1", 5, b"") == {
        "webhook-id": "id.1",
        "webhook-timestamp": "5",
    }


@given(keys)
def test_secrets_round_trip_with_or_without_padding(key: bytes) -> None:
    text = secret_text(key)
    assert read_secret(text) == key
    assert read_secret(text.rstrip("=")) == key


@pytest.mark.parametrize(
    "text",
    [
        "",
        "whsec_",
        b64encode(bytes(32)).decode(),
        "WHSEC_" + b64encode(bytes(32)).decode(),
        "whsec_" + b64encode(bytes(23)).decode(),
        "whsec_" + b64encode(bytes(65)).decode(),
        "whsec_" + "-_" * 20,
        "whsec_" + "A" * 33,
        "whsec_" + "A" * 16 + " " + "A" * 16,
        "whsec_" + "ä" * 32,
    ],
)
def test_what_is_no_secret_is_refused_and_not_shown(text: str) -> None:
    with pytest.raises(ValueError, match="24 to 64 random bytes") as caught:
        read_secret(text)
    assert len(text) < 10 or text not in str(caught.value)
    with pytest.raises(ValueError, match="24 to 64 random bytes"):
        signed_headers([OLD, text], "id.1", 5, b"")
