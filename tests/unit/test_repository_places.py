"""No file names a package index, or a folder that only one machine has."""

import re
from pathlib import Path

import pytest

# Written in pieces, so that this file does not name them either.
FORBIDDEN = {
    "an option for a package index": r"(extra-)?index[-_]url|find[-_]links",
    "the host of a package index": (
        r"pypi\.org/(simple|pypi)|python(hosted)\.org|registry\.(npmjs|yarnpkg)\."
    ),
    "a folder of one machine": r"(?<![\w./-])/(root|home/\w+|Users/\w+|work)/",
}


def test_files_name_no_place(
    repository_root: Path, repository_files: list[Path]
) -> None:
    found: list[str] = []
    for path in repository_files:
        content = path.read_bytes()
        if b"\0" in content:  # an image or the like
            continue
        text = content.decode("utf-8")
        where = path.relative_to(repository_root)
        for line_number, line in enumerate(text.splitlines(), start=1):
            found.extend(f"{where}:{line_number} names {it}" for it in _named(line))
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "pieces",
    [
        ("--index", "-url https://example.org"),
        ("PIP_FIND", "_LINKS=wheels"),
        ("https://pypi", ".org/simple"),
        ("see /root", "/project"),
        ("'/home/", "someone/project'"),
    ],
)
def test_places_are_seen(pieces: tuple[str, str]) -> None:
    assert len(_named("".join(pieces))) == 1


@pytest.mark.parametrize(
    "line",
    [
        "a link to https://pypi.org/project/halfpast/",
        "cd work/main",
        "https://a.b/work/",
    ],
)
def test_other_lines_pass(line: str) -> None:
    assert _named(line) == []


def _named(line: str) -> list[str]:
    return [
        what
        for what, pattern in FORBIDDEN.items()
        if re.search(pattern, line, flags=re.IGNORECASE)
    ]
