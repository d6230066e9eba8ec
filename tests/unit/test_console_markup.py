"""What users bring becomes text on pages: nothing is let past the escaping."""

import ast
from pathlib import Path

from jinja2 import Environment, nodes

API = "api/halfpast_api"
MARKED = {
    # JSON in a data block, with every `<` escaped; and files of our own, in a report.
    f"{API}/console/rendering.py",
    f"{API}/console/audits/report.py",
}


def templates(root: Path) -> list[Path]:
    found = sorted((root / API).rglob("templates/**/*.html"))
    assert len(found) > 30
    return found


def test_no_template_lets_anything_past_the_escaping(repository_root: Path) -> None:
    environment = Environment(autoescape=True)
    for path in templates(repository_root):
        tree = environment.parse(path.read_text())
        filters = {it.name for it in tree.find_all(nodes.Filter)}
        assert not filters & {"safe", "forceescape", "tojson"}, path
        assert not list(tree.find_all(nodes.ScopedEvalContextModifier)), path
        assert not list(tree.find_all(nodes.EvalContextModifier)), path


def test_only_what_is_known_to_be_harmless_is_marked_so(repository_root: Path) -> None:
    found: set[str] = set()
    for path in (repository_root / API).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Call(func=ast.Name(id="Markup"), args=[ast.Constant()]):
                    continue  # what is formatted into a constant is escaped
                case ast.Call(func=ast.Name(id="Markup")):
                    found.add(path.relative_to(repository_root).as_posix())
                case _:
                    pass
    assert found == MARKED
