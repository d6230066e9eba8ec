"""RocketMQ's official clients in Python, Node and Java against `halfpast up`."""

import time
import zlib
from collections.abc import Iterator
from typing import Any

import pytest
from tests.acceptance.rocketmq_clients import (
    JAVA,
    LANGUAGES,
    NODE,
    PYTHON,
    ClientRefused,
    Clients,
    Message,
    RocketmqClient,
    bodies,
)
from tests.acceptance.rocketmq_server import RocketmqServer

SOON_MS = 2500
HOUR_MS = 3_600_000
QUICK_CHECKS = {"check_after_ms": 1000, "check_interval_ms": 1000}
QUICK_RETRIES = {"backoff_initial_ms": 100, "backoff_max_ms": 100}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RocketmqServer]:
    with RocketmqServer(tmp_path_factory.mktemp("rocketmq") / "data") as running:
        yield running


@pytest.fixture(scope="module")
def processes(server: RocketmqServer) -> Iterator[Clients]:
    found = Clients(endpoints=server.endpoints)
    yield found
    found.end()


@pytest.fixture
def clients(processes: Clients) -> Iterator[Clients]:
    """The same, without what the test before has started."""
    yield processes
    processes.stop_all()


@pytest.fixture(params=LANGUAGES)
def client(request: pytest.FixtureRequest, clients: Clients) -> RocketmqClient:
    return clients[request.param]


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name for what one test makes."""
    text: str = request.node.name
    words = "".join(char if char.isalnum() else "-" for char in text)
    return f"{words[5:40]}-{zlib.crc32(text.encode()):08x}"


def in_ms(span_ms: int) -> int:
    return int(time.time() * 1000) + span_ms


# --- every type of message --------------------------------------------------------


def test_a_normal_message_arrives_as_it_was_sent(
    server: RocketmqServer, client: RocketmqClient, name: str
) -> None:
    server.topic(name)
    client.producer("p" + name, name)
    client.simple("c" + name, name, name)
    sent = client.send(
        "p" + name,
        name,
        b"\x00\xff body",
        tag="paid",
        keys=["k1", "k2"],
        properties={"shop": "7", "name": "Zoë"},
    )
    (got,) = client.receive_all("c" + name, 1)
    assert got["body"] == b"\x00\xff body"
    assert got["message_id"] == sent["message_id"]
    assert (got["topic"], got["tag"], got["keys"]) == (name, "paid", ["k1", "k2"])
    assert {"shop": "7", "name": "Zoë"}.items() <= got["properties"].items()
    assert got["attempt"] == 1
    assert got["born_ms"]
    assert not got["corrupted"]


def test_fifo_messages_come_group_by_group_in_order(
    server: RocketmqServer, client: RocketmqClient, name: str
) -> None:
    server.topic(name)
    server.group(name, ordered=True)
    client.producer("p" + name, name)
    client.simple("c" + name, name, name)
    for number in range(6):
        for group in ("a", "b"):
            client.send("p" + name, name, f"{group}{number}".encode(), group=group)
    got = client.receive_all("c" + name, 12)
    for group in ("a", "b"):
        ours = [it["body"].decode() for it in got if it["group"] == group]
        assert ours == [f"{group}{number}" for number in range(6)]


def test_an_unacknowledged_fifo_message_holds_its_group_back(
    server: RocketmqServer, client: RocketmqClient, name: str
) -> None:
    server.topic(name)
    server.group(name, ordered=True)
    client.producer("p" + name, name)
    client.simple("c" + name, name, name, wait_s=1)
    for body in (b"1", b"2"):
        client.send("p" + name, name, body, group="g")
    (first,) = client.receive_all("c" + name, 1, ack=False)
    assert first["body"] == b"1"
    assert client.receive("c" + name) == []
    client.do("ack", consumer="c" + name, receipt=first["receipt"])
    assert bodies(client.receive_all("c" + name, 1)) == [b"2"]


def test_a_delayed_message_comes_in_time(
    server: RocketmqServer, client: RocketmqClient, name: str
) -> None:
    server.topic(name)
    client.producer("p" + name, name)
    client.simple("c" + name, name, name)
    due_ms = in_ms(SOON_MS)
    sent = client.send("p" + name, name, b"later", due_ms=due_ms)
    due_ms -= due_ms % 1000 if client.language == PYTHON else 0
    assert sent["recall_handle"]
    (got,) = client.receive_all("c" + name, 1)
    assert in_ms(0) >= due_ms
    assert got["body"] == b"later"
    assert got["due_ms"] == due_ms


def test_a_delay_of_many_years_is_kept(
    server: RocketmqServer, client: RocketmqClient, name: str
) -> None:
    server.topic(name)
    client.producer("p" + name, name)
    client.send("p" + name, name, b"much later", due_ms=in_ms(1500 * 24 * HOUR_MS))
    waiting = server.call("GET", f"/v1/events?topic={name}&state=scheduled")["events"]
    assert len(waiting) == 1


def test_a_committed_transaction_is_delivered_and_one_rolled_back_never(
    server: RocketmqServer, client: RocketmqClient, name: str
) -> None:
    server.topic(name)
    client.producer("p" + name, name, answer="unknown")
    client.simple("c" + name, name, name, wait_s=1)
    for transaction in ("good", "bad"):
        sent = client.send(
            "p" + name, name, transaction.encode(), transaction=name + transaction
        )
        assert sent["transaction_id"]
    assert client.receive("c" + name) == []
    client.do("end", transaction=name + "bad", commit=False)
    client.do("end", transaction=name + "good", commit=True)
    assert bodies(client.receive_all("c" + name, 1)) == [b"good"]
    assert client.receive("c" + name) == []


# --- consumers --------------------------------------------------------------------


def test_what_is_not_acknowledged_comes_again(
    server: RocketmqServer, client: RocketmqClient, name: str
) -> None:
    server.topic(name)
    server.group(name, **QUICK_RETRIES)
    client.producer("p" + name, name)
    client.simple("c" + name, name, name)
    client.send("p" + name, name, b"again")
    (first,) = client.receive_all("c" + name, 1, hidden_s=1, ack=False)
    (second,) = client.receive_all("c" + name, 1, ack=False)
    assert (first["attempt"], second["attempt"]) == (1, 2)
    assert first["message_id"] == second["message_id"]
    with pytest.raises(ClientRefused) as raised:
        client.do("ack", consumer="c" + name, receipt=first["receipt"])
    assert raised.value.code == 40013  # INVALID_RECEIPT_HANDLE: do not try it again
    client.do("ack", consumer="c" + name, receipt=second["receipt"])


def test_a_message_can_be_hidden_for_longer_with_a_new_receipt(
    server: RocketmqServer, client: RocketmqClient, name: str
) -> None:
    server.topic(name)
    client.producer("p" + name, name)
    client.simple("c" + name, name, name, wait_s=1)
    client.send("p" + name, name, b"slow work")
    (got,) = client.receive_all("c" + name, 1, hidden_s=10, ack=False)
    given = {"consumer": "c" + name, "receipt": got["receipt"]}
    renewed = client.do("hide", **given, hidden_s=60)
    assert renewed
    assert renewed != got["receipt"]
    assert client.receive("c" + name) == []
    client.do("ack", consumer="c" + name, receipt=renewed)


def test_a_push_consumer_gets_a_failed_message_again(
    server: RocketmqServer, client: RocketmqClient, name: str
) -> None:
    server.topic(name)
    server.group(name, **QUICK_RETRIES)
    client.producer("p" + name, name)
    client.push("c" + name, name, name, fail=1)
    client.send("p" + name, name, b"twice")
    first = client.consumed("c" + name)
    second = client.consumed("c" + name)
    assert (first["result"], second["result"]) == ("FAILURE", "SUCCESS")
    assert [it["message"]["attempt"] for it in (first, second)] == [1, 2]
    client.stop("c" + name)


def test_a_push_consumer_that_always_fails_makes_a_dead_letter(
    server: RocketmqServer, client: RocketmqClient, name: str
) -> None:
    server.topic(name)
    server.group(name, max_attempts=2, **QUICK_RETRIES)
    client.producer("p" + name, name)
    client.push("c" + name, name, name, fail=-1)
    client.send("p" + name, name, b'{"poison": 1}')
    attempts = [client.consumed("c" + name)["message"]["attempt"] for _ in range(2)]
    assert attempts == [1, 2]
    (dead,) = server.pop("undertaker", f"%DLQ%{name}")
    assert dead["data"] == {"poison": 1}
    client.stop("c" + name)


def test_a_fifo_push_consumer_keeps_the_order_and_buries_what_fails(
    server: RocketmqServer, client: RocketmqClient, name: str
) -> None:
    server.topic(name)
    server.group(name, ordered=True, max_attempts=2, **QUICK_RETRIES)
    client.producer("p" + name, name)
    for number in range(4):
        client.send("p" + name, name, b"%d" % number, group="g")
    client.push("c" + name, name, name)
    seen = [client.consumed("c" + name)["message"]["body"] for _ in range(4)]
    assert seen == [b"0", b"1", b"2", b"3"]
    client.stop("c" + name)
    client.push("f" + name, name, name, fail=-1)
    client.send("p" + name, name, b'{"bad": 1}', group="g")
    (dead,) = server.pop("undertaker", f"%DLQ%{name}")
    assert dead["data"] == {"bad": 1}
    client.stop("f" + name)


@pytest.mark.parametrize("wanted", ["paid || refunded", {"sql": "total > 10"}])
def test_filters_choose_what_comes(
    server: RocketmqServer, client: RocketmqClient, name: str, wanted: Any
) -> None:
    server.topic(name)
    client.producer("p" + name, name)
    client.simple("c" + name, name, {name: wanted}, wait_s=1)
    for tag, total in (("paid", "11"), ("open", "9"), ("refunded", "30")):
        more = {"tag": tag, "properties": {"total": total}}
        client.send("p" + name, name, tag.encode(), **more)
    got = client.receive_all("c" + name, 2)
    assert sorted(bodies(got)) == [b"paid", b"refunded"]
    assert client.receive("c" + name) == []


def test_two_consumers_of_a_group_share_and_two_groups_do_not(
    server: RocketmqServer, clients: Clients, name: str
) -> None:
    python, node = clients[PYTHON], clients[NODE]
    server.topic(name)
    python.producer("p" + name, name)
    python.push("c" + name, name, name)
    node.push("c" + name, name, name)
    node.push("o" + name, name + "-other", name)
    sent = {b"%d" % number for number in range(20)}
    for body in sorted(sent):
        python.send("p" + name, name, body)
    assert {node.consumed("o" + name)["message"]["body"] for _ in sent} == sent
    server.until(
        f"/v1/groups/{name}/lag?topic={name}",
        lambda it: it["lag"] == 0 and it["in_flight"] == 0,
    )
    shared = [
        event["message"]["body"]
        for client in (python, node)
        for event in client.told("consumed", "c" + name)
    ]
    assert sorted(shared) == sorted(sent)


# --- recall -----------------------------------------------------------------------


def test_a_recalled_message_never_comes(
    server: RocketmqServer, client: RocketmqClient, name: str
) -> None:
    server.topic(name)
    client.producer("p" + name, name)
    sent = client.send("p" + name, name, b"never", due_ms=in_ms(HOUR_MS))
    recall = {"producer": "p" + name, "topic": name, "handle": sent["recall_handle"]}
    assert client.do("recall", **recall) == sent["message_id"]
    left = server.call("GET", f"/v1/events?topic={name}&state=scheduled")["events"]
    assert left == []
    assert client.do("recall", **recall)  # once more: so it is, and stays


def test_what_has_been_delivered_cannot_be_recalled(
    server: RocketmqServer, client: RocketmqClient, name: str
) -> None:
    server.topic(name)
    client.producer("p" + name, name)
    client.simple("c" + name, name, name)
    sent = client.send("p" + name, name, b"gone", due_ms=in_ms(1500))
    client.receive_all("c" + name, 1)
    handle = sent["recall_handle"]
    for wrong in (handle, "nonsense", handle[:-2]):
        with pytest.raises(ClientRefused):
            client.do("recall", producer="p" + name, topic=name, handle=wrong)


# --- with HTTP --------------------------------------------------------------------


def test_what_is_published_over_http_is_consumed_over_grpc(
    server: RocketmqServer, client: RocketmqClient, name: str
) -> None:
    """From all queues: Node's client asks of the first one alone."""
    server.topic(name, queues=4)
    client.simple("c" + name, name, name)
    sent = {server.publish(name, {"n": n}, key=f"k{n}", tag="t") for n in range(16)}
    got = client.receive_all("c" + name, 16)
    assert {it["message_id"] for it in got} == sent
    assert {it["keys"][0] for it in got} == {f"k{n}" for n in range(16)}
    assert {it["tag"] for it in got} == {"t"}


def test_what_is_sent_over_grpc_is_consumed_over_http(
    server: RocketmqServer, client: RocketmqClient, name: str
) -> None:
    server.topic(name)
    client.producer("p" + name, name)
    client.send("p" + name, name, b'{"order": 17}', tag="paid", keys=["17"])
    client.send("p" + name, name, b"\x00\x01")
    got = server.pop(name, name, 2)
    (order,) = [it for it in got if it.get("tag") == "paid"]
    assert order["data"] == {"order": 17}
    assert order["key"] == "17"
    (other,) = [it for it in got if it is not order]
    assert other["data_base64"] == "AAE="


def test_a_transaction_begun_over_grpc_can_be_seen_and_ended_over_http(
    server: RocketmqServer, client: RocketmqClient, name: str
) -> None:
    server.topic(name)
    client.producer("p" + name, name, answer="unknown")
    sent = client.send("p" + name, name, b"{}", transaction=name)
    path = f"/v1/transactions/{sent['transaction_id']}"
    assert server.call("GET", path)["state"] == "prepared"
    server.call("POST", f"{path}:commit", {})
    (got,) = server.pop(name, name)
    assert got["data"] == {}
    client.do("end", transaction=name, commit=True)  # which it is already


def test_an_outcome_that_was_given_over_http_cannot_be_changed(
    server: RocketmqServer, client: RocketmqClient, name: str
) -> None:
    server.topic(name)
    client.producer("p" + name, name, answer="unknown")
    sent = client.send("p" + name, name, b"{}", transaction=name)
    server.call("POST", f"/v1/transactions/{sent['transaction_id']}:commit", {})
    with pytest.raises(ClientRefused):
        client.do("end", transaction=name, commit=False)


# --- transactions whose producer is gone ------------------------------------------


def test_a_producer_is_asked_about_a_transaction_that_it_forgot(
    server: RocketmqServer, client: RocketmqClient, name: str
) -> None:
    server.topic(name)
    server.call("PUT", f"/v1/producer-groups/{name}", QUICK_CHECKS)
    client.producer("p" + name, name, answer="commit")
    client.simple("c" + name, name, name)
    sent = client.send("p" + name, name, b"forgotten", tag="t", transaction=name)
    asked = client.checked("p" + name)
    assert asked["message_id"] == sent["message_id"]
    assert (asked["body"], asked["tag"]) == (b"forgotten", "t")
    assert bodies(client.receive_all("c" + name, 1)) == [b"forgotten"]


@pytest.mark.parametrize("answer", ["commit", "rollback"])
@pytest.mark.parametrize(
    ("dying", "other"), [(PYTHON, NODE), (NODE, PYTHON), (JAVA, PYTHON), (NODE, JAVA)]
)
def test_another_producer_answers_for_one_that_was_killed(
    server: RocketmqServer,
    clients: Clients,
    name: str,
    dying: str,
    other: str,
    answer: str,
) -> None:
    server.topic(name)
    server.call("PUT", f"/v1/producer-groups/{name}", QUICK_CHECKS)
    survivor = clients[other]
    survivor.producer("p" + name, name, answer=answer)
    with RocketmqClient(dying, endpoints=server.endpoints) as victim:
        victim.producer("p", name, answer="unknown")
        sent = victim.send("p", name, b"orphan", transaction="t")
        victim.kill()
    asked = survivor.checked("p" + name)
    assert asked["message_id"] == sent["message_id"]
    path = f"/v1/transactions/{sent['transaction_id']}"
    ended = "committed" if answer == "commit" else "rolled_back"
    server.until(path, lambda it: it["state"] == ended)
    if answer == "commit":
        survivor.simple("c" + name, name, name)
        assert bodies(survivor.receive_all("c" + name, 1)) == [b"orphan"]


# --- what clients do that looks like a fault of the server ------------------------


def test_node_starts_with_many_topics(
    server: RocketmqServer, clients: Clients, name: str
) -> None:
    """Settings that come while it still asks for routes are lost to it; it would wait
    for the next ones for 300 s."""
    topics = [server.topic(f"{name}-{number}") for number in range(5)]
    clients[NODE].producer("p" + name, *topics)
    clients[NODE].simple("c" + name, name, dict.fromkeys(topics, "*"))
    for topic in topics:
        clients[NODE].send("p" + name, topic, b"x")


def test_node_outlives_the_end_of_its_streams(server: RocketmqServer) -> None:
    """A stream that ends with anything but OK brings its process down."""
    topic = server.topic("node-ends")
    with RocketmqClient(NODE, endpoints=server.endpoints) as client:
        for _ in range(3):
            client.producer("p", topic)
            client.simple("c", "node-ends", topic)
            client.send("p", topic, b"x")
            client.stop("p")
            client.stop("c")
        assert client.is_running
        assert "Unhandled" not in client.errors()


def test_two_languages_keep_the_order_of_one_message_group(
    server: RocketmqServer, clients: Clients, name: str
) -> None:
    """They would choose different queues for it: their hashes differ."""
    server.topic(name)
    server.group(name, ordered=True)
    python, node = clients[PYTHON], clients[NODE]
    for client in (python, node):
        client.producer("p" + name, name)
    for number in range(8):
        client = python if number % 2 else node
        client.send("p" + name, name, b"%d" % number, group="g")
    node.simple("c" + name, name, name)
    got = bodies(node.receive_all("c" + name, 8))
    assert got == [b"%d" % number for number in range(8)]


def test_a_producer_that_declares_no_topics_is_asked_all_the_same(
    server: RocketmqServer, client: RocketmqClient, name: str
) -> None:
    """What it sends tells that it publishes there; Python tells it after 300 s."""
    server.topic(name)
    server.call("PUT", f"/v1/producer-groups/{name}", QUICK_CHECKS)
    client.producer("p" + name, answer="rollback")
    sent = client.send("p" + name, name, b"forgotten", transaction=name)
    assert client.checked("p" + name)["message_id"] == sent["message_id"]
    path = f"/v1/transactions/{sent['transaction_id']}"
    server.until(path, lambda it: it["state"] == "rolled_back")


def test_a_failed_message_waits_as_long_as_the_group_says(
    server: RocketmqServer, client: RocketmqClient, name: str
) -> None:
    """Node takes seconds for milliseconds, and asks for it after one."""
    server.topic(name)
    server.group(name, backoff_initial_ms=1500, backoff_max_ms=1500)
    client.producer("p" + name, name)
    client.push("c" + name, name, name, fail=1)
    client.send("p" + name, name, b"slowly")
    client.consumed("c" + name)
    failed_s = time.monotonic()
    client.consumed("c" + name)
    # It is told after it has failed, which takes a moment.
    assert time.monotonic() - failed_s > 1.0


def test_the_largest_body_that_can_be_sent_can_be_received(
    server: RocketmqServer, clients: Clients, name: str
) -> None:
    """Node receives 4 MiB at most, with all that is about the body."""
    server.topic(name)
    python, node = clients[PYTHON], clients[NODE]
    python.producer("p" + name, name)
    node.simple("c" + name, name, name)
    largest = b"x" * (4 * 1024 * 1024 - 4096)
    python.send("p" + name, name, largest, properties={"a": "b" * 1000})
    assert bodies(node.receive_all("c" + name, 1)) == [largest]
    with pytest.raises(ClientRefused):
        python.send("p" + name, name, largest + b"x")


def test_a_receive_of_nothing_is_empty(
    server: RocketmqServer, client: RocketmqClient, name: str
) -> None:
    server.topic(name)
    client.simple("c" + name, name, name, wait_s=1)
    found: list[Message] = client.receive("c" + name)
    assert found == []


@pytest.mark.parametrize("language", [PYTHON, NODE])  # Java tries it for 13 s
@pytest.mark.parametrize("group", ["%bad%", "x" * 300])
def test_a_name_that_cannot_be_is_refused(
    server: RocketmqServer, clients: Clients, name: str, language: str, group: str
) -> None:
    server.topic(name)
    with pytest.raises(ClientRefused):
        clients[language].consume(group, name)
