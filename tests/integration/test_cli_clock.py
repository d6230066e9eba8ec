"""`halfpast dev --clock virtual` and `halfpast clock`, as people type them."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.integration.cli_process import Suite, halfpast
from typer.testing import CliRunner, Result

from halfpast_api.cli import app
from halfpast_api.cli_serving import announce

VIRTUAL = ("--port", "0", "--clock", "virtual", "--at", "2026-01-01T00:00Z")


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Suite]:
    with Suite("dev", tmp_path_factory.mktemp("data") / "data", *VIRTUAL) as suite:
        yield suite


def run(suite: Suite, *words: str) -> Result:
    return CliRunner().invoke(app, [*words, "--server", suite.address])


def answer(suite: Suite, *words: str) -> Any:
    done = run(suite, *words, "--json")
    assert done.exit_code == 0, done.stderr
    return json.loads(done.stdout)


def test_it_is_shown_and_moved(suite: Suite) -> None:
    assert suite.ready["clock"] == "virtual"
    assert answer(suite, "clock", "show") == {"now": "2026-01-01T00:00:00.000Z"}
    event = answer(suite, "publish", "hello", "1", "--delay", "30m")["id"]
    moved = answer(suite, "clock", "advance", "30m")
    assert moved == {"now": "2026-01-01T00:30:00.000Z", "moved_ms": 1_800_000}
    found = answer(suite, "get", event)
    assert (found["state"], found["lateness_ms"]) == ("delivered", 0)
    assert "moved by 30 min" in run(suite, "clock", "advance", "1800s").stdout
    set_to = run(suite, "clock", "set", "2026-02-01T00:00Z")
    assert set_to.stdout.startswith("2026-02-01 00:00:00.000Z")
    assert run(suite, "clock", "show").stdout == "2026-02-01 00:00:00.000Z\n"


def test_it_never_goes_back(suite: Suite) -> None:
    done = run(suite, "clock", "set", "2025-01-01T00:00Z")
    assert done.exit_code == 1
    assert "halfpast clock show" in done.stderr
    assert run(suite, "clock", "advance", "soon").exit_code == 2


def test_a_restart_goes_on_where_it_stood(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with Suite("dev", data, *VIRTUAL) as suite:
        event = answer(suite, "publish", "hello", "1", "--delay", "2d")["id"]
        answer(suite, "clock", "advance", "1d")
    with Suite("dev", data, "--port", "0", HALFPAST_CLOCK="virtual") as suite:
        assert answer(suite, "clock", "show") == {"now": "2026-01-02T00:00:00.000Z"}
        assert answer(suite, "get", event)["state"] == "scheduled"
        answer(suite, "clock", "advance", "1d")
        assert answer(suite, "get", event)["state"] == "delivered"
    for mode in ("dev", "up"):
        refused = halfpast(mode, "--data", str(data))
        assert refused.returncode == 78, refused.stderr
        assert "lives by a virtual clock" in refused.stderr
    back = halfpast("dev", "--data", str(data), *VIRTUAL)
    assert back.returncode == 78
    assert "2026-01-03T00:00:00.000Z already" in back.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["up", "--clock", "virtual"], "one process"),
        (["dev", "--clock", "virtual", "--host", "0.0.0.0"], "open to others"),
        (["dev", "--clock", "sundial"], "is not known"),
        (["dev", "--at", "2026-01-01T00:00Z"], "--clock virtual"),
        (["dev", "--clock", "virtual", "--at", "yesterday"], "is not a time"),
        (["dev", "--clock", "virtual", "--at", "2026-01-01T00:00"], "time zone"),
        (["dev", "--clock", "virtual", "--at", "1969-01-01T00:00Z"], "1970"),
    ],
)
def test_what_it_is_not_for_is_refused(
    words: list[str], said: str, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    done: subprocess.CompletedProcess[str] = halfpast(*words, "--data", str(data))
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert not data.exists()


def test_the_banner_is_not_to_be_overlooked(
    capsys: pytest.CaptureFixture[str],
) -> None:
    address, data = "http://127.0.0.1:7080", Path(".halfpast-virtual")
    clock = "VIRTUAL CLOCK: time stands still"
    announce(address, data, "note", as_json=False, clock=clock)
    said = capsys.readouterr().out
    assert f"*** {clock} ***" in said
    assert "halfpast clock advance 5s" in said
    announce(address, data, "note", as_json=False)
    assert "clock" not in capsys.readouterr().out.lower()
