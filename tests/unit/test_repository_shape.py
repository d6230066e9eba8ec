"""Small modules and small functions: no file that everything drifts into."""

import ast
from collections.abc import Iterator
from pathlib import Path

MODULE_LINES_MAX = 400
FUNCTION_LINES_MAX = 69


def test_modules_are_short(repository_root: Path, repository_files: list[Path]) -> None:
    long: list[str] = []
    for path in _modules(repository_root, repository_files):
        lines = len(path.read_text(encoding="utf-8").splitlines())
        if lines > MODULE_LINES_MAX:
            long.append(f"{path.relative_to(repository_root)}: {lines} lines")
    assert not long, "\n".join(long)


def test_functions_are_short(
    repository_root: Path, repository_files: list[Path]
) -> None:
    long: list[str] = []
    for path in _modules(repository_root, repository_files):
        for function in _functions(ast.parse(path.read_text(encoding="utf-8"))):
            lines = (function.end_lineno or function.lineno) - function.lineno + 1
            if lines > FUNCTION_LINES_MAX:
                where = f"{path.relative_to(repository_root)}:{function.lineno}"
                long.append(f"{where} {function.name}: {lines} lines")
    assert not long, "\n".join(long)


def test_no_module_is_a_drawer(
    repository_root: Path, repository_files: list[Path]
) -> None:
    drawers = {"common.py", "helpers.py", "misc.py", "util.py", "utils.py"}
    found = [path for path in repository_files if path.name in drawers]
    assert not found, [str(path.relative_to(repository_root)) for path in found]


def _modules(root: Path, files: list[Path]) -> Iterator[Path]:
    """The project's own modules; not tests, nor revisions, which never change."""
    for path in files:
        parts = path.relative_to(root).parts
        is_exempt = parts[0] == "tests" or parts[:2] == ("migrations", "versions")
        if path.suffix == ".py" and not is_exempt:
            yield path


def _functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node
