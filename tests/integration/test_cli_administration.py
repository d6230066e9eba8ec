"""Topics, consumer groups and producer groups by command: listed, made, set up."""

import json
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from typer.testing import CliRunner, Result

import halfpast
from halfpast_api.cli import app


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with halfpast.embedded() as mq:
        yield mq.url


@pytest.fixture
def name() -> str:
    return f"n{uuid4().hex}"


def run(server: str, *words: str) -> Result:
    return CliRunner().invoke(app, [*words, "--server", server])


def answers(server: str, *words: str) -> list[Any]:
    done = run(server, *words, "--json")
    assert done.exit_code == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_topics_are_made_and_listed(server: str, name: str) -> None:
    options = ("--queues", "2", "--max-delay", "2d", "--description", "ours")
    (made,) = answers(server, "topic", "create", name, *options)
    assert (made["name"], made["queues"], made["description"]) == (name, 2, "ours")
    assert made["max_delay_ms"] == 2 * 86_400_000
    answers(server, "publish", name, "1", "--delay", "1h")
    answers(server, "topic", "pause", name)
    found = {it["name"]: it for it in answers(server, "topic", "list")}
    assert (found[name]["pending"], found[name]["paused"]) == (1, True)
    (line,) = (
        it for it in run(server, "topic", "list").stdout.splitlines() if name in it
    )
    assert line.split() == [name, "2", "1", "paused"]
    again = run(server, "topic", "create", name)
    assert again.exit_code == 1
    assert "topic_exists" in again.stderr


def test_groups_are_listed(server: str, name: str) -> None:
    answers(server, "publish", name, "1")
    answers(server, "pop", name, name)
    answers(server, "group", "set", name, "--max-attempts", "3")
    found = {it["name"]: it for it in answers(server, "group", "list")}
    assert found[name]["max_attempts"] == 3
    assert name in run(server, "group", "list").stdout
    assert len(answers(server, "group", "list", "--max", "1")) == 1


def test_producer_groups_are_set_up_changed_and_reset(server: str, name: str) -> None:
    group = "producer-groups"
    assert name not in run(server, group, "list").stdout
    url = "http://localhost:9/checks"
    (made,) = answers(server, group, "set", name, "--check-url", url)
    (secret,) = made["check_secrets"]
    assert secret.startswith("whsec_")
    (changed,) = answers(server, group, "set", name, "--check-after", "10s")
    assert (changed["check_url"], changed["check_after_ms"]) == (url, 10_000)
    assert changed["check_secrets"] == 1
    shown = run(server, group, "show", name).stdout
    assert url in shown
    assert secret not in shown
    assert name in run(server, group, "list").stdout
    assert [it["name"] for it in answers(server, group, "list")] == [name]
    assert answers(server, group, "delete", name)[0]["outcome"] == "deleted"
    assert run(server, group, "show", name).exit_code == 1
    assert answers(server, group, "list") == []


def test_wrong_use_is_told(server: str, name: str) -> None:
    nothing = run(server, "producer-groups", "set", name)
    assert nothing.exit_code == 2
    assert "--check-after" in nothing.stderr
    assert run(server, "topic", "create", name, "--max-delay", "soon").exit_code == 2
    assert run(server, "topic", "create", "a b").exit_code == 1
