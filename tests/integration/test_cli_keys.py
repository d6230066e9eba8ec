"""Keys from the command line: the first one without a server, then by asking it."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.integration.cli_process import Suite, halfpast
from typer.testing import CliRunner

from halfpast_api.cli import app
from halfpast_api.cli_credentials import hoisted


@pytest.fixture(autouse=True)
def without_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HALFPAST_API_KEY", "HALFPAST_URL", "HALFPAST_NAMESPACE"):
        monkeypatch.delenv(name, raising=False)


class Desk:
    """Commands with a data folder, or with a server and a key."""

    def __init__(self, folder: Path, server: str = "", key: str = "") -> None:
        self.folder = folder
        self.server = server
        self.key = key

    def run(self, *words: str) -> tuple[int, Any, str]:
        """The status, what was printed as JSON (the last line), and the errors."""
        more = [] if self.server else ["--data", str(self.folder)]
        environment = {
            "HALFPAST_API_KEY": self.key or None,
            "HALFPAST_URL": self.server or None,
        }
        done = CliRunner().invoke(app, [*words, *more, "--json"], env=environment)
        os.environ.pop("HALFPAST_API_KEY", None)  # --api-key has left it there
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        return done.exit_code, lines[-1] if lines else None, done.stderr

    def done(self, *words: str) -> Any:
        status, printed, errors = self.run(*words)
        assert status == 0, errors
        return printed


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Desk, Desk]]:
    folder = tmp_path_factory.mktemp("keys")
    local = Desk(folder)
    first = local.done("keys", "create", "--admin", "--description", "first")
    with Suite("dev", folder, "--port", "0", "--auth", "keys") as suite:
        yield local, Desk(folder, suite.wait_ready().address, first["secret"])


def test_strangers_are_refused_and_told_what_to_do(place: tuple[Desk, Desk]) -> None:
    _, remote = place
    status, _, errors = Desk(remote.folder, remote.server).run("list")
    assert status == 1
    told = json.loads(errors)
    assert told["code"] == "unauthenticated"
    assert "HALFPAST_API_KEY" in told["hint"]


def test_the_first_key_lets_in(place: tuple[Desk, Desk]) -> None:
    _, remote = place
    who = remote.done("whoami")
    assert (who["role"], who["all_namespaces"], who["mode"]) == ("admin", True, "keys")
    key = remote.key
    stranger = Desk(remote.folder, remote.server)
    assert stranger.done("whoami", "--api-key", key)["actor"] == who["actor"]
    assert stranger.done("--api-key", key, "whoami")["actor"] == who["actor"]


def test_keys_from_making_to_revoking(place: tuple[Desk, Desk]) -> None:
    for desk in place:
        made = desk.done(
            *("keys", "create", "--scope", "publish:orders-*", "--scope", "consume"),
            *("--expires-in", "30d", "--description", "shop"),
        )
        assert made["scopes"] == ["publish:orders-*", "consume"]
        assert made["expires_at"]
        shown = desk.done("keys", "show", made["id"])
        assert "secret" not in shown
        assert shown["description"] == "shop"
        rotated = desk.done("keys", "rotate", made["id"], "--keep-old", "1h")
        assert rotated["secret"] != made["secret"]
        assert len(rotated["secrets"]) == 2
        assert desk.done("keys", "revoke", made["id"])["state"] == "revoked"
        status, _, errors = desk.run("keys", "rotate", made["id"])
        assert status == 1
        assert "revoked" in errors
        assert desk.done("keys", "list")["id"]
        for secret in (made["secret"], rotated["secret"]):
            assert secret not in errors


def test_keys_that_sign(place: tuple[Desk, Desk]) -> None:
    for desk in place:
        made = desk.done("keys", "create", "--scope", "publish", "--signing")
        assert made["signing_secret"].startswith(f"hps_{made['id']}_")
        new = desk.done("keys", "rotate-signing", made["id"], "--keep-old", "0s")
        assert new["signing_secret"] != made["signing_secret"]
        assert len(new["signing_secrets"]) == 1
        after = desk.done("keys", "drop-signing", made["id"])
        assert after["signing_secrets"] == []
    shown = CliRunner().invoke(
        app,
        ["keys", "create", "--role", "operator", "--signing"],
        env={"HALFPAST_DATA": str(place[0].folder)},
    )
    words = shown.stdout.split()
    at = words.index("access")
    assert f"hps_{words[at + 2]}_" in words[words.index("secret", at) + 2]


def test_what_is_done_on_the_machine_itself_is_on_record(
    place: tuple[Desk, Desk],
) -> None:
    local, remote = place
    made = local.done("keys", "create", "--role", "read-only")
    act = remote.done("trail", "list", "--object", made["id"])
    assert act["actor"].startswith("local:")
    assert act["action"] == "POST /v1/keys"
    file = remote.folder / "trail.ndjson"
    told = remote.done("trail", "export", str(file))
    lines = file.read_text().splitlines()
    assert len(lines) == told["entries"] > 0
    assert made["id"] in {json.loads(line)["object"] for line in lines}
    assert made["secret"] not in file.read_text()


def test_namespaces(place: tuple[Desk, Desk]) -> None:
    _, remote = place
    assert remote.done("namespaces", "create", "acme", "--description", "A")["name"]
    assert remote.done("namespaces", "list")["name"] == "acme"
    key = remote.done("keys", "create", "--role", "operator", "--namespace", "acme")
    tenant = Desk(remote.folder, remote.server, key["secret"])
    assert tenant.done("whoami")["namespace"] == "acme"
    assert tenant.done("publish", "orders", "{}")["topic"] == "orders"
    status, _, errors = tenant.run("namespaces", "suspend", "acme")
    assert (status, json.loads(errors)["code"]) == (1, "forbidden")
    assert remote.done("namespaces", "suspend", "acme")["suspended"] is True
    status, _, errors = tenant.run("list")
    assert (status, json.loads(errors)["code"]) == (1, "namespace_suspended")
    assert remote.done("namespaces", "resume", "acme")["suspended"] is False
    assert remote.run("namespaces", "delete", "acme")[0] == 1


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("keys", "create"), "--role operator"),
        (("keys", "create", "--admin", "--role", "operator"), "--admin"),
        (("keys", "create", "--scope", "fly"), "begin with one of"),
        (("keys", "create", "--role", "king"), "must be one of"),
        (
            ("keys", "create", "--role", "admin", "--namespace", "x"),
            "namespaces create",
        ),
        (("keys", "create", "--role", "admin", "--expires-in", "soon"), "30m"),
        (("keys", "show", "00000000"), "keys list"),
    ],
)
def test_mistakes_are_told(tmp_path: Path, words: tuple[str, ...], hint: str) -> None:
    status, _, errors = Desk(tmp_path).run(*words)
    assert status in (1, 2)
    assert hint in errors


def test_a_server_for_others_needs_a_key(tmp_path: Path) -> None:
    refused = halfpast("dev", "--host", "0.0.0.0", "--data", str(tmp_path))
    assert refused.returncode == 2
    assert "halfpast keys create --admin" in refused.stderr
    key = Desk(tmp_path).done("keys", "create", "--admin")["secret"]
    with Suite("dev", tmp_path, "--host", "0.0.0.0", "--port", "0") as suite:
        port = suite.wait_ready().address.rpartition(":")[2]
        server = f"http://127.0.0.1:{port}"
        assert Desk(tmp_path, server).run("list")[0] == 1
        assert Desk(tmp_path, server, key).run("list")[0] == 0


def test_up_asks_as_soon_as_there_is_a_key(tmp_path: Path) -> None:
    local = Desk(tmp_path)
    first = local.done("keys", "create", "--admin")
    with Suite("up", tmp_path, "--port", "0") as suite:
        server = suite.wait_ready().address
        assert Desk(tmp_path, server).run("list")[0] == 1
        assert Desk(tmp_path, server, first["secret"]).run("list")[0] == 0


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["list"], ["list"]),
        (["list", "--api-key", "k", "--json"], ["--api-key", "k", "list", "--json"]),
        (["list", "--api-key=k"], ["--api-key=k", "list"]),
        (
            ["publish", "t", "--", "--api-key", "k"],
            ["publish", "t", "--", "--api-key", "k"],
        ),
        (["list", "--api-key"], ["list", "--api-key"]),
    ],
)
def test_the_option_may_stand_anywhere(words: list[str], expected: list[str]) -> None:
    assert hoisted(words) == expected
