"""A Halfpast that RocketMQ's clients can speak to, and HTTP beside it."""

import json
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.error import HTTPError
from urllib.parse import quote

from tests.integration.cli_process import Suite

from halfpast_loadtest.server_process import free_port

# Clients wait for the end of a poll before they stop.
QUICK = {"HALFPAST_API_GRPC_POLL_MS": "1000"}
PATIENCE_S = 30.0


class Refused(Exception):
    """An answer that is no success."""

    def __init__(self, status: int, problem: Any) -> None:
        super().__init__(status, problem)
        self.status = status
        self.problem = problem


class RocketmqServer:
    """`halfpast up` (or dev) with its gRPC front, on ports that stay the same through a
    restart."""

    def __init__(self, folder: Path, *options: str, mode: str = "up") -> None:
        self._folder = folder
        self._mode = mode
        self._port = free_port()
        self.endpoints = f"127.0.0.1:{free_port()}"
        self._options = ("--grpc", self.endpoints, "--port", str(self._port), *options)
        self.key = ""
        self.suite = self._suite()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def restart(self) -> None:
        """Start it again, after its end."""
        self.suite = self._suite()

    def call(self, method: str, path: str, body: object = None) -> Any:
        """One HTTP call; what it is answered. Raises Refused."""
        headers = {"Content-Type": "application/json"}
        if self.key:
            headers["Authorization"] = f"Bearer {self.key}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            self.address + quote(path, safe="/:?=&,"), data, headers, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
                return json.loads(answer.read() or b"null")
        except HTTPError as error:
            with error:
                raise Refused(error.code, json.loads(error.read())) from None

    def topic(self, name: str, queues: int = 4, **settings: Any) -> str:
        self.call("PUT", f"/v1/topics/{name}", {"queues": queues, **settings})
        return name

    def group(self, name: str, **settings: Any) -> str:
        self.call("PUT", f"/v1/groups/{name}", settings)
        return name

    def publish(self, topic: str, data: object, **more: Any) -> str:
        """The id of an event that is published over HTTP."""
        event_id: str = self.call(
            "POST", f"/v1/topics/{topic}/events", {"data": data, **more}
        )["id"]
        return event_id

    def pop(self, group: str, topic: str, count: int = 1) -> list[dict[str, Any]]:
        """So many messages over HTTP, acknowledged."""
        found: list[dict[str, Any]] = []
        deadline_s = time.monotonic() + PATIENCE_S
        wanted = {"topic": topic, "max": 32, "wait_ms": 2000, "invisible_ms": 60_000}
        while len(found) < count:
            assert time.monotonic() < deadline_s, (count, found)
            some = self._pop(group, wanted)
            if some:
                receipts = [message["receipt"] for message in some]
                self.call("POST", f"/v1/groups/{group}:ack", {"receipts": receipts})
            found += some
        return found

    def _pop(self, group: str, wanted: dict[str, Any]) -> list[dict[str, Any]]:
        try:
            found = self.call("POST", f"/v1/groups/{group}:pop", wanted)
        except Refused as refused:
            if refused.problem["code"] != "unknown_topic":
                raise
            time.sleep(0.05)  # the first dead letter makes it
            return []
        messages: list[dict[str, Any]] = found["messages"]
        return messages

    def until(self, path: str, is_so: Callable[[Any], bool]) -> Any:
        """What a GET answers, as soon as it is so."""
        deadline_s = time.monotonic() + PATIENCE_S
        while True:
            answer = self.call("GET", path)
            if is_so(answer):
                return answer
            assert time.monotonic() < deadline_s, answer
            time.sleep(0.05)

    def __enter__(self) -> Self:
        self.suite.wait_ready()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        status = self.suite.stop()
        assert status == 0 or kind is not None, (status, self.suite.lines)

    def _suite(self) -> Suite:
        return Suite(self._mode, self._folder, *self._options, **QUICK)
