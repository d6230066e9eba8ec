"""Every code block of the README and of docs/ does what its page says."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.cli_process import Suite
from tests.integration.doc_blocks import Block, blocks_of, commands_of
from tests.integration.doc_session import PageFailed, PageSession

from halfpast_loadtest.server_process import free_port

ENDPOINTS = f"127.0.0.1:{free_port()}"
ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PROGRAMS = Path(sys.executable).parent
RUN = ("bash", "console", "python", "javascript")
OPTIONS = ("--port", "0", "--grpc", ENDPOINTS)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    server = Suite("dev", tmp_path_factory.mktemp("docs") / "data", *OPTIONS)
    try:
        yield server.wait_ready().address
    finally:
        server.stop()


@pytest.mark.parametrize("page", PAGES, ids=lambda it: str(it.relative_to(ROOT)))
def test_a_page_does_what_it_says(page: Path, address: str, tmp_path: Path) -> None:
    session = PageSession(address, tmp_path, PROGRAMS, ENDPOINTS)
    session.run(list(blocks_of(page)))


def test_what_is_not_run_says_why() -> None:
    blocks = [block for page in PAGES for block in blocks_of(page)]
    left_out = [block for block in blocks if block.reason]
    run = [it for it in blocks if it.language in RUN and not it.reason]
    assert all(len(block.reason.split()) >= 3 for block in left_out)
    assert len(run) > 4 * len(left_out), "most of what is written is tried"


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("bash", "curl localhost:7080/v1/nothing"),
        ("bash", "halfpast get 01936f1e-8c00-7abc-8def-0123456789ab"),
        ("console", '$ curl localhost:7080/healthz\n{"status":"ill"}'),
        ("python", "await client.schedule('t', 1, delay=timedelta(days=-1))"),
        ("python", "assert False"),
        ("json", '{"a": }'),
        ("fortran", "END"),
        ("", "what is this"),
    ],
)
def test_a_page_that_lies_is_found_out(
    language: str, text: str, address: str, tmp_path: Path
) -> None:
    session = PageSession(address, tmp_path, PROGRAMS)
    with pytest.raises(PageFailed):
        session.run([Block(Path("page.md"), 1, language, text)])


def test_blocks_and_commands_are_read(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A\n\n```console\n$ a b\nsaid\n$ c\n```\n\n"
        '- x\n\n  ```bash no-run="so so so"\n  d\n  ```\n'
    )
    first, second = blocks_of(page)
    assert [(it.text, it.output) for it in commands_of(first.text)] == [
        ("a b", "said\n"),
        ("c", ""),
    ]
    assert (second.language, second.text, second.reason) == ("bash", "d\n", "so so so")
