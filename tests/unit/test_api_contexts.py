"""Which server a command calls, and that no key goes to another one than its own."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from halfpast_api.contexts import (
    API_KEY,
    CONTEXT,
    NAMESPACE,
    URL,
    Context,
    ContextError,
    Contexts,
    contexts_path,
    environment_of,
    load,
    save,
)

PROD = Context("https://prod.example.org", "hp_prod", "acme")
OPEN = Context("http://127.0.0.1:7080")
KNOWN = Contexts("prod", {"prod": PROD, "open": OPEN})
ALL_OF_PROD = {URL: PROD.server, API_KEY: PROD.api_key, NAMESPACE: PROD.namespace}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "halfpast" / "contexts.json"
    save(found, KNOWN)
    return found


def added(
    path: Path,
    asked: str | None = None,
    environment: Mapping[str, str] = {},
    *,
    server: bool = False,
) -> dict[str, str]:
    return environment_of(asked, has_server=server, environment=environment, path=path)


def test_the_one_in_use_counts(path: Path) -> None:
    assert added(path) == ALL_OF_PROD


def test_a_server_on_the_command_line_gets_nothing_of_a_context(path: Path) -> None:
    assert added(path, server=True) == {}
    assert added(path, None, {CONTEXT: "prod"}, server=True) == {}
    with pytest.raises(ContextError, match="both name a server"):
        added(path, "prod", server=True)


def test_a_server_in_the_environment_gets_nothing_of_one_either(path: Path) -> None:
    assert added(path, None, {URL: "http://other"}) == {}
    assert added(path, None, {URL: "http://other", CONTEXT: "prod"}) == {}


def test_one_that_is_asked_for_goes_before_the_environment(path: Path) -> None:
    environment = {URL: "http://other", API_KEY: "hp_other", CONTEXT: "open"}
    assert added(path, "prod", environment) == ALL_OF_PROD


def test_one_that_the_environment_names_goes_before_the_one_in_use(path: Path) -> None:
    assert added(path, None, {CONTEXT: "open"}) == {URL: OPEN.server, NAMESPACE: ""}


def test_a_key_in_the_environment_goes_before_that_of_the_one_in_use(
    path: Path,
) -> None:
    found = added(path, None, {API_KEY: "hp_mine", NAMESPACE: "mine"})
    assert found == {URL: PROD.server}


def test_none_in_use_changes_nothing(path: Path, tmp_path: Path) -> None:
    save(path, Contexts("", KNOWN.contexts))
    assert added(path) == {}
    assert added(tmp_path / "none.json") == {}


def test_an_unknown_one_is_told_with_those_that_there_are(path: Path) -> None:
    with pytest.raises(ContextError, match="open, prod") as refused:
        added(path, "staging")
    assert "halfpast context add staging" in refused.value.hint


def test_only_the_owner_may_read_the_file(path: Path) -> None:
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    path.chmod(0o644)
    save(path, KNOWN)
    assert path.stat().st_mode & 0o777 == 0o600
    assert load(path) == KNOWN


def test_a_damaged_file_is_told(path: Path) -> None:
    path.write_text('{"contexts": []}')
    with pytest.raises(ContextError, match="cannot be read"):
        load(path)


def test_a_key_is_shown_in_part() -> None:
    shown = Context("http://x", "hp_01234567_secretsecret").shown_key
    assert "secret" not in shown
    assert shown.startswith("hp_")
    assert OPEN.shown_key == ""


@pytest.mark.parametrize(
    ("base", "folder"),
    [
        ("/etc/me", "/etc/me"),
        ("", "/people/ada/.config"),
        ("no/root", "/people/ada/.config"),
    ],
)
def test_where_the_file_is(
    base: str, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/people/ada")
    path = contexts_path({"XDG_CONFIG_HOME": base})
    assert path == Path(folder) / "halfpast" / "contexts.json"
