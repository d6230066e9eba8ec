"""txn/README.md leads through what is there."""

import re
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import pytest

from halfpast_api.metadata.settings import ProducerGroupSettings
from halfpast_api.metric_help import HELP
from halfpast_txn import keys
from halfpast_txn.check_call import call_body, call_headers
from halfpast_txn.producer_group import CheckEndpoint
from halfpast_txn.signature import secret_text
from halfpast_txn.transactions import Check

NOW_S = 1_795_168_806
SECRETS = (secret_text(bytes(range(32))), secret_text(bytes(range(1, 33))))


def readme(root: Path) -> str:
    return (root / "txn" / "README.md").read_text(encoding="utf-8")


def test_every_module_is_in_the_reading_order(repository_root: Path) -> None:
    text = readme(repository_root)
    folder = repository_root / "txn" / "halfpast_txn"
    modules = {path.name for path in folder.glob("*.py")}
    missing = {name for name in modules - {"__init__.py"} if f"`{name}`" not in text}
    assert not missing


def test_no_module_is_named_that_is_not_there(repository_root: Path) -> None:
    folder = repository_root / "txn" / "halfpast_txn"
    named = set(re.findall(r"`(\w+\.py)`", readme(repository_root)))
    assert {name for name in named if not (folder / name).exists()} == set()


def test_the_families_of_the_index_are_those_of_the_code(
    repository_root: Path,
) -> None:
    in_readme = re.findall(r"^\| `([A-Z])` ", readme(repository_root), re.MULTILINE)
    assert keys.__doc__ is not None
    in_code = re.findall(r"^    ([A-Z]) ", keys.__doc__, re.MULTILINE)
    assert in_readme == in_code


def test_every_metric_is_explained(repository_root: Path) -> None:
    named = set(re.findall(r"`halfpast_(\w+)", readme(repository_root)))
    ours = {it for it in HELP if it.startswith(("transactions_", "check", "txn_"))}
    assert named == ours


def test_every_setting_of_a_producer_group_is_there(repository_root: Path) -> None:
    rows = re.findall(r"^\| `(check_\w+)` ", readme(repository_root), re.MULTILINE)
    names = [field.name for field in fields(ProducerGroupSettings)]
    assert sorted(rows) == sorted(set(names) - {"description"})


def verify(root: Path) -> Callable[[dict[str, str], bytes, str], bool]:
    """What the README gives receivers of check-backs."""
    [snippet] = re.findall(r"```python\n(.*?)```", readme(root), re.DOTALL)
    names: dict[str, Callable[[dict[str, str], bytes, str], bool]] = {}
    exec(snippet, names)
    return names["is_from_halfpast"]


def test_the_way_to_verify_a_call_is_right(
    repository_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.time", lambda: NOW_S + 299.0)
    is_from_halfpast = verify(repository_root)
    check = Check(bytes(16), "orders", 1, NOW_S * 1000, "", 0, [])
    body = call_body(check, NOW_S * 1000)
    endpoint = CheckEndpoint(url="https://a.example/", secrets=SECRETS)
    headers = call_headers(endpoint, check, NOW_S * 1000, body)
    for secret in SECRETS:
        assert is_from_halfpast(headers, body, secret)
    assert not is_from_halfpast(headers, body, secret_text(bytes(32)))
    assert not is_from_halfpast(headers, body + b" ", SECRETS[0])
    other = {**headers, "webhook-id": headers["webhook-id"] + "1"}
    assert not is_from_halfpast(other, body, SECRETS[0])
    monkeypatch.setattr("time.time", lambda: NOW_S + 301.0)
    assert not is_from_halfpast(headers, body, SECRETS[0])
