"""Clients that live, and those that do not: who is known, and who can be asked."""

from dataclasses import dataclass
from typing import Any, cast

import pytest

from halfpast_api.access.access import OPEN_ACCESS
from halfpast_api.rocketmq import clients as module
from halfpast_api.rocketmq.caller import Caller
from halfpast_api.rocketmq.clients import Client, Clients, Topic
from halfpast_api.rocketmq.protocol import TelemetryCommand
from halfpast_api.rocketmq.stream import Stream

LIVENESS_S = 30.0


@dataclass
class FakeClock:
    now_s: float = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def clients(clock: FakeClock) -> Clients:
    return Clients(LIVENESS_S, clock)


def caller(client_id: str) -> Caller:
    return Caller(OPEN_ACCESS, cast(Any, None), client_id, "")


def seen(clients: Clients, client_id: str) -> Client:
    client = clients.seen(caller(client_id))
    assert client is not None
    return client


def test_who_has_no_id_is_nobody(clients: Clients) -> None:
    assert clients.seen(caller("")) is None
    assert len(clients) == 0


def test_a_client_lives_while_it_calls(clients: Clients, clock: FakeClock) -> None:
    client = seen(clients, "a")
    clients.connect(client, Stream())
    clock.now_s += LIVENESS_S - 1
    assert clients.lives(client.key)
    clock.now_s += 2
    assert not clients.lives(client.key)  # whatever its stream looks like
    seen(clients, "a")
    assert clients.lives(client.key)


def test_producers_are_found_by_topic_while_they_are_connected(
    clients: Clients,
) -> None:
    changes: list[Topic] = []
    clients.changed = changes.append
    one, two = seen(clients, "one"), seen(clients, "two")
    clients.publishes(one, "t")
    assert clients.reachable(("", "t")) == []
    streams = Stream(), Stream()
    clients.connect(one, streams[0])
    clients.connect(two, streams[1])
    clients.publishes(two, "t")
    assert clients.reachable(("", "t")) == [one, two]
    assert changes == [("", "t")]
    clients.disconnect(one, streams[0])
    assert clients.reachable(("", "t")) == [two]
    clients.leave(two.key)
    assert clients.reachable(("", "t")) == []
    assert changes == [("", "t"), ("", "t")]
    assert not streams[1].is_open


def test_a_newer_stream_takes_over(clients: Clients) -> None:
    client = seen(clients, "a")
    clients.publishes(client, "t")
    old, new = Stream(), Stream()
    clients.connect(client, old)
    clients.connect(client, new)
    assert not old.is_open
    assert clients.stream_count == 1
    clients.disconnect(client, old)  # which ends only now
    assert clients.reachable(("", "t")) == [client]
    assert client.stream is new
    clients.leave(client.key)
    assert clients.stream_count == 0


def test_topics_of_a_client_are_bounded(
    clients: Clients, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_TOPICS_MAX", 2)
    client = seen(clients, "a")
    for topic in ("a", "b", "c"):
        clients.publishes(client, topic)
    assert [*client.topics] == ["a", "b"]
    clients.publishes(client, "d", is_transactional=True)  # which matter more
    assert [*client.topics] == ["a", "d"]


def test_topics_of_all_clients_are_bounded(
    clients: Clients, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_ALL_TOPICS_MAX", 2)
    one, two = seen(clients, "one"), seen(clients, "two")
    clients.publishes(one, "a")
    clients.publishes(one, "b")
    clients.publishes(two, "c")
    assert [*two.topics] == []
    clients.leave(one.key)
    clients.publishes(two, "c")
    assert [*two.topics] == ["c"]


def test_who_is_silent_for_long_is_forgotten(
    clients: Clients, clock: FakeClock
) -> None:
    seen(clients, "silent")
    connected = seen(clients, "connected")
    clients.connect(connected, Stream())
    clock.now_s += 3 * LIVENESS_S
    seen(clients, "new")
    assert len(clients) == 2
    assert clients.find(connected.key) is connected


def test_there_are_never_too_many(
    clients: Clients, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_SIZE_MAX", 10)
    for number in range(50):
        seen(clients, f"c{number}")
    assert len(clients) == 10


def test_a_stream_holds_a_bounded_lot() -> None:
    stream = Stream()
    offers = [stream.offer(TelemetryCommand()) for _ in range(1000)]
    assert 0 < sum(offers) < 1000
    stream.end()
    assert not stream.offer(TelemetryCommand())
