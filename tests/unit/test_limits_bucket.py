"""Buckets let in what they promise, however it is asked for; and limits add up."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halfpast_api.access.access import OPEN_ACCESS, Access
from halfpast_api.limits.caller_limits import CallerLimits, check_limits
from halfpast_api.limits.limiter import Limiter
from halfpast_api.limits.subject import Subject, parse_subject, subjects_of
from halfpast_api.limits.token_bucket import TokenBucket
from halfpast_api.load.urgency import Urgency
from halfpast_api.metadata.errors import InvalidSettings
from halfpast_api.problems import Refusal

ANN = Access(actor="key:k3x9q2mv", kind="key", key_id="k3x9q2mv", namespace="acme")


class Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


class Source:
    """Limits that a test gives."""

    def __init__(self, **limits: dict[str, float]) -> None:
        self.revision = 0
        self.given = {name.replace("_", "-"): it for name, it in limits.items()}

    def limits(self) -> dict[str, dict[str, float]]:
        return self.given

    def put(self, subject: str, **limits: float) -> None:
        self.given[subject] = limits
        self.revision += 1


@given(
    st.floats(0.01, 1000),
    st.integers(1, 1000),
    st.lists(st.tuples(st.floats(0, 10), st.floats(0, 50)), max_size=50),
)
def test_over_any_time_no_more_is_let_in_than_promised(
    rate: float, burst: int, steps: list[tuple[float, float]]
) -> None:
    bucket = TokenBucket(rate, burst, 0.0)
    now_s = taken = 0.0
    for pause_s, wanted in steps:
        now_s += pause_s
        if wanted <= bucket.level(now_s):
            bucket.take(wanted, now_s)
            taken += wanted
        assert taken <= burst + rate * now_s + 1e-6


@given(st.floats(0.01, 1000), st.integers(1, 1000), st.floats(0, 5000))
def test_a_debt_is_paid_by_waiting(rate: float, burst: int, size: float) -> None:
    bucket = TokenBucket(rate, burst, 0.0)
    bucket.take(size, 0.0)
    wait_s = bucket.wait_s(1, 0.0)
    assert bucket.level(wait_s) >= 1 - 1e-6
    if wait_s > 0:
        assert bucket.level(wait_s * 0.9) < 1


def test_without_limits_nobody_has_a_quota() -> None:
    limiter = Limiter(Source(), Clock())
    assert limiter.admit(ANN, Urgency.ENTRY) is None


def test_a_key_is_refused_beyond_its_rate_and_told_when_to_come_again() -> None:
    clock, source = Clock(), Source()
    source.put("key:k3x9q2mv", requests_per_s=0.5, request_burst=2)
    limiter = Limiter(source, clock)
    for _ in range(2):
        assert limiter.admit(ANN, Urgency.ENTRY)
    with pytest.raises(Refusal) as caught:
        limiter.admit(ANN, Urgency.ENTRY)
    assert caught.value.code == "rate_limited"
    assert dict(caught.value.headers) == {
        "Retry-After": "2",
        "RateLimit-Policy": '"key";q=2;w=4',
        "RateLimit": '"key";r=0;t=4',
    }
    clock.now_s += 2
    assert limiter.admit(ANN, Urgency.ENTRY)
    other = Access(actor="key:aaaaaaaa", kind="key", key_id="aaaaaaaa")
    assert limiter.admit(other, Urgency.ENTRY) is None


def test_what_ends_something_has_a_reserve_and_health_is_free() -> None:
    source = Source()
    source.put("key:k3x9q2mv", requests_per_s=1, request_burst=3)
    limiter = Limiter(source, Clock())
    for _ in range(3):
        limiter.admit(ANN, Urgency.ORDINARY)
    for urgency in (Urgency.SETTLING, Urgency.TENDING, Urgency.SETTLING):
        with pytest.raises(Refusal):
            limiter.admit(ANN, Urgency.ORDINARY)
        limiter.admit(ANN, urgency)
    with pytest.raises(Refusal):
        limiter.admit(ANN, Urgency.SETTLING)
    for _ in range(10):
        limiter.admit(ANN, Urgency.FREE)


def test_who_is_refused_by_the_namespace_has_used_nothing_of_its_own() -> None:
    source = Source()
    source.put("every-key", requests_per_s=1, request_burst=5)
    source.put("namespace:acme", requests_per_s=1, request_burst=1)
    limiter = Limiter(source, Clock())
    limiter.admit(ANN, Urgency.ENTRY)
    for _ in range(9):
        with pytest.raises(Refusal) as caught:
            limiter.admit(ANN, Urgency.ENTRY)
        assert "namespace:acme" in caught.value.detail
    quota = limiter.quota_of(ANN)
    assert quota
    key = quota.shares[0]
    assert (str(key.subject), str(key.set_by)) == ("key:k3x9q2mv", "every-key")
    assert key.requests
    assert key.requests.level(1000.0) == 4


def test_a_large_body_is_paid_for_afterwards() -> None:
    clock, source = Clock(), Source()
    source.put("every-namespace", bytes_per_s=1000, byte_burst=1000)
    limiter = Limiter(source, clock)
    quota = limiter.admit(ANN, Urgency.ENTRY)
    assert quota
    quota.charge(5000, clock())
    with pytest.raises(Refusal) as caught:
        limiter.admit(ANN, Urgency.ENTRY)
    assert caught.value.code == "bytes_limited"
    assert dict(caught.value.headers)["Retry-After"] == "5"
    assert limiter.admit(ANN, Urgency.SETTLING)
    clock.now_s += 4.1
    assert limiter.admit(ANN, Urgency.ENTRY)
    headers = dict(quota.headers(clock()))
    assert headers["RateLimit-Policy"].endswith(
        '"namespace-bytes";q=1000;w=1;qu="content-bytes"'
    )


def test_another_change_does_not_fill_a_bucket_and_another_rate_does() -> None:
    source = Source()
    source.put("key:k3x9q2mv", requests_per_s=1, request_burst=1)
    limiter = Limiter(source, Clock())
    limiter.admit(ANN, Urgency.ENTRY)
    source.revision += 1
    with pytest.raises(Refusal):
        limiter.admit(ANN, Urgency.ENTRY)
    source.put("key:k3x9q2mv", requests_per_s=1, request_burst=2)
    limiter.admit(ANN, Urgency.ENTRY)
    source.put("key:k3x9q2mv")
    assert limiter.admit(ANN, Urgency.ENTRY) is None


def test_own_limits_come_before_those_of_the_kind() -> None:
    all_ = CallerLimits(requests_per_s=10, request_burst=99, max_delay_ms=5)
    assert CallerLimits().over(all_) == all_
    assert CallerLimits(requests_per_s=3).over(all_) == CallerLimits(
        requests_per_s=3, max_delay_ms=5
    )
    source = Source()
    source.put("every-key", requests_per_s=1)
    source.put("key:k3x9q2mv", requests_per_s=0)
    assert Limiter(source, Clock()).admit(ANN, Urgency.ENTRY) is None


@pytest.mark.parametrize(
    ("limits", "field"),
    [
        (CallerLimits(requests_per_s=-1), "requests_per_s"),
        (CallerLimits(requests_per_s=float("nan")), "requests_per_s"),
        (CallerLimits(bytes_per_s=1e12), "bytes_per_s"),
        (CallerLimits(request_burst=5), "request_burst"),
        (CallerLimits(requests_per_s=0, request_burst=5), "request_burst"),
        (CallerLimits(bytes_per_s=5, byte_burst=0), "byte_burst"),
        (CallerLimits(max_delay_ms=-1), "max_delay_ms"),
        (CallerLimits(max_pending=5), "max_pending"),
    ],
)
def test_limits_that_cannot_be(limits: CallerLimits, field: str) -> None:
    with pytest.raises(InvalidSettings) as caught:
        check_limits(limits, is_namespace=False)
    assert caught.value.field == field


@pytest.mark.parametrize(
    "text",
    [
        *("key:k3x9q2mv", "user:ann@example.org", "user:Jörg Ü/:%", "namespace:acme"),
        *("default-namespace", "every-key", "every-user", "every-namespace"),
    ],
)
def test_a_subject_is_written_as_it_was_read(text: str) -> None:
    assert str(parse_subject(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        *("", "key:", "key:short", "namespace:", "namespace:%", "topic:orders"),
        *("user:", "user:a\nb", "user:" + "x" * 251, "every-topic", "acme"),
    ],
)
def test_what_is_no_subject(text: str) -> None:
    with pytest.raises(Refusal) as caught:
        parse_subject(text)
    assert caught.value.code == "invalid_subject"


def test_who_is_limited_by_what() -> None:
    user = Access(actor="user:ann", kind="user")
    assert subjects_of(OPEN_ACCESS) == (Subject("namespace"),)
    assert [str(it) for it in subjects_of(user)] == ["user:ann", "default-namespace"]
    assert [str(it) for it in subjects_of(ANN)] == ["key:k3x9q2mv", "namespace:acme"]
