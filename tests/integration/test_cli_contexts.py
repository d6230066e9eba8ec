"""Servers by name, on the command line."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import halfpast
from halfpast_api.cli import app
from halfpast_api.cli_credentials import hoisted

KEY = "hp_0123456789abcdef_secretsecretsecret"


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with halfpast.embedded() as mq:
        mq.client.publish("hello", 1)
        yield mq.url


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Contexts of our own. What commands put into the environment is undone."""
    for name in ("URL", "API_KEY", "NAMESPACE", "CONTEXT"):
        monkeypatch.setenv(f"HALFPAST_{name}", "")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path


def run(*words: str, typed: str = "") -> Result:
    before = dict(os.environ)
    try:
        return CliRunner().invoke(app, [*words], input=typed)
    finally:
        os.environ.clear()
        os.environ.update(before)


def ok(*words: str, typed: str = "") -> str:
    done = run(*words, typed=typed)
    assert done.exit_code == 0, done.stderr
    return done.stdout


def test_one_is_added_used_shown_and_removed(server: str) -> None:
    ok("context", "add", "here", server)
    assert ok("list", "--context", "here", "--json") == ""
    ok("context", "use", "here")
    assert json.loads(ok("topic", "show", "hello", "--json"))["name"] == "hello"
    shown = json.loads(ok("context", "show", "--json"))
    assert shown == {
        "name": "here",
        "server": server,
        "namespace": "",
        "key": "",
        "current": True,
    }
    assert ok("context", "list").splitlines()[1].startswith("*  here")
    ok("context", "use", "--none")
    assert run("context", "show").exit_code == 2
    ok("context", "remove", "here")
    gone = run("list", "--context", "here")
    assert gone.exit_code == 2
    assert "halfpast context add here" in gone.stderr


def test_keys_are_kept_for_the_owner_and_shown_in_part(home: Path) -> None:
    ok("context", "add", "prod", "https://prod.example.org", "--ask-key", typed=KEY)
    ok("context", "add", "staging", "https://staging.example.org", "--api-key", KEY)
    file = home / "halfpast" / "contexts.json"
    assert file.stat().st_mode & 0o777 == 0o600
    kept = json.loads(file.read_text())["contexts"]
    assert {it["api_key"] for it in kept.values()} == {KEY}
    for words in (["list"], ["show", "prod"], ["list", "--json"], ["use", "prod"]):
        said = ok("context", *words)
        assert "secret" not in said
        assert "prod" in said


def test_one_of_the_same_name_is_not_lost_by_mistake() -> None:
    ok("context", "add", "prod", "https://one.example.org", "--use")
    refused = run("context", "add", "prod", "https://two.example.org")
    assert refused.exit_code == 2
    assert "--replace" in refused.stderr
    ok("context", "add", "prod", "https://two.example.org", "--replace")
    assert "two.example.org  (in use)" in ok("context", "show")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["context", "add", "a b", "http://x"], "cannot name a context"),
        (["context", "add", "x", "prod.example.org"], "http://127.0.0.1:7080"),
        (["context", "add", "x", "http://x", "--api-key", "a b"], "API key"),
        (["context", "use"], "--none"),
        (["context", "use", "nobody"], "halfpast context add nobody"),
        (["context", "remove", "nobody"], "none so far"),
        (["list", "--context", "nobody", "--server", "http://x"], "--server"),
    ],
)
def test_wrong_use_is_told(words: list[str], said: str, home: Path) -> None:
    done = run(*words)
    assert done.exit_code == 2
    assert said in done.stderr
    assert not (home / "halfpast").exists()


def test_a_damaged_file_stops_nothing_that_needs_no_server(home: Path) -> None:
    (home / "halfpast").mkdir()
    (home / "halfpast" / "contexts.json").write_text("{")
    assert run("list").exit_code == 2
    assert "halfpast" in ok("version")
    assert "_HALFPAST_COMPLETE" in ok("completion", "bash")


def test_the_environment_is_told_to_count_first(
    server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ok("context", "add", "away", "http://127.0.0.1:9", "--use")
    monkeypatch.setenv("HALFPAST_URL", server)
    assert json.loads(ok("topic", "show", "hello", "--json"))["name"] == "hello"
    assert "HALFPAST_URL is set" in run("context", "list").stderr
    monkeypatch.setenv("HALFPAST_URL", "")
    assert run("topic", "show", "hello").exit_code == 69


def test_the_option_may_stand_anywhere() -> None:
    assert hoisted(["list", "--context", "x"]) == ["--context", "x", "list"]
    assert hoisted(["list", "--context=x"]) == ["--context=x", "list"]
