"""Secrets do not get into what people and files see."""

from typing import Any

import msgspec
import pytest

from halfpast_api.access.key_text import new_key
from halfpast_api.access.redaction import redact, redact_text
from halfpast_api.access.trail import SUMMARY_SIZE_MAX, summary
from halfpast_api.log_output import PresentStderr

KEY = new_key("k3x9q2mv")
TOKEN = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhIn0.c2lnbmF0dXJl"
HOOK = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


@pytest.mark.parametrize("secret", [KEY, TOKEN, HOOK], ids=["key", "token", "hook"])
@pytest.mark.parametrize(
    "text", ["{}", "Authorization: Bearer {}", "a={} b", "'{}'", "({})"]
)
def test_a_secret_in_a_text(secret: str, text: str) -> None:
    shown = redact_text(text.format(secret))
    assert secret not in shown
    assert secret[12:] not in shown
    assert "…" in shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://hp:hunter2@db/x", "postgresql://hp:…@db/x"),
        (
            "https://a.example/h?x=1&api_key=Zm9v#f",
            "https://a.example/h?x=1&api_key=…#f",
        ),
        (
            "/v1/events?access_token=Zm9v&key=order-7",
            "/v1/events?access_token=…&key=order-7",
        ),
        (
            "https://a.example:8443/hook?when=now",
            "https://a.example:8443/hook?when=now",
        ),
        ("http://[::1]:7080/a@b", "http://[::1]:7080/a@b"),
    ],
)
def test_secrets_in_addresses(text: str, shown: str) -> None:
    assert redact_text(text) == shown


def test_the_id_of_a_key_stays() -> None:
    assert redact_text(f"key {KEY}!") == "key hp_k3x9q2mv_…!"


@pytest.mark.parametrize(
    "text", ["", "orders", "hp_", "bearer", "the basic thing", "eyJ"]
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert redact_text(text) == text


def test_members_that_are_named_like_secrets() -> None:
    shown = redact(
        {
            "secret": "a",
            "check_secrets": ["b"],
            "secrets": [{"prefix": "hp_x", "secret": "c"}],
            "count": {"secrets": 2, "next_page_token": "d"},
            "data": {"card": "e"},
            "name": KEY,
            "list": [HOOK, 1, None],
        }
    )
    assert shown == {
        "secret": "…",
        "check_secrets": "…",
        "secrets": [{"prefix": "hp_x", "secret": "…"}],
        "count": {"secrets": 2, "next_page_token": "…"},
        "data": "…",
        "name": "hp_k3x9q2mv_…",
        "list": ["whsec_…", 1, None],
    }


def test_a_summary_is_bounded() -> None:
    assert summary(None) == ""
    large: dict[str, Any] = {"name": "a", "description": "x" * 10_000, "queues": 4}
    kept = msgspec.json.decode(summary(large))
    assert kept == {"name": "a", "queues": 4, "left_out": ["description"]}
    assert len(summary(["x" * 10_000])) < SUMMARY_SIZE_MAX
    deep: Any = "end"
    for _ in range(1000):
        deep = [deep]
    assert "…" in summary(deep)


def test_logs_are_told_no_secrets(capsys: pytest.CaptureFixture[str]) -> None:
    lines = f"path=/x?key={KEY}\nheaders=['{TOKEN}']\nsent {HOOK}\n"
    assert PresentStderr().write(lines) == len(lines)
    shown = capsys.readouterr().err
    assert shown.count("…") == 3
    for secret in (KEY, TOKEN, HOOK):
        assert secret not in shown
