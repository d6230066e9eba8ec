"""Secrets are compared by `hmac.compare_digest` and by nothing else.

`==` ends at the first difference, so how long it takes tells how much was right. What
is compared is told by its name: in the code that meets what callers bring, nothing that
is called like a secret stands on either side of `==`, `!=` or `in`.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

FOLDERS = ("api/halfpast_api", "client/halfpast", "txn/halfpast_txn")
SECRETS = (
    "digest",
    "signature",
    "secret",
    "hmac",
    "csrf",
    "csrf_token",
    "mac",
    "nonce",
)
CONTENTS = {
    # Digests of files and bodies, which guard against accidents.
    "api/halfpast_api/backup",
    "api/halfpast_api/transfer",
    "api/halfpast_api/rocketmq/message_in.py",
}
SHAPES = {
    # Whether what its owner gives is a secret at all, or given twice.
    ("api/halfpast_api/transactions/check_secrets.py", "secret in secrets[:index]"),
    (
        "api/halfpast_api/transactions/check_secrets.py",
        "secret_text(key) != secret",
    ),
    ("client/halfpast/webhook.py", "encoded == secret"),
}
COMPARING = (ast.Eq, ast.NotEq, ast.In, ast.NotIn)


def named_like_a_secret(node: ast.expr) -> bool:
    name = ""
    match node:
        case ast.Name(id=found) | ast.Attribute(attr=found):
            name = found
        case ast.Call(func=ast.Attribute(attr=found)):
            name = found
        case _:
            return False
    words = name.lower().strip("_").split("_")
    return words[-1] in SECRETS or "_".join(words[-2:]) in SECRETS


def comparisons(source: str) -> Iterator[ast.Compare]:
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Compare):
            continue
        sides = [node.left, *node.comparators]
        has_literal = any(isinstance(it, ast.Constant) for it in sides)
        is_comparing = any(isinstance(it, COMPARING) for it in node.ops)
        if is_comparing and not has_literal and any(map(named_like_a_secret, sides)):
            yield node


def test_no_secret_is_compared_by_an_operator(repository_root: Path) -> None:
    found: list[str] = []
    for folder in FOLDERS:
        for path in sorted((repository_root / folder).rglob("*.py")):
            where = path.relative_to(repository_root).as_posix()
            if any(where.startswith(it) for it in CONTENTS):
                continue
            found += [
                f"{where}:{it.lineno}"
                for it in comparisons(path.read_text())
                if (where, ast.unparse(it)) not in SHAPES
            ]
    assert not found, f"use hmac.compare_digest: {found}"


@pytest.mark.parametrize(
    "module",
    [
        "api/halfpast_api/access/secret_digest.py",
        "api/halfpast_api/access/sessions.py",
        "api/halfpast_api/access/oidc_login.py",
        "client/halfpast/webhook.py",
    ],
)
def test_where_secrets_are_compared_it_takes_the_same_time(
    repository_root: Path, module: str
) -> None:
    tree = ast.parse((repository_root / module).read_text())
    names = {it.id for it in ast.walk(tree) if isinstance(it, ast.Name)}
    names |= {it.attr for it in ast.walk(tree) if isinstance(it, ast.Attribute)}
    assert "compare_digest" in names


@pytest.mark.parametrize(
    "source",
    [
        "given == self._digest",
        "secret in secrets",
        "a.hexdigest() != expected_signature",
    ],
)
def test_the_search_finds_them(source: str) -> None:
    assert list(comparisons(source))


@pytest.mark.parametrize("source", ["secret == ''", "a == b", "digest is None"])
def test_the_search_leaves_alone_what_is_none(source: str) -> None:
    assert not list(comparisons(source))
