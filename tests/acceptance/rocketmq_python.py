"""RocketMQ's official Python client, told what to do: one JSON object a line.

    {"id": 1, "do": "send", "producer": "p", "topic": "orders", "body": "aGk="}
    {"id": 1, "result": {"message_id": "01…", …}}
    {"id": 2, "error": {"kind": "NotFoundException", "code": 40402, "message": "…"}}
    {"event": "consumed", "consumer": "c", "message": {…}, "result": "FAILURE"}

It runs in an environment of its own, with that client and nothing of ours, so it
imports nothing of ours either. `rocketmq_node/client.mjs` understands the same.
"""

import base64
import importlib
import json
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

rocketmq: Any = importlib.import_module("rocketmq")
protocol: Any = importlib.import_module("rocketmq.grpc_protocol")

RESOLUTIONS = {
    "commit": rocketmq.TransactionResolution.COMMIT,
    "rollback": rocketmq.TransactionResolution.ROLLBACK,
    "unknown": 0,
}
_writing = threading.Lock()


def tell(**what: Any) -> None:
    """One line on stdout."""
    with _writing:
        sys.stdout.write(json.dumps(what) + "\n")
        sys.stdout.flush()


class Checker(rocketmq.TransactionChecker):  # type: ignore[misc]
    """Answers check-backs as `answer` says, and tells of each."""

    def __init__(self, producer: str, answer: str) -> None:
        self._producer = producer
        self._answer = answer

    def check(self, message: Any) -> Any:
        tell(event="checked", producer=self._producer, message=shown(message))
        return RESOLUTIONS[self._answer]


class Listener(rocketmq.MessageListener):  # type: ignore[misc]
    """Fails `fail` times for each message (-1: always), and tells of each."""

    def __init__(self, consumer: str, fail: int) -> None:
        self._consumer = consumer
        self._fail = fail

    def consume(self, message: Any) -> Any:
        fails = self._fail < 0 or message.delivery_attempt <= self._fail
        result = rocketmq.ConsumeResult.FAILURE if fails else None
        result = result or rocketmq.ConsumeResult.SUCCESS
        told = shown(message)
        tell(
            event="consumed", consumer=self._consumer, message=told, result=result.name
        )
        return result


class Session:
    """Clients by name; each method is something to do."""

    def __init__(self) -> None:
        self._clients: dict[str, Any] = {}
        self._transactions: dict[str, Any] = {}
        self._messages: dict[str, Any] = {}  # by receipt

    def producer(
        self, name: str, topics: list[str], answer: str = "", **how: Any
    ) -> None:
        checker = Checker(name, answer) if answer else None
        made = rocketmq.Producer(
            config(**how), topics, checker=checker, tls_enable=how.get("tls", False)
        )
        self._start(name, made)

    def simple(
        self, name: str, group: str, topics: dict[str, Any], wait_s: int, **how: Any
    ) -> None:
        made = rocketmq.SimpleConsumer(
            config(**how),
            group,
            filters(topics),
            await_duration=wait_s,
            tls_enable=how.get("tls", False),
        )
        self._start(name, made)

    def push(
        self, name: str, group: str, topics: dict[str, Any], fail: int = 0, **how: Any
    ) -> None:
        made = rocketmq.PushConsumer(
            config(**how),
            group,
            Listener(name, fail),
            filters(topics),
            consumption_thread_count=4,
            tls_enable=how.get("tls", False),
        )
        self._start(name, made)

    def send(self, producer: str, **what: Any) -> dict[str, Any]:
        name = what.pop("transaction", None)
        transaction = None
        client = self._clients[producer]
        if name is not None:
            transaction = self._transactions[name] = client.begin_transaction()
        return receipt(client.send(message_of(**what), transaction))

    def send_async(self, producer: str, **what: Any) -> dict[str, Any]:
        future = self._clients[producer].send_async(message_of(**what))
        return receipt(future.result(timeout=30))

    def end(self, transaction: str, commit: bool) -> None:
        ended = self._transactions.pop(transaction)
        if commit:
            ended.commit()
        else:
            ended.rollback()

    def recall(self, producer: str, topic: str, handle: str) -> str:
        recalled: str = self._clients[producer].recall_message(topic, handle)
        return recalled

    def receive(self, consumer: str, count: int, hidden_s: int) -> list[dict[str, Any]]:
        found = self._clients[consumer].receive(count, hidden_s)
        for message in found:
            self._messages[message.receipt_handle] = message
        return [shown(message) for message in found]

    def ack(self, consumer: str, receipt: str) -> None:
        self._clients[consumer].ack(self._messages[receipt])

    def hide(self, consumer: str, receipt: str, hidden_s: int) -> str:
        message = self._messages[receipt]
        self._clients[consumer].change_invisible_duration(message, hidden_s)
        self._messages[message.receipt_handle] = message
        renewed: str = message.receipt_handle
        return renewed

    def stop(self, name: str) -> None:
        self._clients.pop(name).shutdown()

    def _start(self, name: str, client: Any) -> None:
        client.startup()
        self._clients[name] = client


def config(
    endpoints: str,
    access_key: str = "",
    secret_key: str = "",
    namespace: str = "",
    timeout_s: int = 10,
    tls: bool = False,
) -> Any:
    credentials = rocketmq.Credentials(access_key, secret_key)
    return rocketmq.ClientConfiguration(endpoints, credentials, namespace, timeout_s)


def filters(topics: dict[str, Any]) -> dict[str, Any]:
    """`*`, tags, or {"sql": …} for each topic."""
    found: dict[str, Any] = {}
    for topic, wanted in topics.items():
        if isinstance(wanted, str):
            found[topic] = rocketmq.FilterExpression(wanted)
        else:
            sql = protocol.FilterType.SQL
            found[topic] = rocketmq.FilterExpression(wanted["sql"], sql)
    return found


def message_of(
    topic: str,
    body: str,
    tag: str = "",
    keys: list[str] | None = None,
    group: str = "",
    due_ms: int = 0,
    properties: dict[str, str] | None = None,
) -> Any:
    message = rocketmq.Message()
    message.topic = topic
    message.body = base64.b64decode(body)
    if tag:
        message.tag = tag
    for key in keys or ():
        message.keys = key
    if group:
        message.message_group = group
    if due_ms:
        message.delivery_timestamp = due_ms // 1000  # seconds, whatever its docs say
    for name, value in (properties or {}).items():
        message.add_property(name, value)
    return message


def receipt(sent: Any) -> dict[str, Any]:
    return {
        "message_id": sent.message_id,
        "transaction_id": sent.transaction_id,
        "recall_handle": sent.recall_handle,
        "offset": sent.offset,
    }


def shown(message: Any) -> dict[str, Any]:
    return {
        "message_id": message.message_id,
        "topic": message.topic,
        "body": base64.b64encode(message.body).decode(),
        "tag": message.tag or "",
        "keys": sorted(message.keys),
        "group": message.message_group or "",
        "properties": dict(message.properties),
        "attempt": message.delivery_attempt,
        "receipt": message.receipt_handle or "",
        "due_ms": message.delivery_timestamp or 0,
        "born_ms": message.born_timestamp,
        "corrupted": message.corrupted,
    }


def failure(error: BaseException) -> dict[str, Any]:
    code = getattr(error, "code", None)
    code = code() if callable(code) else code  # of gRPC itself
    told = getattr(code, "name", code)
    return {"kind": type(error).__name__, "code": told, "message": str(error)}


def main() -> None:
    session = Session()

    def work(number: int, what: str, given: dict[str, Any]) -> None:
        try:
            tell(id=number, result=getattr(session, what)(**given))
        except BaseException as error:
            tell(id=number, error=failure(error))

    workers = ThreadPoolExecutor(max_workers=32)
    for line in sys.stdin:
        given = json.loads(line)
        workers.submit(work, given.pop("id"), given.pop("do"), given)
    os._exit(0)  # the client's threads do not end by themselves


if __name__ == "__main__":
    main()
