"""When deliveries are tried again, held back, wanted, and how answers are shown."""

from datetime import UTC, datetime
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halfpast_api.problems import Refusal
from halfpast_api.push.budget import Budget
from halfpast_api.push.call_result import CallResult, Result, excerpt, result_of_status
from halfpast_api.push.config import PushConfig
from halfpast_api.push.endpoint_body import check_topics
from halfpast_api.push.endpoint_name import endpoint_of, group_of, split_stored
from halfpast_api.push.event_match import (
    EventFilter,
    EventMatch,
    render_filter,
    view_filter,
)
from halfpast_api.push.gate import Gate
from halfpast_api.push.rate import Rate
from halfpast_api.push.retry_schedule import (
    JITTER,
    RETRY_AFTER_MS_MAX,
    back_off_ms,
    retry_after_ms,
)
from halfpast_api.push.topic_match import TopicMatch
from halfpast_api.push.validation import lower_rate, read_permission, request_headers
from halfpast_txn.circuit_breaker import Circuit

NOW_MS = 1_795_168_806_000
CONFIG = PushConfig(failures_max=3, back_off_ms=100, back_off_ms_max=400)
BROKEN = CallResult(result=Result.HTTP_ERROR, status=500, error="http 500")
FINE = CallResult(result=Result.DELIVERED, status=200)


def test_the_wait_doubles_up_to_the_longest() -> None:
    waits = [back_off_ms(1_000, 8_000, attempt, 0.5) for attempt in range(1, 7)]
    assert waits == [1_000, 2_000, 4_000, 8_000, 8_000, 8_000]


def test_the_defaults_try_for_more_than_half_a_day() -> None:
    waits = [back_off_ms(5_000, 14_400_000, attempt, 0.5) for attempt in range(1, 16)]
    assert 12 * 3_600_000 < sum(waits) < 24 * 3_600_000


@given(st.integers(1, 2000), st.floats(0, 1))
def test_the_wait_stays_near_what_it_should_be(attempt: int, random: float) -> None:
    wait_ms = back_off_ms(1_000, 60_000, attempt, random)
    wanted_ms = back_off_ms(1_000, 60_000, attempt, 0.5)
    assert abs(wait_ms - wanted_ms) <= JITTER * wanted_ms + 1


@pytest.mark.parametrize(
    ("value", "wait_ms"),
    [
        ("7", 7_000),
        (" 0 ", 0),
        ("999999999999999999", RETRY_AFTER_MS_MAX),
        (format_datetime(datetime.fromtimestamp(NOW_MS / 1000 + 30, UTC)), 30_000),
        (format_datetime(datetime.fromtimestamp(NOW_MS / 1000 - 30, UTC)), 0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", RETRY_AFTER_MS_MAX),
        ("soon", 0),
        ("-5", 0),
        ("", 0),
        (None, 0),
        ("Mon, 99 Foo 2026", 0),
    ],
)
def test_retry_after_is_read_as_seconds_or_a_date(
    value: str | None, wait_ms: int
) -> None:
    assert retry_after_ms(value, NOW_MS) == wait_ms


def test_a_rate_lets_so_many_through_a_second() -> None:
    rate, taken = Rate(10), 0
    for now_ms in range(0, 3_000, 10):
        while not rate.wait_ms(now_ms):
            rate.take(now_ms)
            taken += 1
    assert taken in (39, 40)  # ten at once, ten in each second


def test_a_slow_rate_says_how_long_to_wait() -> None:
    rate = Rate(0.5)
    assert rate.wait_ms(0) == 0
    rate.take(0)
    assert rate.wait_ms(0) == 2_000
    assert rate.wait_ms(1_500) == 500
    rate.change(0)
    assert rate.wait_ms(1_500) == 0


def test_failures_in_a_row_open_the_circuit_and_one_call_closes_it() -> None:
    gate = Gate(CONFIG, 0)
    for _ in range(CONFIG.failures_max):
        given = gate.enter(0)
        assert given is not None
        gate.leave(given, BROKEN, 0)
    assert gate.circuit == Circuit.OPEN.value
    assert gate.back_ms(0) == 100
    assert gate.enter(50) is None
    probe = gate.enter(100)
    assert probe is not None
    assert gate.enter(100) is None  # one at a time
    gate.leave(probe, FINE, 110)
    assert gate.circuit == Circuit.CLOSED.value


def test_a_message_that_is_not_liked_opens_no_circuit() -> None:
    gate = Gate(CONFIG, 0)
    unliked = CallResult(result=Result.HTTP_ERROR, status=422)
    for _ in range(10):
        given = gate.enter(0)
        assert given is not None
        gate.leave(given, unliked, 0)
    assert gate.circuit == Circuit.CLOSED.value


def test_retry_after_holds_the_whole_endpoint_but_not_for_ever() -> None:
    gate = Gate(CONFIG, 0)
    given = gate.enter(0)
    assert given is not None
    told = CallResult(result=Result.HTTP_ERROR, status=429, retry_after_ms=10**9)
    gate.leave(given, told, 0)
    assert gate.back_ms(0) == CONFIG.hold_ms_max
    assert gate.enter(CONFIG.hold_ms_max - 1) is None
    assert gate.enter(CONFIG.hold_ms_max) is not None


def test_a_call_that_was_given_up_proves_nothing() -> None:
    gate = Gate(CONFIG, 0)
    for _ in range(10):
        given = gate.enter(0)
        assert given is not None
        gate.leave(given, None, 0)
    assert gate.circuit == Circuit.CLOSED.value


def test_who_holds_nothing_may_always_take_something() -> None:
    budget = Budget(PushConfig(held_size_max=100, held_size_each=50, in_flight_max=2))
    budget.size, budget.calls = 1_000, 5
    assert budget.may_hold(0)
    assert not budget.may_hold(1)
    assert budget.may_call(0)
    assert not budget.may_call(1)
    budget.size, budget.calls = 10, 1
    assert budget.may_hold(49)
    assert not budget.may_hold(50)
    assert budget.may_call(1)


@pytest.mark.parametrize(
    ("topic", "is_meant"),
    [
        ("orders", True),
        ("orders-eu", True),
        ("order", False),
        ("pay-eu-new", True),
        ("pay-new", False),
        ("acme%orders-eu", False),
        ("SYS_GROUPS", False),
        ("%DLQ%orders-x", False),
        ("a.b", False),
    ],
)
def test_patterns_mean_topics_of_their_namespace(topic: str, is_meant: bool) -> None:
    match = TopicMatch(["orders", "orders-*", "pay-*-new"])
    assert match(topic) is is_meant


def test_what_is_named_is_meant_before_it_exists() -> None:
    match = TopicMatch(["%DLQ%billing", "acme%o*"])
    assert match.among(["acme%orders", "orders", "%DLQ%billing"]) == [
        "%DLQ%billing",
        "acme%orders",
    ]


@pytest.mark.parametrize("topic", ["*%", "a b*", "%*", "SYS_*%x", "", "SYS_X", "ü*"])
def test_bad_topics_are_refused(topic: str) -> None:
    with pytest.raises(Refusal):
        check_topics([topic])


def test_a_filter_wants_one_of_the_tags_and_one_of_each_propertys_values() -> None:
    wanted = EventFilter(["paid", "refunded"], {"region": ["eu", "us"], "vip": "yes"})
    text = render_filter(wanted)
    shown = view_filter(text)
    assert shown is not None
    assert shown.properties == {"region": ["eu", "us"], "vip": ["yes"]}
    match = EventMatch(text)
    assert match.tags == ["paid", "refunded"]
    assert match(b"paid", {"region": "eu", "vip": "yes", "more": "x"})
    assert not match(b"open", {"region": "eu", "vip": "yes"})
    assert not match(b"paid", {"region": "cn", "vip": "yes"})
    assert not match(b"paid", {"region": "eu"})


def test_an_empty_filter_is_none() -> None:
    assert render_filter(EventFilter()) == render_filter(None) == ""
    assert EventMatch("")(b"", {})


@given(st.binary(max_size=2_000))
def test_an_excerpt_is_short_and_can_be_shown(body: bytes) -> None:
    shown = excerpt(body)
    assert len(shown) <= 1024
    assert shown.isprintable() or not shown


def test_an_excerpt_keeps_what_people_read() -> None:
    assert excerpt(b"  no\r\n\tway \xc3\xbc ") == "no way ü"
    assert excerpt("a\u202eb\x07c".encode()) == "abc"
    assert excerpt(b"\x00\x01") == "(2 bytes that are no text)"


@pytest.mark.parametrize(
    ("status", "result"),
    [
        (200, "delivered"),
        (204, "delivered"),
        (301, "redirect"),
        (404, "http_error"),
        (500, "http_error"),
    ],
)
def test_only_2xx_delivers(status: int, result: str) -> None:
    assert result_of_status(status)[0] == result


def granted(**headers: str) -> CallResult:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return CallResult(result=Result.DELIVERED, status=200, headers=tuple(named.items()))


def test_a_handshake_must_name_us_or_everybody() -> None:
    for origin in ("*", "halfpast", "a.example, HALFPAST"):
        found = granted(webhook_allowed_origin=origin, webhook_allowed_rate="120")
        permission = read_permission(found, "halfpast")
        assert (permission.is_granted, permission.rate_per_s) == (True, 2.0)
    for found in (granted(), granted(webhook_allowed_origin="halfpast.example")):
        assert not read_permission(found, "halfpast").is_granted
    stopped = granted(webhook_allowed_origin="*", webhook_allowed_rate="0")
    assert not read_permission(stopped, "halfpast").is_granted
    assert not read_permission(BROKEN, "halfpast").is_granted


def test_a_handshake_asks_for_our_rate_a_minute() -> None:
    assert request_headers("me", 0.5)["WebHook-Request-Rate"] == "30"
    assert "WebHook-Request-Rate" not in request_headers("me", 0)
    assert (lower_rate(0, 3), lower_rate(2, 0), lower_rate(2, 3)) == (3, 2, 2)


def test_a_group_belongs_to_its_endpoint_in_its_namespace() -> None:
    assert group_of("crm") == "endpoint-crm"
    assert group_of("acme%crm") == "acme%endpoint-crm"
    assert endpoint_of("acme%endpoint-crm") == "acme%crm"
    assert endpoint_of("billing") is None
    assert endpoint_of("endpoint-") is None
    assert split_stored("crm") == ("", "crm")
