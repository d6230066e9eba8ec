"""The commands about endpoints and dead letters against a real server."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from uuid import uuid4

import pytest
from tests.integration.cli_process import Suite, until
from typer.testing import CliRunner, Result

from halfpast_api.cli import app


class Hook(BaseHTTPRequestHandler):
    """Answers /ok with 200, and all else with 500."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200 if self.path == "/ok" else 500)
        self.end_headers()
        self.wfile.write(b"hello")

    def log_message(self, format: str, *args: Any) -> None:
        """Nobody reads it."""


@pytest.fixture(scope="module")
def hook() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hook)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Suite]:
    with Suite("dev", tmp_path_factory.mktemp("data"), "--port", "0") as suite:
        yield suite


@pytest.fixture
def name() -> str:
    return f"e{uuid4().hex}"


def run(suite: Suite, *words: str) -> Result:
    """One command, in this process."""
    return CliRunner().invoke(app, [*words, "--server", suite.address])


def answers(suite: Suite, *words: str) -> list[Any]:
    """The JSON objects that a command prints, one a line."""
    done = run(suite, *words, "--json")
    assert done.exit_code == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def answer(suite: Suite, *words: str) -> Any:
    (found,) = answers(suite, *words)
    return found


def test_an_endpoint_from_its_making_to_its_end(
    suite: Suite, hook: str, name: str
) -> None:
    added = run(
        *(suite, "endpoints", "add", name, f"{hook}/ok", "--topic", name),
        *("--tag", "paid", "--property", "region=eu", "--property", "region=us"),
        *("--retry-after", "2s", "--rate", "100"),
    )
    assert added.exit_code == 0, added.stderr
    assert "secret       whsec_" in added.stdout
    assert f"halfpast endpoints test {name}" in added.stderr
    shown = run(suite, "endpoints", "show", name).stdout
    assert "filter       tag paid, region = eu or us" in shown
    assert "after 2s" in shown
    assert name in run(suite, "endpoints", "list").stdout
    tested = run(suite, "endpoints", "test", name)
    assert tested.stdout.startswith("delivered  http 200")
    assert "response   hello" in tested.stdout
    changed = answer(
        suite, "endpoints", "update", name, "--unfiltered", "--concurrency", "3"
    )
    assert (changed["filter"], changed["concurrency"]) == (None, 3)
    assert changed["rate_per_s"] == 100
    assert answer(suite, "endpoints", "pause", name, "--reason", "no")["reason"] == "no"
    assert "paused  (no)" in run(suite, "endpoints", "show", name).stdout
    assert answer(suite, "endpoints", "resume", name)["state"] == "enabled"
    rotated = run(suite, "endpoints", "rotate-secret", name)
    assert "whsec_" in rotated.stdout
    assert answer(suite, "endpoints", "rotate-secret", name, "--finish")["secrets"] == 1
    answer(suite, "publish", name, "1")
    until(lambda: len(answers(suite, "endpoints", "attempts", name)) >= 2)
    assert "delivered" in run(suite, "endpoints", "attempts", name).stdout
    assert answer(suite, "endpoints", "delete", name)["outcome"] == "deleted"
    gone = run(suite, "endpoints", "show", name)
    assert gone.exit_code == 1
    assert "there is no endpoint" in gone.stderr


def test_dead_letters_are_listed_redriven_and_discarded(
    suite: Suite, hook: str, name: str
) -> None:
    answer(
        *(suite, "endpoints", "add", name, f"{hook}/bad", "--topic", name),
        *("--max-attempts", "1"),
    )
    for number in range(3):
        answer(suite, "publish", name, str(number), "--key", f"k{number}")
    mine = ("--endpoint", name)
    until(lambda: len(answers(suite, "dead-letters", "list", *mine)) == 3)
    assert "http 500" in run(suite, "dead-letters", "list", *mine).stdout
    counted = answers(suite, "dead-letters", "list")
    assert [it["dead_letters"] for it in counted if it["endpoint"] == name] == [3]
    answer(suite, "endpoints", "update", name, "--url", f"{hook}/ok")
    dry = answer(suite, "dead-letters", "redrive", *mine, "--all", "--dry-run")
    assert (dry["matched"], dry["changed"]) == (3, 0)
    done = run(suite, "dead-letters", "redrive", *mine, "--key", "k1")
    assert done.stdout.startswith("done       redrive  1 of 1")
    done = run(suite, "dead-letters", "discard", *mine, "--all")
    assert done.stdout.startswith("done       discard  2 of 2")
    assert answers(suite, "dead-letters", "list", *mine) == []


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("endpoints", "add", "x", "https://x.example"), "--topic"),
        (("endpoints", "update", "x"), "--concurrency"),
        (("dead-letters", "redrive", "--all"), "dead-letters list"),
        (("dead-letters", "redrive", "--endpoint", "x"), "--dry-run"),
        (("dead-letters", "list", "--endpoint", "x", "--delayed"), "list"),
    ],
)
def test_mistakes_are_told_with_what_to_try(
    suite: Suite, words: tuple[str, ...], hint: str
) -> None:
    done = run(suite, *words)
    assert done.exit_code == 2
    assert hint in done.stderr
