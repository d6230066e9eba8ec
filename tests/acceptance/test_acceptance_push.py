"""The push process is killed in the middle of deliveries, again and again."""

import json
import os
import signal
import threading
import urllib.request
from collections import Counter, defaultdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.integration.cli_process import Suite, children_of, until

COUNT = 400
KEYS = 6
KILLS = 3


class Hook(BaseHTTPRequestHandler):
    """Somebody else's server, which fails now and then."""

    protocol_version = "HTTP/1.1"
    seen: Counter[tuple[str, int]]
    order: dict[str, list[int]]
    lock: threading.Lock

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        key, number = body["event"]["key"], body["data"]
        with self.lock:
            self.seen[key, number] += 1
            is_bad = number % 7 == 3 and self.seen[key, number] == 1
            if not is_bad:
                self.order[key].append(number)
        self.send_response(503 if is_bad else 200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Nobody reads it."""


def call(address: str, method: str, target: str, body: object) -> Any:
    request = urllib.request.Request(
        address + target,
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
        method=method,
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def test_nothing_is_lost_and_keys_stay_in_order(tmp_path: Path) -> None:
    Hook.seen, Hook.order = Counter(), defaultdict(list)
    Hook.lock = threading.Lock()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hook)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_address[1]}/hook"
    environment = {"HALFPAST_PUSH_INVISIBLE_MS": "2000"}
    options = ("--port", "0", "--push-allow", "127.0.0.1")
    try:
        with Suite("up", tmp_path, *options, **environment) as suite:
            _run(suite, url)
    finally:
        server.shutdown()
        server.server_close()
    assert len(Hook.seen) == COUNT
    for key, numbers in Hook.order.items():
        first = list(dict.fromkeys(numbers))
        assert first == sorted(first), key


def _run(suite: Suite, url: str) -> None:
    endpoint = {
        "url": url,
        "topics": ["orders"],
        "ordering": "per_key",
        "retry": {"initial_ms": 200, "max_ms": 200},
    }
    call(suite.address, "PUT", "/v1/endpoints/crm", endpoint)
    events = [
        {"topic": "orders", "key": f"k{number % KEYS}", "data": number}
        for number in range(COUNT)
    ]
    call(suite.address, "POST", "/v1/events:batch", {"events": events})
    for kill in range(1, KILLS + 1):
        wanted = kill * COUNT // (KILLS + 2)
        until(lambda wanted=wanted: len(Hook.seen) >= wanted, 60)  # type: ignore[misc]
        os.kill(children_of(suite.pid)["push"], signal.SIGKILL)
    until(lambda: len(Hook.seen) == COUNT, 90)
    target = "/v1/groups/endpoint-crm/lag?topic=orders"
    until(lambda: _lag(suite.address + target) == 0, 60)


def _lag(target: str) -> int:
    with urllib.request.urlopen(target, timeout=30) as answer:
        lag: int = json.load(answer)["lag"]
        return lag
