"""What is remembered of endpoints, and for how long."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from halfpast_txn import http_endpoints
from halfpast_txn.circuit_breaker import Circuit, CircuitConfig
from halfpast_txn.http_endpoints import (
    UNUSED_MS_MAX,
    EndpointState,
    EndpointStates,
    endpoint_label,
)


@pytest.fixture
def states() -> EndpointStates:
    return EndpointStates(CircuitConfig(failures_max=1))


def labels(states: EndpointStates) -> list[str]:
    return [state.label.partition(":")[0] for state in states.shown(100)]


def trip(state: EndpointState) -> None:
    permit = state.breaker.enter(0)
    assert permit is not None
    assert state.breaker.failed(permit, 0)


def test_an_endpoint_is_known_by_its_url(states: EndpointStates) -> None:
    first = states.use("http://a/1", 0)
    assert states.use("http://a/1", 5) is first
    assert states.use("http://a/2", 5) is not first
    assert len(states) == 2


def test_unused_ones_are_forgotten_after_an_hour(states: EndpointStates) -> None:
    first = states.use("http://a/", 0)
    states.use("http://b/", 0)
    states.use("http://a/", 1)
    states.forget(UNUSED_MS_MAX)
    assert len(states) == 2
    states.use("http://c/", UNUSED_MS_MAX + 1)
    assert labels(states) == ["c", "a"]
    assert states.use("http://a/", UNUSED_MS_MAX + 1) is first


@pytest.mark.asyncio
async def test_busy_ones_stay(states: EndpointStates) -> None:
    busy = states.use("http://busy/", 0)
    states.use("http://idle/", 0)
    async with busy.slots.taken(1):
        states.forget(UNUSED_MS_MAX * 2)
        assert labels(states) == ["busy"]
    states.forget(UNUSED_MS_MAX * 2)
    assert len(states) == 0


def test_there_are_only_so_many(
    states: EndpointStates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_endpoints, "ENDPOINT_COUNT_MAX", 3)
    for number in range(10):
        states.use(f"http://h{number}/", 0)
    assert labels(states) == ["h9", "h8", "h7"]


def test_those_in_trouble_are_shown_first(states: EndpointStates) -> None:
    for name in ("a", "b", "c", "d"):
        states.use(f"http://{name}/", 0)
    trip(states.use("http://a/", 0))
    states.use("http://b/", 0)
    assert labels(states) == ["a", "b", "d", "c"]
    assert [state.label[0] for state in states.shown(2)] == ["a", "b"]
    assert states.shown(1)[0].breaker.circuit == Circuit.OPEN


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("https://Hooks.Example/secret?token=abc", "hooks.example:443"),
        ("http://[::1]:8080/x", "[::1]:8080"),
        ("http://bücher.example/", "xn--bcher-kva.example:80"),
        ("http://h:99999/", "bad-url"),
        ("", ":"),
        ('http://a"}b{\n\\/', None),
        ("http://\ud800/", None),
        (f"http://{'a' * 300}.example/", None),
    ],
)
def test_labels_tell_no_path_and_are_safe(url: str, place: str | None) -> None:
    label = endpoint_label(url)
    if place is not None:
        assert label.rpartition("/")[0] == place
    assert len(label) <= 110
    (family,) = text_string_to_metric_families(f'm{{endpoint="{label}"}} 1\n')
    assert family.samples[0].labels == {"endpoint": label}
    assert not set(label) & set('"\\\n{}')


def test_labels_tell_urls_apart() -> None:
    assert endpoint_label("http://h/a") != endpoint_label("http://h/b")
