"""RocketMQ's official clients while everything is killed below them."""

import os
import signal
import threading
import time
from collections.abc import Iterator

import pytest
from tests.acceptance.rocketmq_clients import (
    NODE,
    PYTHON,
    ClientRefused,
    RocketmqClient,
)
from tests.acceptance.rocketmq_server import RocketmqServer
from tests.integration.cli_process import children_of

COUNT = 300
PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RocketmqServer]:
    with RocketmqServer(tmp_path_factory.mktemp("crash") / "data") as running:
        yield running


class Sender:
    """Sends numbers, each until it is acknowledged, in a thread of its own."""

    def __init__(self, client: RocketmqClient, topic: str, first: str) -> None:
        self.acknowledged: list[bytes] = []
        self.halfway = threading.Event()
        self._client = client
        self._topic = topic
        self._first = first
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=f"sender {first}")
        self._thread.start()

    def join(self) -> None:
        self._thread.join(120)
        assert not self._thread.is_alive()
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            for number in range(COUNT):
                body = f"{self._first}{number}".encode()
                self._send(body)
                self.acknowledged.append(body)
                if number == COUNT // 3:
                    self.halfway.set()
        except BaseException as failure:
            self._failure = failure
        finally:
            self.halfway.set()

    def _send(self, body: bytes) -> None:
        deadline_s = time.monotonic() + PATIENCE_S
        while True:
            try:
                self._client.send("p", self._topic, body)
                return
            except ClientRefused:  # the server is away
                assert time.monotonic() < deadline_s, body
                time.sleep(0.1)


@pytest.mark.parametrize("victim", ["broker", "api", "all"])
def test_nothing_is_lost_by_a_kill_in_the_middle(
    server: RocketmqServer, victim: str
) -> None:
    """Both clients send, a push consumer of each reads; all that was acknowledged
    comes, and what was consumed and acknowledged does not come again."""
    topic = server.topic(f"orders-{victim}")
    # What was on its way to a consumer at the kill comes again after that time.
    retries = {"backoff_initial_ms": 100, "backoff_max_ms": 100, "max_attempts": 100}
    server.group("g", invisible_ms=3000, **retries)
    with (
        RocketmqClient(PYTHON, endpoints=server.endpoints, timeout_s=5) as python,
        RocketmqClient(NODE, endpoints=server.endpoints, timeout_s=5) as node,
    ):
        for client in (python, node):
            client.producer("p", topic)
            client.push("c", "g", topic)
        senders = [Sender(python, topic, "p"), Sender(node, topic, "n")]
        for sender in senders:
            sender.halfway.wait(60)
        kill(server, victim)
        for sender in senders:
            sender.join()
        wanted = {body for sender in senders for body in sender.acknowledged}
        assert len(wanted) == 2 * COUNT
        server.until(
            f"/v1/groups/g/lag?topic={topic}",
            lambda it: it["lag"] == 0 and it["in_flight"] == 0,
        )
        got = [
            event["message"]["body"]
            for client in (python, node)
            for event in client.told("consumed", "c")
        ]
        assert wanted <= set(got)
        # No consumer failed, so what came twice was taken twice or not acknowledged:
        # no more than was under way at the kill.
        assert len(got) - len(set(got)) <= 2 * 1024


def test_an_orphan_is_asked_about_after_a_restart_of_the_server(
    server: RocketmqServer,
) -> None:
    """By whichever client comes first: Node opens its stream again within seconds,
    Python after minutes."""
    topic = server.topic("orphans")
    checks = {"check_after_ms": 1000, "check_interval_ms": 1000, "check_max": 1000}
    server.call("PUT", f"/v1/producer-groups/{topic}", checks)
    with (
        RocketmqClient(NODE, endpoints=server.endpoints, timeout_s=5) as node,
        RocketmqClient(PYTHON, endpoints=server.endpoints, timeout_s=5) as python,
    ):
        node.producer("p", topic, answer="commit")
        python.producer("p", topic, answer="unknown")
        sent = python.send("p", topic, b"orphan", transaction="t")
        kill(server, "all")
        python.kill()
        asked = node.checked("p")
        assert asked["message_id"] == sent["message_id"]
        server.until(
            f"/v1/transactions/{sent['transaction_id']}",
            lambda it: it["state"] == "committed",
        )
        node.simple("c", "after", topic)
        (got,) = node.receive_all("c", 1)
        assert got["body"] == b"orphan"


def kill(server: RocketmqServer, victim: str) -> None:
    """SIGKILL to one service, or to all of them at once and then a new start."""
    if victim != "all":
        os.kill(children_of(server.suite.pid)[victim], signal.SIGKILL)
        return
    children = children_of(server.suite.pid)
    for pid in (server.suite.pid, *children.values()):
        os.kill(pid, signal.SIGKILL)
    server.suite.wait()
    server.restart()
    server.suite.wait_ready()
