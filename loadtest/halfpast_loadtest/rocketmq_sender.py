"""RocketMQ's Python client, sending as fast as it can; what it saw, as JSON lines.

    PYTHON rocketmq_sender.py '{"endpoints": "127.0.0.1:8081", "topic": "t",
        "threads": 8, "in_flight": 0, "seconds": 8, "warmup_s": 2, "size": 100}'

With `in_flight` it keeps so many `send_async` under way; else each thread sends and
waits. It runs in the client's own environment and imports nothing of ours. Lines:
`{"window": "begins"}`, `{"window": "ends"}`, then one with the figures.
"""

import importlib
import json
import os
import resource
import sys
import threading
import time
from functools import partial
from typing import Any

rocketmq: Any = importlib.import_module("rocketmq")

WAIT_S = 60.0


class Sender:
    """Counts what was acknowledged: all of it, and that of the measured window."""

    def __init__(self, producer: Any, topic: str, size: int) -> None:
        self._producer = producer
        self._topic = topic
        self._body = b"x" * size
        self._lock = threading.Lock()
        self.measures = False
        self.stops = False
        self.acknowledged = 0
        self.failed = 0
        self.errors: list[str] = []
        self.latencies_ms: list[float] = []

    def send_in_turn(self) -> None:
        """One after the other, until it stops."""
        while not self.stops:
            began = time.perf_counter()
            try:
                self._producer.send(self._message())
            except Exception as error:
                self._note(began, error)
            else:
                self._note(began, None)

    def send_ahead(self, in_flight: int) -> None:
        """So many at once, until it stops and all are answered."""
        free = threading.Semaphore(in_flight)

        def done(began: float, future: Any) -> None:
            self._note(began, future.exception())
            free.release()

        while not self.stops:
            free.acquire()
            began = time.perf_counter()
            future = self._producer.send_async(self._message())
            future.add_done_callback(partial(done, began))
        for _ in range(in_flight):
            free.acquire(timeout=WAIT_S)

    def _message(self) -> Any:
        message = rocketmq.Message()
        message.topic = self._topic
        message.body = self._body
        return message

    def _note(self, began: float, error: BaseException | None) -> None:
        took_ms = (time.perf_counter() - began) * 1000
        with self._lock:
            if error is not None:
                self.failed += 1
                self.errors = [*self.errors, repr(error)][-3:]
                return
            self.acknowledged += 1
            if self.measures:
                self.latencies_ms.append(took_ms)


def tell(**what: Any) -> None:
    print(json.dumps(what), flush=True)


def main(wanted: dict[str, Any]) -> None:
    credentials = rocketmq.Credentials("", "")
    config = rocketmq.ClientConfiguration(
        wanted["endpoints"], credentials, "", request_timeout=30
    )
    producer = rocketmq.Producer(config, [wanted["topic"]])
    producer.startup()
    sender = Sender(producer, wanted["topic"], wanted["size"])
    if wanted["in_flight"]:
        works = [lambda: sender.send_ahead(wanted["in_flight"])]
    else:
        works = [sender.send_in_turn] * wanted["threads"]
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    time.sleep(wanted["warmup_s"])
    tell(window="begins")
    began, began_cpu_s = time.perf_counter(), _cpu_s()
    sender.measures = True
    time.sleep(wanted["seconds"])
    sender.measures = False
    window_s, cpu_s = time.perf_counter() - began, _cpu_s() - began_cpu_s
    tell(window="ends")
    sender.stops = True
    for thread in threads:
        thread.join(WAIT_S)
    tell(
        acknowledged=sender.acknowledged,
        failed=sender.failed,
        errors=sender.errors,
        window_s=window_s,
        cpu_s=cpu_s,
        latencies_ms=sender.latencies_ms,
    )
    os._exit(0)  # the client's threads do not end by themselves


def _cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
