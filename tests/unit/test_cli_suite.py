"""Which processes `up` runs, and with what."""

import errno
import socket
from pathlib import Path

import pytest

from halfpast_api import suite
from halfpast_api.cli_output import USAGE, CommandFailed
from halfpast_api.cli_serve_configs import read_allow
from halfpast_api.places import Places
from halfpast_api.suite import Entrance, run_suite, services
from halfpast_core_store.errors import FolderInUse
from halfpast_core_store.folder import FolderLock

PLACES = Places.below(Path("/d"), metadata="postgresql://user:secret@host/m")


def words_of(name: str, check_allow: str = "", push_allow: str = "") -> list[str]:
    found = services(PLACES, "127.0.0.1", 7080, check_allow, push_allow)
    (service,) = [each for each in found if each.name == name]
    assert service.nursed
    return list(service.command)


def option(words: list[str], name: str) -> str:
    return words[words.index(name) + 1]


def test_each_starts_after_those_it_needs() -> None:
    names = [service.name for service in services(PLACES, "127.0.0.1", 7080)]
    assert names == ["broker", "chronos", "txn", "push", "api"]


@pytest.mark.parametrize("name", ["broker", "chronos", "txn", "push", "api"])
def test_all_meet_at_the_same_places(name: str) -> None:
    words = words_of(name)
    assert words[0] == name
    assert option(words, "--data") == "/d"
    assert option(words, "--broker") == PLACES.broker
    if name in ("txn", "api"):
        assert option(words, "--txn") == PLACES.transactions
    if name in ("push", "api"):
        assert option(words, "--push") == PLACES.push


def test_the_allow_list_goes_to_those_who_need_it() -> None:
    for name in ("txn", "api"):
        assert option(words_of(name, "localhost"), "--check-allow") == "localhost"
        assert option(words_of(name), "--check-allow") == ""
    for name in ("push", "api"):
        assert option(words_of(name, "", "localhost"), "--push-allow") == "localhost"
        assert option(words_of(name), "--push-allow") == ""


def test_no_command_line_shows_a_password() -> None:
    found = services(PLACES, "127.0.0.1", 7080)
    assert not any("secret" in word for each in found for word in each.command)
    told = {each.name for each in found if "HALFPAST_METADATA" in each.environment}
    assert told == {"chronos", "txn", "push", "api"}


def test_a_folder_in_use_is_told_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suite, "PATIENCE_S", 0.0)
    lock = FolderLock(tmp_path, "txn")
    with pytest.raises(FolderInUse):
        run_suite(Places.below(tmp_path), Entrance(host="127.0.0.1", port=0), "", print)
    lock.close()


def test_a_port_in_use_is_told_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suite, "PATIENCE_S", 0.0)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        entrance = Entrance(host="127.0.0.1", port=taken.getsockname()[1])
        with pytest.raises(OSError, match="is in use") as caught:
            run_suite(Places.below(tmp_path), entrance, "", print)
    assert caught.value.errno == errno.EADDRINUSE


def test_an_allow_list_is_read_or_refused() -> None:
    assert read_allow("") == read_allow(" , ")
    assert read_allow("10.0.0.0/8").networks
    with pytest.raises(CommandFailed, match="--check-allow 'a b' cannot") as caught:
        read_allow("a b")
    assert caught.value.code == USAGE
    assert "--check-allow" in caught.value.hint
