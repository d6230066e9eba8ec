"""`halfpast limits` as an operator types it."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.integration.cli_process import Suite, halfpast


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    suite = Suite("dev", tmp_path_factory.mktemp("limits") / "data", "--port", "0")
    try:
        yield suite.wait_ready().address
    finally:
        suite.stop()


def run(server: str, *words: str) -> str:
    done = halfpast("limits", *words, server=server)
    assert done.returncode == 0, done.stderr
    return done.stdout


def shown(server: str, *words: str) -> Any:
    return json.loads(run(server, *words, "--json"))


def test_limits_are_set_step_by_step_and_cleared(server: str) -> None:
    assert "halfpast limits set every-key" in run(server, "list")
    first = run(server, "set", "every-key", "--requests-per-s", "0.5")
    assert "0.5" in first
    shown(server, "set", "every-key", "--max-delay", "30d", "--request-burst", "7")
    found = shown(server, "show", "every-key")
    assert found["requests_per_s"] == 0.5
    assert found["request_burst"] == 7
    assert found["max_delay_ms"] == 30 * 86_400_000
    assert "30 d" in run(server, "list")
    found = shown(server, "set", "every-key", "--requests-per-s", "0")
    assert (found["requests_per_s"], found["request_burst"]) == (0, None)
    run(server, "clear", "every-key")
    missing = halfpast("limits", "show", "every-key", server=server)
    assert missing.returncode != 0
    assert "no limits of its own" in missing.stderr


def test_ones_own_limits_and_what_is_used_of_them(server: str) -> None:
    assert "no limits but the server's own" in run(server, "show")
    run(server, "set", "default-namespace", "--requests-per-s", "100")
    own = shown(server, "show")
    assert own["limits"][0]["subject"] == "default-namespace"
    assert own["limits"][0]["request_burst"] == 200
    assert own["server"]["batch_events"] == 10_000
    assert "default-namespace" in run(server, "show")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["set", "every-key"], "halfpast limits set every-key --requests-per-s 100"),
        (["set", "everybody", "--requests-per-s", "1"], "every-namespace"),
        (["set", "every-key", "--max-delay", "soon"], "not a span of time"),
        (["set", "key:aaaaaaaa", "--bytes-per-s", "1"], "halfpast keys list"),
    ],
)
def test_mistakes_are_told_with_what_to_do(
    server: str, words: list[str], said: str
) -> None:
    done = halfpast("limits", *words, server=server)
    assert done.returncode != 0
    assert said in done.stderr
