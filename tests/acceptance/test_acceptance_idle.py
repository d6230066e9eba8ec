"""Ten thousand connections that do nothing cost little, and stop nobody."""

import resource
import selectors
import socket
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from tests.integration.cli_process import Suite

from halfpast import SyncClient

COUNT = 10_000
SPARE = 500  # of this process's files, for everything else
PER_ADDRESS = 4_000  # a server takes 5,000 from one address
BYTES_EACH_MAX = 24_000
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


def raised_limit() -> int:
    """How many files this process may have open, as many as it can get."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def resident_bytes(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * resource.getpagesize()


@contextmanager
def idle_connections(port: int, count: int) -> Generator[list[socket.socket]]:
    """Connections that have been used once, from several addresses of this host."""
    lines: list[socket.socket] = []
    try:
        for number in range(count):
            line = socket.socket()
            lines.append(line)
            line.bind((f"127.0.1.{1 + number // PER_ADDRESS}", 0))
            line.connect(("127.0.0.1", port))
            line.sendall(HEALTH)
        for line in lines:
            assert line.recv(4096).startswith(b"HTTP/1.1 200 ")
        yield lines
    finally:
        for line in lines:
            line.close()


def closed(lines: list[socket.socket]) -> int:
    """On how many the server has hung up."""
    with selectors.DefaultSelector() as selector:
        for line in lines:
            selector.register(line, selectors.EVENT_READ)
        return len(selector.select(0))


def test_idle_connections_cost_little_and_stop_nobody(tmp_path: Path) -> None:
    count = min(COUNT - 10, raised_limit() - SPARE)  # 10 for those who work
    server = Suite("dev", tmp_path / "data", "--port", "0")
    try:
        server.wait_ready()
        port = urlsplit(server.address).port
        assert port is not None
        with SyncClient(server.address) as client:
            client.publish("orders", {"before": 1})
            before = resident_bytes(server.pid)
            with idle_connections(port, count) as lines:
                grown = resident_bytes(server.pid) - before
                assert grown < count * BYTES_EACH_MAX
                for number in range(20):
                    client.publish("orders", {"meanwhile": number})
                assert client.pop("billing", "orders", max_messages=100)
                assert closed(lines) == 0
            client.publish("orders", {"after": 1})
    finally:
        assert server.stop() == 0
