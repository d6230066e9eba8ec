"""docs/ becomes pages: all links lead somewhere, nothing comes from elsewhere."""

import ast
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from scripts.reference.configuration_page import SETTINGS
from scripts.reference.sdk_page import sdk_page
from tests.integration.cli_process import Suite
from tests.integration.doc_blocks import blocks_of

import halfpast
from halfpast_api.metric_help import HELP
from halfpast_api.openapi.catalogue import OPERATIONS

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
LOADED = {"script": "src", "link": "href", "img": "src", "iframe": "src"}
METRIC = re.compile(r"`(halfpast_[a-z_]+)")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages. `strict`: a warning, as about a link, is an error."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "mkdocs",
            "build",
            "--strict",
            "--site-dir",
            str(folder),
        ],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


class Loads(HTMLParser):
    """What a page makes a browser fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        url = given.get(LOADED.get(tag, "")) or ""
        if tag != "link" or given.get("rel") in ("stylesheet", "icon", "preconnect"):
            self.found.append(url)


def test_pages_need_no_network(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 20
    for page in pages:
        loads = Loads()
        loads.feed(page.read_text("utf-8"))
        assert [it for it in loads.found if "//" in it] == [], page
    for style in site.rglob("*.css"):
        assert not re.search(r"url\(['\"]?https?:", style.read_text("utf-8")), style


def test_the_reference_is_whole(site: Path) -> None:
    http = (site / "reference" / "http.html").read_text("utf-8")
    assert [it.name for it in OPERATIONS if f'id="{it.name}"' not in http] == []
    sdk = sdk_page()
    assert [it for it in halfpast.__all__ if f"### {it}\n" not in sdk] == []
    cli = (site / "reference" / "cli.html").read_text("utf-8")
    for command in ("halfpast publish", "halfpast tx force", "halfpast up"):
        assert command in cli
    assert "no-run" not in http + cli


def test_all_settings_are_in_the_reference() -> None:
    """Wherever a service reads its settings from the environment."""
    read: set[str] = set()
    for path in (ROOT / "api" / "halfpast_api").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id == "configured"
                and isinstance(node.args[1], ast.Constant)
            ):
                read.add(str(node.args[1].value))
    assert read == {prefix for _, prefix in SETTINGS.values()}


def test_metrics_that_pages_name_are_there(tmp_path: Path) -> None:
    named = {
        name for page in DOCS.rglob("*.md") for name in METRIC.findall(page.read_text())
    }
    server = Suite("dev", tmp_path / "data", "--port", "0")
    try:
        address = server.wait_ready().address
        done = subprocess.run(
            ["curl", "-s", f"{address}/metrics"],
            capture_output=True,
            text=True,
            check=True,
        )
    finally:
        server.stop()
    known = set(re.findall(r"^# HELP (\S+)", done.stdout, re.MULTILINE))
    known |= {f"halfpast_{name}" for name in HELP}  # some have no values yet
    assert named
    assert named - known - {it.removesuffix("_total") for it in known} == set()


def test_pages_have_titles_and_blocks_have_languages() -> None:
    for page in DOCS.rglob("*.md"):
        text = page.read_text("utf-8").rpartition("\n---\n\n")[2]
        assert text.startswith("# "), page
        assert all(block.language for block in blocks_of(page)), page
