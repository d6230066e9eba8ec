"""The commands about topics and dead letters against a real server."""

import json
import os
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from tests.integration.cli_process import Suite, until
from typer.testing import CliRunner, Result

from halfpast_api.cli import app

NOBODY = "00000000-0000-7000-8000-000000000000"
QUICK = {"ATTEMPTS_MAX": "2", "RETRY_INITIAL_MS": "20"}


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Suite]:
    before = dict(os.environ)
    os.environ.update({f"HALFPAST_CHRONOS_{n}": v for n, v in QUICK.items()})
    try:
        with Suite("dev", tmp_path_factory.mktemp("data"), "--port", "0") as suite:
            yield suite
    finally:
        os.environ.clear()
        os.environ.update(before)


@pytest.fixture
def topic() -> str:
    return f"t{uuid4().hex}"


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


def test_a_topic_is_paused_and_resumed(suite: Suite, topic: str) -> None:
    answer(suite, "publish", topic, "1", "--delay", "1h")
    assert answer(suite, "topic", "pause", topic)["paused"] is True
    shown = run(suite, "topic", "show", topic).stdout
    assert "paused       yes" in shown
    assert "state        paused" in shown
    assert "pending      1\n" in shown
    found = answer(suite, "topic", "resume", topic)
    assert found["paused"] is False
    assert found["release"]["state"] == "open"


def test_a_topic_is_slowed_down_bounded_and_closed(suite: Suite, topic: str) -> None:
    answer(suite, "publish", topic, "1")
    found = answer(suite, "topic", "set", topic, "--rate", "5", "--max-pending", "1")
    assert (found["release_rate_per_s"], found["max_pending"]) == (5, 1)
    answer(suite, "publish", topic, "1", "--delay", "1h")
    assert answer(suite, "topic", "set", topic, "--close")["accepting"] is False
    done = run(suite, "publish", topic, "1")
    assert done.exit_code == 1
    assert "takes no events" in done.stderr
    assert answer(suite, "topic", "set", topic, "--open")["accepting"] is True


def test_dead_letters_are_listed_and_redriven(suite: Suite, topic: str) -> None:
    answer(suite, "publish", topic, "0")
    answer(suite, "topic", "pause", topic)
    event = answer(suite, "publish", topic, "1", "--delay", "1ms")["id"]
    answer(suite, "topic", "set", topic, "--close")
    answer(suite, "topic", "resume", topic)
    until(lambda: answer(suite, "topic", "show", topic)["release"]["dead_letters"] == 1)
    (letter,) = answers(suite, "dead", "list", "--topic", topic)
    assert (letter["id"], letter["attempts"]) == (event, 2)
    table = run(suite, "dead-letters", "list", "--delayed").stdout
    assert event in table
    assert "topic_closed" in table
    answer(suite, "topic", "set", topic, "--open")
    redriven = answer(suite, "dead", "redrive", event)
    assert (redriven["state"], redriven["changed"]) == ("done", 1)
    until(lambda: answer(suite, "get", event)["state"] == "delivered")
    assert answers(suite, "dead", "list", "--topic", topic) == []


def test_wrong_usage_is_told(suite: Suite, topic: str) -> None:
    answer(suite, "publish", topic, "1")
    nothing = run(suite, "topic", "set", topic)
    assert nothing.exit_code == 2
    assert "--rate" in nothing.stderr
    refused = run(suite, "topic", "set", topic, "--rate", "-1")
    assert refused.exit_code == 1
    assert "release_rate_per_s" in refused.stderr
    unknown = run(suite, "topic", "pause", "nosuch")
    assert unknown.exit_code == 1
    assert "nosuch" in unknown.stderr
    nobody = answer(suite, "dead", "redrive", NOBODY)
    assert (nobody["state"], nobody["changed"]) == ("done", 0)
    empty = run(suite, "dead", "list", "--topic", topic)
    assert (empty.exit_code, empty.stdout) == (0, "")
